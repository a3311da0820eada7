//! What others than the commands use of them: how a configuration is found, and a device. Errors are one line, in which
//! settings go by their names and not as flags.

use crate::device::{Choice, DeviceOptions, Dtype};
use crate::error::{Failure, one_line};
use crate::{input, model};
use clap::ValueEnum;
use roformer::Device;
use std::path::Path;

/// The bytes of the `config.json` that is named by its path, by its folder, or by its model's name on the hub.
pub fn config(path: &Path) -> Result<Vec<u8>, String> {
    model::find_config(path).and_then(|path| input::config(&path)).map_err(said)
}

/// The device of these names, as `--device` and `--dtype` take them; one to train on has its kernels loaded.
pub fn device(device: &str, dtype: &str, is_to_train: bool) -> Result<Device, String> {
    let choice: Choice = device.parse().map_err(|expected| format!("device is {device:?}; {expected}"))?;
    let dtype = Dtype::from_str(dtype, false)
        .map_err(|_| format!("dtype is {dtype:?}; expected f32, bf16, int8, tf32 or auto"))?;
    let options = DeviceOptions::new(choice, dtype);
    if is_to_train { options.find_to_train() } else { options.find() }.map_err(said)
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Input(message) | Failure::Other(message) => {
            one_line(&message).replace("--dtype", "dtype").replace("--device ", "device ")
        }
        Failure::Closed => "standard output is closed".into(),
    }
}

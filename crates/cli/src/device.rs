//! Where a model runs: the CPU, or a GPU that is found.

use crate::error::Failure;
#[cfg(feature = "cuda")]
use crate::long::say;
use clap::{Args, ValueEnum};
use roformer::Device;
use std::str::FromStr;

/// Where a model runs, and what it computes in there. A command flattens these into its arguments, [finds](Self::find) the
/// device and runs what is generic over it with [`on_device!`].
#[derive(Args, Clone, Copy)]
pub struct DeviceOptions {
    /// Where to run: auto (an NVIDIA GPU if one can be used, else the CPU), cpu, cuda, or cuda:N for GPU N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Choice,
    /// The type that a GPU computes in: f32, tf32 (factors of products rounded to 11 bits) or bf16 (8 bits throughout) [default: f32]
    #[arg(long, value_enum)]
    dtype: Option<Dtype>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    F32,
    Tf32,
    Bf16,
}

/// What `--device` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Auto,
    Cpu,
    Cuda(usize),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok();
        match text {
            "auto" => Some(Choice::Auto),
            "cpu" => Some(Choice::Cpu),
            "cuda" => Some(Choice::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(number).map(Choice::Cuda),
        }
        .ok_or_else(|| "expected auto, cpu, cuda, or cuda:N with the number of a GPU".to_string())
    }
}

/// Evaluates an expression with a [`Device`], whichever it is: the one place that asks.
macro_rules! on_device {
    ($chosen:expr, |$device:ident| $body:expr) => {
        match $chosen {
            roformer::Device::Cpu => {
                let $device = roformer::ops::Cpu;
                $body
            }
            #[cfg(feature = "cuda")]
            roformer::Device::Cuda($device) => $body,
        }
    };
}
pub(crate) use on_device;

impl Dtype {
    /// The same for the library.
    #[cfg(feature = "cuda")]
    pub fn arithmetic(self) -> roformer::ops::Arithmetic {
        match self {
            Dtype::F32 => roformer::ops::Arithmetic::F32,
            Dtype::Tf32 => roformer::ops::Arithmetic::Tf32,
            Dtype::Bf16 => roformer::ops::Arithmetic::Bf16,
        }
    }
}

impl DeviceOptions {
    /// The device to run on.
    pub fn find(&self) -> Result<Device, Failure> {
        let dtype = self.dtype();
        match self.device {
            Choice::Cpu => self.processor("the CPU computes in no other type"),
            Choice::Auto => match gpu(0, dtype) {
                Ok(gpu) => Ok(gpu),
                Err(why) => self.processor(&why),
            },
            Choice::Cuda(number) => gpu(number, dtype).map_err(Failure::Other),
        }
    }

    /// The device to train on: a GPU with its kernels loaded. Where they have to be compiled, that is said.
    pub fn find_to_train(&self) -> Result<Device, Failure> {
        let device = self.find()?;
        #[cfg(feature = "cuda")]
        if let Device::Cuda(gpu) = &device {
            if !gpu.has_training_kernels() {
                say("compiling kernels for this GPU: some seconds, once");
            }
            // A GPU that runs models may be without the compiler that training needs.
            if let Err(error) = gpu.load_training_kernels() {
                if self.device != Choice::Auto {
                    return Err(error.into());
                }
                let processor = self.processor(&error.to_string())?;
                say(&format!("training on the CPU: {error}"));
                return Ok(processor);
            }
        }
        Ok(device)
    }

    fn dtype(&self) -> Dtype {
        self.dtype.unwrap_or(Dtype::F32)
    }

    /// The CPU, which computes in f32 alone; `why` it is that and no GPU.
    fn processor(&self, why: &str) -> Result<Device, Failure> {
        match self.dtype() {
            Dtype::F32 => Ok(Device::Cpu),
            other => {
                let name = format!("{other:?}").to_lowercase();
                Err(Failure::Input(format!("--dtype is {name}; expected f32: {why}")))
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn gpu(number: usize, dtype: Dtype) -> Result<Device, String> {
    let gpu = roformer::ops::Cuda::new(number, dtype.arithmetic());
    gpu.map(Device::Cuda).map_err(|error| error.to_string())
}

#[cfg(not(feature = "cuda"))]
fn gpu(_number: usize, _dtype: Dtype) -> Result<Device, String> {
    Err("built without the feature `cuda`; build with it to use a GPU".into())
}

//! Where a model runs: the CPU, or a GPU that is found.

use crate::error::Failure;
#[cfg(feature = "cuda")]
use crate::long::say;
use clap::{Args, ValueEnum};
use roformer::Device;
use roformer::ops::{Cpu, Precision};
use std::str::FromStr;

/// Where a model runs, and what it computes in there. A command flattens these into its arguments, [finds](Self::find) the
/// device and runs what is generic over it with [`on_device!`].
#[derive(Args, Clone, Copy)]
pub struct DeviceOptions {
    /// Where to run: auto (an NVIDIA GPU if one can be used, else the CPU), cpu, cuda, or cuda:N for GPU N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Choice,
    /// What to compute in: f32; bf16 (16 bits, 8 of them precision), int8 (8 bits, a scale for each row; on the CPU), tf32 (11 bits of
    /// precision; on a GPU), or auto (bf16 where there are instructions for it, else f32) [default: f32]
    #[arg(long, value_enum)]
    dtype: Option<Dtype>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    Auto,
    #[value(alias = "float32")]
    F32,
    Tf32,
    #[value(alias = "bfloat16")]
    Bf16,
    Int8,
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
            roformer::Device::Cpu($device) => $body,
            #[cfg(feature = "cuda")]
            roformer::Device::Cuda($device) => $body,
        }
    };
}
pub(crate) use on_device;

impl Dtype {
    /// What a GPU computes in.
    #[cfg(feature = "cuda")]
    pub fn arithmetic(self) -> Result<roformer::ops::Arithmetic, Failure> {
        match self {
            Dtype::F32 => Ok(roformer::ops::Arithmetic::F32),
            Dtype::Tf32 => Ok(roformer::ops::Arithmetic::Tf32),
            Dtype::Bf16 | Dtype::Auto => Ok(roformer::ops::Arithmetic::Bf16),
            Dtype::Int8 => Err(Failure::Input(
                "--dtype is int8; expected f32, tf32 or bf16 on a GPU, or --device cpu".into(),
            )),
        }
    }

    /// What the CPU computes in; `why` it is that and no GPU.
    pub fn precision(self, why: &str) -> Result<Precision, Failure> {
        match self {
            Dtype::F32 => Ok(Precision::F32),
            Dtype::Bf16 => Ok(Precision::Bf16),
            Dtype::Int8 => Ok(Precision::Int8),
            Dtype::Auto => Ok(Precision::fastest()),
            Dtype::Tf32 => Err(Failure::Input(format!("--dtype is tf32; expected f32, bf16 or int8: {why}"))),
        }
    }
}

impl DeviceOptions {
    /// As given.
    pub fn new(device: Choice, dtype: Dtype) -> Self {
        DeviceOptions { device, dtype: Some(dtype) }
    }

    /// Takes the CPU where either would do; `false` where a GPU is asked for.
    pub fn take_cpu(&mut self) -> bool {
        let is_cuda = matches!(self.device, Choice::Cuda(_));
        if !is_cuda {
            self.device = Choice::Cpu;
        }
        !is_cuda
    }

    /// The device to run on.
    pub fn find(&self) -> Result<Device, Failure> {
        let dtype = self.dtype.unwrap_or(Dtype::F32);
        let processor = |why: &str| Ok(Device::Cpu(Cpu { precision: dtype.precision(why)? }));
        match self.device {
            Choice::Cpu => processor("no CPU has that type"),
            // What only a CPU computes in.
            Choice::Auto if dtype == Dtype::Int8 => processor(""),
            Choice::Auto => match gpu(0, dtype) {
                Err(Failure::Other(why)) => processor(&why),
                other => other,
            },
            Choice::Cuda(number) => gpu(number, dtype),
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
                self.check_processor(&error.to_string())?;
                say(&format!("training on the CPU: {error}"));
                return Ok(Device::default());
            }
            return Ok(device);
        }
        self.check_processor("the CPU trains in no other type")?;
        Ok(device)
    }

    /// Refuses to train on the CPU in anything but f32; `why` it is that and no GPU.
    fn check_processor(&self, why: &str) -> Result<(), Failure> {
        match self.dtype.unwrap_or(Dtype::F32) {
            Dtype::F32 | Dtype::Auto => Ok(()),
            other => {
                let name = format!("{other:?}").to_lowercase();
                Err(Failure::Input(format!("--dtype is {name}; expected f32: {why}")))
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn gpu(number: usize, dtype: Dtype) -> Result<Device, Failure> {
    let gpu = roformer::ops::Cuda::new(number, dtype.arithmetic()?);
    gpu.map(Device::Cuda).map_err(|error| Failure::Other(error.to_string()))
}

#[cfg(not(feature = "cuda"))]
fn gpu(_number: usize, _dtype: Dtype) -> Result<Device, Failure> {
    Err(Failure::Other("built without the feature `cuda`; build with it to use a GPU".into()))
}

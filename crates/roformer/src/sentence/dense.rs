//! A product and an activation after the pooling.

use super::fields::Fields;
use super::{CONFIG, of_vectors};
use crate::error::{Error, Result};
use crate::files::broken;
use crate::ops::{self, Backend, Cpu};
use crate::weights::{Weights, brief};
use std::path::{Path, PathBuf};

/// The activations of PyTorch that files name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x
    Identity,
    /// tanh x
    Tanh,
    /// max(x, 0)
    Relu,
    /// x·Φ(x)
    Gelu,
    /// x / (1 + e^(−x))
    Silu,
    /// 1 / (1 + e^(−x))
    Sigmoid,
}

impl Activation {
    const NAMED: [(Activation, &'static str); 6] = [
        (Activation::Identity, "Identity"),
        (Activation::Tanh, "Tanh"),
        (Activation::Relu, "ReLU"),
        (Activation::Gelu, "GELU"),
        (Activation::Silu, "SiLU"),
        (Activation::Sigmoid, "Sigmoid"),
    ];

    /// The name of its class in PyTorch.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(activation, _)| *activation == self).map_or("Identity", |(_, name)| name)
    }

    /// The activation of a class such as `torch.nn.modules.activation.Tanh`, or an error that says which there are.
    pub(super) fn from_class(class: &str) -> std::result::Result<Activation, String> {
        let name = class.strip_prefix("torch.nn.").and_then(|path| path.rsplit('.').next());
        let found = Self::NAMED.iter().find(|(_, known)| Some(*known) == name);
        found.map(|(activation, _)| *activation).ok_or_else(|| {
            let names = Self::NAMED.map(|(_, name)| name).join(", ");
            format!(
                "the activation `{}` is not run here; expected a class of torch.nn: {names}",
                brief(class)
            )
        })
    }

    /// Applies it to every number.
    pub(crate) fn apply(self, x: &mut [f32]) {
        match self {
            Activation::Identity => {}
            Activation::Tanh => ops::Activation::Tanh.apply(x),
            Activation::Relu => ops::Activation::Relu.apply(x),
            Activation::Gelu => ops::Activation::Gelu.apply(x),
            Activation::Silu => ops::Activation::Silu.apply(x),
            Activation::Sigmoid => x.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        }
    }
}

/// A product and an activation, without its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dense {
    folder: PathBuf,
    /// Numbers of a vector that it reads.
    pub inputs: usize,
    /// Numbers of a vector that it gives.
    pub outputs: usize,
    /// Whether it has a bias.
    pub has_bias: bool,
    /// What comes after the product.
    pub activation: Activation,
}

impl Dense {
    pub(super) fn read(folder: &Path) -> Result<Dense> {
        let fields = Fields::read(&folder.join(CONFIG))?;
        of_vectors(&fields)?;
        if fields.boolean("use_residual", false)? {
            return Err(fields.wrong("use_residual", "false: such a module is not run here"));
        }
        let named = ["in_features", "out_features", "bias", "activation_function"];
        fields.only(&[&named[..], &["module_input_name", "module_output_name", "use_residual"]].concat())?;
        let size = |field: &str| {
            let size = fields.size(field)?.filter(|&size| size <= 1 << 24);
            size.ok_or_else(|| fields.wrong(field, "a whole number from 1 to 16777216"))
        };
        let (inputs, outputs) = (size("in_features")?, size("out_features")?);
        let activation = match fields.text("activation_function")? {
            Some(class) => Activation::from_class(class).map_err(|reason| broken(fields.path(), reason))?,
            None => Activation::Tanh,
        };
        let has_bias = fields.boolean("bias", true)?;
        Ok(Dense { folder: folder.to_owned(), inputs, outputs, has_bias, activation })
    }

    /// Reads the weights.
    pub(crate) fn load(&self) -> Result<Product> {
        let Dense { inputs, outputs, .. } = *self;
        let weights = Weights::open(&self.folder)?;
        let (weight, bias) = ("linear.weight", "linear.bias");
        if let Some(other) = weights.names().find(|name| *name != weight && !(self.has_bias && *name == bias))
        {
            let expected = format!("{weight}{} alone", if self.has_bias { " and linear.bias" } else { "" });
            return Err(broken(weights.path(), format!("a tensor `{}`; expected {expected}", brief(other))));
        }
        // Its size is that of the file before any memory is asked for.
        let fits = weights.get(weight).is_none_or(|tensor| tensor.shape() == [outputs, inputs]);
        let mut rows = vec![0.0f32; if fits { outputs * inputs } else { 0 }];
        weights.read(weight, &[outputs, inputs], &mut rows)?;
        let mut shift = vec![0.0f32; if self.has_bias { outputs } else { 0 }];
        if self.has_bias {
            weights.read(bias, &[outputs], &mut shift)?;
        }
        if rows.iter().chain(&shift).any(|x| !x.is_finite()) {
            let reason = "a number that is NaN or infinite; expected finite numbers, download it again";
            return Err(broken(weights.path(), reason));
        }
        let mut matrix =
            Cpu::default().matrix(outputs, inputs).map_err(Error::for_want_of("a Dense module"))?;
        Cpu::default().set_rows(&mut matrix, 0, &rows)?;
        if self.has_bias {
            Cpu::default().set_bias(&mut matrix, 0, &shift)?;
        }
        Ok(Product { matrix, inputs, outputs, activation: self.activation })
    }
}

/// A product and an activation that can be run. A vector is small beside the model that made it, so this is on the CPU.
pub(crate) struct Product {
    matrix: <Cpu as Backend>::Matrix<f32>,
    inputs: usize,
    outputs: usize,
    activation: Activation,
}

impl Product {
    /// The length of the vector that it makes of one of this length, which must be what it reads.
    pub fn width_of(&self, len: usize) -> Result<usize> {
        if len != self.inputs {
            let expected = format!("{}, the `in_features` of the Dense module after it", self.inputs);
            return Err(Error::input("the length of the vector", len, expected));
        }
        Ok(self.outputs)
    }

    /// The vector that it makes of another.
    pub fn apply(&self, vector: &[f32]) -> Result<Vec<f32>> {
        self.width_of(vector.len())?;
        let memory = |len| Cpu::default().zeros(len).map_err(Error::for_want_of("a vector"));
        let (mut x, mut out) = (memory(self.inputs)?, memory(self.outputs)?);
        Cpu::default().upload(vector, &mut x)?;
        Cpu::default().product(&self.matrix, &x, ops::Activation::Identity, &mut out)?;
        let mut out = Cpu::default().list(&out, self.outputs)?;
        self.activation.apply(&mut out);
        Ok(out)
    }
}

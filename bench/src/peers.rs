//! Who takes part: each does the job as its user would call it.
//!
//! Ours works in place. The others return new tensors; making those is part of their time, as it is for their users.

use crate::numbers::{HEAD_DIM, KEY_HEADS, LENGTH, Llama, Number, PAIRS, QUERY_HEADS, swap, table};
use burn::nn::{RotaryEncoding, RotaryEncodingConfig};
use burn::tensor::TensorData;
use candle_core::{Device, Error, Result, Tensor};
use rope::{Pairing, Positions, Table, Turn, ViewMut};

/// The order of axes in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `[batch, heads, length, head_dim]`
    Bhld,
    /// `[batch, length, heads, head_dim]`
    Blhd,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::Bhld => "bhld",
            Order::Blhd => "blhd",
        }
    }

    fn shape(self, heads: usize) -> [usize; 4] {
        match self {
            Order::Bhld => [1, heads, LENGTH, HEAD_DIM],
            Order::Blhd => [1, LENGTH, heads, HEAD_DIM],
        }
    }

    fn view<T: Number>(self, data: &mut [T], heads: usize) -> rope::Result<ViewMut<'_, T>> {
        match self {
            Order::Bhld => ViewMut::bhld(data, self.shape(heads)),
            Order::Blhd => ViewMut::blhd(data, self.shape(heads)),
        }
    }

    /// Numbers that are in the order bhld, in this one.
    fn arrange<T: Number>(self, data: &[T], heads: usize) -> Vec<T> {
        match self {
            Order::Bhld => data.to_vec(),
            Order::Blhd => swap(data, heads),
        }
    }

    /// Numbers that are in this order, in the order bhld.
    fn restore<T: Number>(self, data: &[T]) -> Vec<T> {
        match self {
            Order::Bhld => data.to_vec(),
            Order::Blhd => swap(data, LENGTH),
        }
    }
}

pub trait Job<T> {
    /// Rotates q and k once.
    fn rotate(&mut self) -> Result<()>;
    /// q and k after the first rotation, in the order bhld.
    fn result(&self) -> Result<[Vec<T>; 2]>;
    /// How far the peer's angle for pair j at a position may be off, given the exact θ of that pair.
    fn angle_error(&self, _position: f64, _theta: f64) -> f64 {
        0.0
    }
}

pub struct Peer<T> {
    pub name: &'static str,
    pub pairing: Pairing,
    pub order: Order,
    pub job: Box<dyn Job<T>>,
}

impl<T> Peer<T> {
    pub fn new(name: &'static str, pairing: Pairing, order: Order, job: impl Job<T> + 'static) -> Self {
        Peer { name, pairing, order, job: Box::new(job) }
    }
}

pub struct Ours<T> {
    table: Table<f32>,
    order: Order,
    q: Vec<T>,
    k: Vec<T>,
}

impl<T: Number> Ours<T> {
    pub fn new(data: &Llama<T>, pairing: Pairing, order: Order) -> Result<Self> {
        let (q, k) = (order.arrange(&data.q, QUERY_HEADS), order.arrange(&data.k, KEY_HEADS));
        Ok(Ours { table: table(pairing).map_err(Error::wrap)?, order, q, k })
    }
}

impl<T: Number> Job<T> for Ours<T> {
    fn rotate(&mut self) -> Result<()> {
        let mut rotate = || {
            let mut q = self.order.view(&mut self.q, QUERY_HEADS)?;
            let mut k = self.order.view(&mut self.k, KEY_HEADS)?;
            self.table.at(Positions::From(0))?.rotate_pair(Turn::Forward, &mut q, &mut k)
        };
        rotate().map_err(Error::wrap)
    }

    fn result(&self) -> Result<[Vec<T>; 2]> {
        Ok([self.order.restore(&self.q), self.order.restore(&self.k)])
    }
}

/// One of candle-nn's functions, which take x, cos and sin.
pub type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

pub struct Candle {
    function: Function,
    order: Order,
    inputs: [Tensor; 2],
    cos: Tensor,
    sin: Tensor,
    outputs: Option<[Tensor; 2]>,
}

impl Candle {
    /// With the cosines and sines of our table, in the type of the data: candle takes no other.
    pub fn new<T: Number>(data: &Llama<T>, function: Function, order: Order) -> Result<Self> {
        let tensor = |data: &[T], heads| {
            Tensor::from_vec(order.arrange(data, heads), order.shape(heads).to_vec(), &Device::Cpu)
        };
        let table = table(Pairing::Half).map_err(Error::wrap)?;
        let trig = |rows| Tensor::from_slice(rows, (LENGTH, PAIRS), &Device::Cpu)?.to_dtype(T::DTYPE);
        let inputs = [tensor(&data.q, QUERY_HEADS)?, tensor(&data.k, KEY_HEADS)?];
        Ok(Candle {
            function,
            order,
            inputs,
            cos: trig(table.cos())?,
            sin: trig(table.sin())?,
            outputs: None,
        })
    }
}

impl<T: Number> Job<T> for Candle {
    fn rotate(&mut self) -> Result<()> {
        let [q, k] = &self.inputs;
        let rotate = |x| (self.function)(x, &self.cos, &self.sin);
        self.outputs = Some([rotate(q)?, rotate(k)?]);
        Ok(())
    }

    fn result(&self) -> Result<[Vec<T>; 2]> {
        let [q, k] = self.outputs.as_ref().expect("rotated before");
        let numbers = |x: &Tensor| x.flatten_all()?.to_vec1().map(|numbers| self.order.restore(&numbers));
        Ok([numbers(q)?, numbers(k)?])
    }
}

/// burn's layer, which pairs neighbours and makes its own table.
pub struct Burn {
    device: burn::tensor::Device,
    encoding: RotaryEncoding,
    inputs: [burn::Tensor<4>; 2],
    outputs: Option<[burn::Tensor<4>; 2]>,
}

impl Burn {
    pub fn new(data: &Llama<f32>) -> Self {
        let device = burn::tensor::Device::flex();
        let tensor = |data: &[f32], heads| {
            burn::Tensor::from_data(TensorData::new(data.to_vec(), Order::Bhld.shape(heads)), &device)
        };
        let inputs = [tensor(&data.q, QUERY_HEADS), tensor(&data.k, KEY_HEADS)];
        let encoding = RotaryEncodingConfig::new(LENGTH, HEAD_DIM).init(&device);
        Burn { encoding, inputs, outputs: None, device }
    }
}

impl Job<f32> for Burn {
    fn rotate(&mut self) -> Result<()> {
        // A clone shares the numbers: nothing is copied.
        self.outputs = Some(self.inputs.clone().map(|x| self.encoding.forward(x)));
        self.device.sync().map_err(|error| Error::msg(format!("{error:?}")))
    }

    fn result(&self) -> Result<[Vec<f32>; 2]> {
        let [q, k] = self.outputs.clone().expect("rotated before");
        let numbers =
            |x: burn::Tensor<4>| x.into_data().try_to_vec().map_err(|error| Error::msg(format!("{error:?}")));
        Ok([numbers(q)?, numbers(k)?])
    }

    /// burn forms angles in f32: θ = 1/exp(2j/d·ln base), then position·θ. ln base and its product are each rounded,
    /// so the exponent ln(1/θ) is off by up to 2u of itself; that, and one rounding each (two for exp) after it, is θ's
    /// relative error. The product with the position rounds once more.
    fn angle_error(&self, position: f64, theta: f64) -> f64 {
        position * theta * (2.0 * -theta.ln() + 4.0) * f32::ROUNDING
    }
}

//! candle-nn on the CPU: `rotary_emb::rope` (halves) and `rope_i` (neighbours). Cosines and sines are the caller's, in the type of the
//! data: exact ones here, rounded to it.

use ask_kit::{Array, Case, Error, Kind, run};
use candle_core::{D, DType, Device, Tensor};
use candle_nn::rotary_emb::{rope, rope_i};

fn turn(case: &Case, kind: Kind, x: &Array) -> Result<Option<Array>, Error> {
    let settings = &case.rope;
    let (Some(positions), "half" | "interleaved", 0) =
        (case.row(), settings.pairing.as_str(), settings.rotary_offset)
    else {
        return Ok(None);
    };
    let dtype = match kind {
        Kind::F32 => DType::F32,
        Kind::F16 => DType::F16,
        Kind::Bf16 => DType::BF16,
    };
    let table = |wave: fn(f64) -> f64| -> candle_core::Result<Tensor> {
        let rows = positions.iter().flat_map(|&at| settings.inv_freq.iter().map(move |theta| at as f64 * theta));
        let values: Vec<f64> = rows.map(|angle| settings.attention_factor * wave(angle)).collect();
        Tensor::from_vec(values, (positions.len(), settings.inv_freq.len()), &Device::Cpu)?.to_dtype(dtype)
    };
    let (cos, sin) = (table(f64::cos)?, table(f64::sin)?);
    let input = Tensor::from_slice(&x.values, &x.shape, &Device::Cpu)?.to_dtype(dtype)?;
    let (turns, rest) = (settings.rotary_dim, settings.head_dim - settings.rotary_dim);
    let slice = input.narrow(D::Minus1, 0, turns)?.contiguous()?;
    let turned = if settings.pairing == "half" { rope } else { rope_i }(&slice, &cos, &sin)?;
    let whole = Tensor::cat(&[&turned, &input.narrow(D::Minus1, turns, rest)?], D::Minus1)?;
    let values = whole.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    Ok(Some(Array { shape: x.shape, values }))
}

fn main() -> Result<(), Error> {
    run(&["candle-nn"], &[Kind::F32, Kind::F16, Kind::Bf16], turn)
}

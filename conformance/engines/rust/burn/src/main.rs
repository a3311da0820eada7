//! burn on its CPU backend in Rust, Flex: `RotaryEncoding`, which pairs neighbours and forms its own angles, in f32. It takes a first
//! position and tokens in a row, so that it is asked token by token. Rules are a closure of its user's, and are not asked.

use ask_kit::{Array, Case, Error, Kind, run};
use burn::nn::RotaryEncodingConfig;
use burn::tensor::{Device, Tensor, TensorData};

/// A table of more rows is not made.
const MOST: usize = 200_000;

fn turn(case: &Case, _: Kind, x: &Array) -> Result<Option<Array>, Error> {
    let (settings, [_, heads, tokens, dim]) = (&case.rope, x.shape);
    let (Some(positions), "default", "interleaved", true) =
        (case.row(), settings.rule.as_str(), settings.pairing.as_str(), case.length() <= MOST)
    else {
        return Ok(None);
    };
    let (device, turns) = (Device::flex(), settings.rotary_dim);
    let module = RotaryEncodingConfig::new(case.length(), turns).with_theta(case.base() as f32).init(&device);
    let input = Tensor::<4>::from_data(TensorData::new(x.values.clone(), x.shape), &device);
    let turned = positions.iter().enumerate().map(|(token, &at)| {
        let token = input.clone().slice([0..1, 0..heads, token..token + 1, 0..dim]);
        // What does not turn is not given to it.
        let slice = token.clone().slice([0..1, 0..heads, 0..1, 0..turns]);
        let first = module.apply(slice, at as usize);
        if turns == dim { first } else { Tensor::cat(vec![first, token.slice([0..1, 0..heads, 0..1, turns..dim])], 3) }
    });
    let whole = Tensor::cat(turned.collect(), 2);
    assert_eq!(whole.dims(), [1, heads, tokens, dim]);
    let values = whole.into_data().try_to_vec().map_err(|error| format!("{error:?}"))?;
    Ok(Some(Array { shape: x.shape, values }))
}

fn main() -> Result<(), Error> {
    run(&["burn"], &[Kind::F32], turn)
}

//! What an encoding's own parameters came to, as numbers with a meaning.

use super::super::results::Learned;
use super::super::run::Trained;
use roformer::encoding::{Encoding, Kernel};

/// α and ρ of a receptive field, r₁ and r₂ of KERPLE (the mean over heads): a number for each layer. Nothing for others,
/// whose parameters are tables.
pub fn learned(trained: &Trained) -> Vec<Learned> {
    let layers = 0..trained.network.blueprint.layers;
    let numbers = |name: String| {
        let found = trained.layout.find(&name).map_or(0..0, roformer::graph::Parameter::range);
        trained.parameters[found].iter().map(|&number| f64::from(number)).collect::<Vec<_>>()
    };
    let list = |name: &str, layers: Vec<f64>| Learned { name: name.into(), layers };
    match &trained.network.blueprint.encoding {
        Encoding::ReceptiveField(_) => {
            let fields: Vec<_> = layers.map(|layer| numbers(format!("position.receptive.{layer}"))).collect();
            let alpha = |field: &Vec<f64>| 1.0 / (1.0 + (-field[0]).exp());
            vec![
                list("alpha", fields.iter().map(alpha).collect()),
                list("rho", fields.iter().map(|field| field[1]).collect()),
            ]
        }
        Encoding::Kerple(own) => {
            let is_power = own.kernel == Kernel::Power;
            let made = |part: usize, learned: f64| match is_power && part == 1 {
                true => 2.0 / (1.0 + (-learned).exp()),
                false => learned.exp(),
            };
            let of = |part: usize| {
                let mean = |layer| {
                    let heads = numbers(format!("position.kerple.{layer}.weight"));
                    let sum: f64 = heads.chunks(2).map(|head| made(part, head[part])).sum();
                    sum / trained.network.blueprint.heads as f64
                };
                layers.clone().map(mean).collect()
            };
            vec![list("strength", of(0)), list(if is_power { "power" } else { "rate" }, of(1))]
        }
        _ => Vec::new(),
    }
}

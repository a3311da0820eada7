//! A model's own configuration: the verdict of `roformer inspect`, with what it takes to draw it.

use super::check;
use crate::error::{Error, Result};
use roformer::inspect::{Report, object};
use roformer::language::Language;
use rope::{HfConfig, HfOptions, Pairing};
use serde::{Deserialize, Serialize};

/// How a configuration is looked at.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Sequences of so many tokens; those that the model takes if not given.
    pub context: Option<u64>,
    /// Which features form a pair, instead of what follows from `model_type`.
    pub pairing: Option<String>,
}

/// More pairs, over all layer types, than the page can show.
pub const MAX_PAIRS: usize = 4096;

/// The sum of all cosines over distances.
#[derive(Clone, Debug, Serialize)]
pub struct Sum {
    /// Distances from 1 to the length, by equal factors, and the first at which the sum is negative.
    pub distance: Vec<u64>,
    /// Σ_j cos(Δ·θ_j) over the number of pairs.
    pub mean: Vec<f64>,
}

/// What a configuration does.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// What `roformer inspect --json` prints.
    pub object: serde_json::Value,
    /// The verdict.
    pub report: Report,
    /// The sum of cosines of each layer type, where it turns and its length is known.
    pub sums: Vec<Option<Sum>>,
}

/// What the configuration in these bytes does; the verdict is said in a language.
pub fn inspect(ask: &Ask, config: &[u8], language: Language) -> Result<Inspection> {
    let context = ask.context.map(|context| check::within("context", context, 1..=1 << 40)).transpose()?;
    let pairing = ask.pairing.as_deref().filter(|name| !name.is_empty());
    let pairing = pairing.map(|name| name.parse::<Pairing>()).transpose()?;
    if config.is_empty() {
        return Err(Error::refused(
            "the file is empty; expected a Hugging Face config.json",
            "文件是空的；应为 Hugging Face 的 config.json",
        ));
    }
    let config = HfConfig::read(config, &HfOptions { pairing, ..HfOptions::default() })?;
    let ropes = || config.layers.iter().filter_map(|layer| layer.rope.as_ref());
    let pairs: usize = ropes().map(|rope| rope.pairs()).sum();
    if pairs > MAX_PAIRS {
        return Err(Error::refused(
            format!(
                "the configuration has {pairs} pairs over all its layer types; the page shows at most {MAX_PAIRS}, \
                 `roformer inspect` all of them"
            ),
            format!(
                "这份配置所有层类型共有 {pairs} 对；本页最多显示 {MAX_PAIRS} 对，`roformer inspect` 可以显示全部"
            ),
        ));
    }
    let report = Report::in_language(language, &config, context);
    let sums = report.layers.iter().map(|layer| layer.turning.as_ref().and_then(sum)).collect();
    Ok(Inspection { object: object(&config, context), report, sums })
}

fn sum(turning: &roformer::inspect::Turning) -> Option<Sum> {
    const POINTS: usize = 160;
    let length = turning.length.filter(|&length| length > 1)?;
    let theta: Vec<f64> = turning.pairs.iter().map(|pair| pair.theta).collect();
    let at = |point: usize| (length as f64).powf(point as f64 / (POINTS - 1) as f64).round() as u64;
    // The first negative one is seldom among them by chance.
    let negative = turning.training.as_ref().and_then(|training| training.negative);
    let mut distance: Vec<u64> = (0..POINTS).map(at).chain(negative).collect();
    distance.sort_unstable();
    distance.dedup();
    let mean = |&distance: &u64| rope::analysis::cosine_sum(&theta, distance as f64) / theta.len() as f64;
    Some(Sum { mean: distance.iter().map(mean).collect(), distance })
}

/// A configuration to try.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// Its name in an address.
    pub key: &'static str,
    /// The model's name.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

/// Configurations of models that are well known: those of the folder `examples`.
pub const EXAMPLES: &[Example] = &[
    Example {
        key: "llama-3.1-8b",
        name: "Llama 3.1 8B",
        text: include_str!("../../../../examples/llama-3.1-8b.json"),
    },
    Example {
        key: "qwen2.5-7b",
        name: "Qwen2.5 7B",
        text: include_str!("../../../../examples/qwen2.5-7b.json"),
    },
    Example {
        key: "gemma-3-4b",
        name: "Gemma 3 4B",
        text: include_str!("../../../../examples/gemma-3-4b.json"),
    },
    Example {
        key: "roformer-base",
        name: "RoFormer base",
        text: include_str!("../../../../examples/roformer-base.json"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(context: u64) -> Ask {
        Ask { context: Some(context), ..Ask::default() }
    }

    #[test]
    fn examples_are_read_and_drawn() {
        for example in EXAMPLES {
            let shown = inspect(&ask(65_536), example.text.as_bytes(), Language::English).unwrap();
            assert_eq!(shown.sums.len(), shown.report.layers.len());
            for (layer, sum) in shown.report.layers.iter().zip(&shown.sums) {
                let (turning, sum) = (layer.turning.as_ref().unwrap(), sum.as_ref().unwrap());
                assert!(turning.advice.is_some() && turning.pairs.iter().all(|pair| pair.features.is_some()));
                assert_eq!((sum.distance[0], *sum.distance.last().unwrap()), (1, 65_536));
                assert!(sum.mean.iter().all(|mean| mean.abs() <= 1.0));
            }
        }
    }

    #[test]
    fn the_known_values_of_llama_3() {
        let shown = inspect(&Ask::default(), EXAMPLES[0].text.as_bytes(), Language::English).unwrap();
        let turning = shown.report.layers[0].turning.as_ref().unwrap();
        let training = turning.training.as_ref().unwrap();
        assert_eq!((training.length, training.never_turned, training.negative), (8192, 29, Some(85_133)));
        assert_eq!(turning.pairs[0].features, Some((0, 64)));
        assert_eq!(shown.object["inv_freq"][0], 1.0);
    }

    #[test]
    fn hostile_files_are_refused_by_name() {
        let refused = |ask: &Ask, file: &[u8]| inspect(ask, file, Language::English).unwrap_err().to_string();
        let default = Ask::default();
        assert!(refused(&default, b"").contains("empty"));
        assert!(refused(&default, b"\x00\xff\xfe").contains("not a configuration"));
        assert!(refused(&default, b"[1, 2]").contains("not an object"));
        assert!(refused(&default, b"{\"model_type\": \"llama\"").contains("EOF"));
        assert!(refused(&default, br#"{"model_type": "llama", "head_dim": -3}"#).contains("head_dim"));
        assert!(refused(&default, &vec![b' '; rope::config::MAX_CONFIG_BYTES + 1]).contains("bytes"));
        let nested = "[".repeat(1 << 20);
        assert!(refused(&default, nested.as_bytes()).contains("recursion"));
        let llama = EXAMPLES[0].text.as_bytes();
        assert!(refused(&ask(0), llama).contains("context"));
        assert!(refused(&ask(u64::MAX), llama).contains("context"));
        let odd = Ask { pairing: Some("hlaf".into()), ..Ask::default() };
        assert!(refused(&odd, llama).contains("hlaf"));
        let layers: Vec<String> =
            (0..16).map(|layer| format!("\"{layer}\": {{\"rope_theta\": 1e4}}")).collect();
        let many = format!(
            "{{\"model_type\": \"llama\", \"head_dim\": 8192, \"rope_parameters\": {{{}}}}}",
            layers.join(", ")
        );
        assert!(
            refused(&default, many.as_bytes()).contains("65536 pairs"),
            "{}",
            refused(&default, many.as_bytes())
        );
    }

    #[test]
    fn the_pairing_can_be_said() {
        let unknown = br#"{"model_type": "mystery", "head_dim": 8}"#;
        let features = |ask: &Ask| {
            inspect(ask, unknown, Language::English).unwrap().report.layers[0].turning.as_ref().unwrap().pairs
                [1]
            .features
        };
        assert_eq!(features(&Ask::default()), None);
        let said = |name: &str| Ask { pairing: Some(name.into()), ..Ask::default() };
        assert_eq!((features(&said("half")), features(&said("interleaved"))), (Some((1, 5)), Some((2, 3))));
    }

    #[test]
    fn lengths_at_the_edges_are_shown() {
        for file in [
            r#"{"model_type": "llama", "head_dim": 8, "max_position_embeddings": 1}"#,
            r#"{"model_type": "llama", "head_dim": 8}"#,
            r#"{"model_type": "bloom", "alibi": true}"#,
        ] {
            for ask in [Ask::default(), ask(1), ask(2), ask(1 << 40)] {
                inspect(&ask, file.as_bytes(), Language::Chinese).unwrap();
            }
        }
    }
}

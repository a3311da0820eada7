//! What a configuration's rotary embedding does: what `roformer inspect` prints and `roformer explore` draws.
//!
//! [`object`] is the stable interface, one JSON object. [`Report`] is the verdict for people: numbers, and sentences about
//! them.

mod words;

use crate::advice::{Advice, advise_in};
use crate::bands::{Seen, bands, single_precision_error, slowdown};
use crate::language::Language;
use rope::analysis::{PairReport, first_negative, pairs};
use rope::config::Encoding;
use rope::{Frequencies, HfConfig, HfLayer, Pairing, Rope};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// One object, or one per layer type under `layer_types`; `null` for layers without rotary embedding. The frequencies are
/// those for sequences of `context` tokens.
///
/// Of a model that is not rotary: its `model_type` and what it has instead, under `encoding`.
pub fn object(config: &HfConfig, context: Option<u64>) -> Value {
    if config.encoding != Encoding::Rotary {
        return json!({
            "model_type": config.model_type,
            "encoding": config.encoding.to_string(),
            "inv_freq": null,
            "max_position_embeddings": config.max_position_embeddings,
            "warnings": config.warnings,
        });
    }
    match &config.layers[..] {
        [layer @ HfLayer { layer_type: None, .. }] => layer_object(config, layer, context),
        layers => {
            let entry = |layer: &HfLayer| {
                (layer.layer_type.clone().unwrap_or_default(), layer_object(config, layer, context))
            };
            json!({ "layer_types": layers.iter().map(entry).collect::<Map<_, _>>() })
        }
    }
}

fn layer_object(config: &HfConfig, layer: &HfLayer, context: Option<u64>) -> Value {
    let Some(rope) = &layer.rope else { return Value::Null };
    let frequencies = rope.frequencies(context);
    json!({
        "rope_type": layer.rope_type,
        "base": rope.base(),
        "head_dim": rope.head_dim(),
        "rotary_dim": rope.rotary_dim(),
        "pairing": config.pairing.map(Pairing::name),
        "attention_factor": frequencies.attention_factor(),
        "inv_freq": frequencies.inv_freq(),
        "max_position_embeddings": config.max_position_embeddings,
        "warnings": config.warnings,
    })
}

/// The verdict on a configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The `model_type` whose rules were followed.
    pub model_type: Option<String>,
    /// What the model has instead of rotary embedding, in words; `None` if it is rotary.
    pub other_encoding: Option<String>,
    /// Which features turn together, in words.
    pub pairing: &'static str,
    /// The longest sequence the file says the model takes.
    pub max_position_embeddings: Option<u64>,
    /// What is odd but usable.
    pub warnings: Vec<String>,
    /// One for the whole model, or one per layer type.
    pub layers: Vec<Layer>,
}

/// The layers of one type.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// The layer type, or `None` where all layers are alike.
    pub layer_type: Option<String>,
    /// What their rotary embedding does; `None` if they have none.
    pub turning: Option<Turning>,
}

/// What one rope does.
#[derive(Clone, Debug, Serialize)]
pub struct Turning {
    /// The rule's name and what it does, in words.
    pub rule: String,
    /// The base of the frequencies.
    pub base: f64,
    /// Features of a head.
    pub head_dim: usize,
    /// Those that turn.
    pub rotary_dim: usize,
    /// The features of a head, in words.
    pub head: String,
    /// The scale of rotated vectors.
    pub attention_factor: f64,
    /// The length that is looked at: the one asked for, else the longest the model takes, else that of training.
    pub length: Option<u64>,
    /// `[pairs]`, fastest first.
    pub pairs: Vec<Pair>,
    /// Neighbouring pairs that the rule treats alike.
    pub bands: Vec<Band>,
    /// What training has seen and what `length` makes of it; `None` where no length is known.
    pub training: Option<Training>,
    /// What each rule would do at the context asked for.
    pub advice: Option<Advice>,
}

/// One pair of features.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The two features of a head that turn together, before the rotation; `None` if the pairing is unknown.
    pub features: Option<(usize, usize)>,
    /// The frequency, in radians per position.
    pub theta: f64,
    /// Positions that a full turn takes.
    pub wavelength: f64,
    /// Full turns within the length.
    pub turns: Option<f64>,
    /// The part of the circle that training has seen.
    pub seen: Option<f64>,
    /// Whether the length takes it to angles that training has not seen.
    pub is_beyond: bool,
}

/// Neighbouring pairs that a rule treats alike. Numbers are those of the first and of the last pair.
#[derive(Clone, Debug, Serialize)]
pub struct Band {
    /// The first pair and the last.
    pub pairs: [usize; 2],
    /// Their wavelengths.
    pub wavelengths: [f64; 2],
    /// Their turns within the length.
    pub turns: Option<[f64; 2]>,
    /// What the rule does to them, in words.
    pub change: String,
}

/// What training has seen, and what a length makes of it.
#[derive(Clone, Debug, Serialize)]
pub struct Training {
    /// The length of the training sequences.
    pub length: u64,
    /// Pairs that turn but never completed a turn in training.
    pub never_turned: usize,
    /// The first distance at which the sum of all cosines is negative.
    pub negative: Option<u64>,
    /// How far that was searched for.
    pub searched: u64,
    /// How far an angle formed in `f32` is off at the end of the length, in radians.
    pub single_precision_error: f64,
    /// All of it in sentences.
    pub findings: Vec<String>,
}

impl Report {
    /// The verdict for sequences of `context` tokens, or of the longest that the model takes.
    pub fn new(config: &HfConfig, context: Option<u64>) -> Report {
        Report::in_language(Language::English, config, context)
    }

    /// The same, its sentences in this language.
    pub fn in_language(language: Language, config: &HfConfig, context: Option<u64>) -> Report {
        let layer = |layer: &HfLayer| Layer {
            layer_type: layer.layer_type.clone(),
            turning: layer.rope.as_ref().map(|rope| Turning::new(language, config, layer, rope, context)),
        };
        Report {
            model_type: config.model_type.clone(),
            other_encoding: (config.encoding != Encoding::Rotary)
                .then(|| words::note(language, &config.encoding.to_string())),
            pairing: words::pairing(language, config.pairing),
            max_position_embeddings: config.max_position_embeddings,
            warnings: config.warnings.iter().map(|warning| words::note(language, warning)).collect(),
            layers: config.layers.iter().map(layer).collect(),
        }
    }
}

impl Turning {
    fn new(
        language: Language,
        config: &HfConfig,
        layer: &HfLayer,
        rope: &Rope,
        context: Option<u64>,
    ) -> Turning {
        let longest = config.max_position_embeddings;
        let seen = Seen::new(rope, layer.original_length, longest);
        let length = context.or(longest).or(layer.original_length);
        let frequencies = rope.frequencies(length);
        // Without a length the turns mean nothing and are not shown.
        let reports = pairs(frequencies.inv_freq(), length.unwrap_or(0));
        let (offset, count) = (rope.rotary_offset(), rope.pairs());
        let features = |pairing: Pairing, pair: usize| {
            let (first, second) = pairing.features(pair, count);
            (offset + first, offset + second)
        };
        let pair = |&PairReport { pair, theta, wavelength, turns, .. }: &PairReport| Pair {
            features: config.pairing.map(|pairing| features(pairing, pair)),
            theta,
            wavelength,
            turns: length.map(|_| turns),
            seen: seen.as_ref().map(|seen| seen.coverage(pair)),
            is_beyond: seen
                .as_ref()
                .zip(length)
                .is_some_and(|(seen, length)| seen.is_left(pair, theta * length as f64)),
        };
        let pairs: Vec<Pair> = reports.iter().map(pair).collect();
        Turning {
            rule: words::rule(language, rope.schedule()),
            base: rope.base(),
            head_dim: rope.head_dim(),
            rotary_dim: rope.rotary_dim(),
            head: words::head(language, rope),
            attention_factor: frequencies.attention_factor(),
            length,
            bands: Band::all(language, &slowdown(rope, &frequencies), &pairs),
            training: seen
                .as_ref()
                .zip(length)
                .map(|(seen, length)| Training::new(language, rope, &frequencies, seen, length)),
            advice: seen.as_ref().zip(context).map(|(seen, context)| {
                advise_in(language, rope, layer.layer_type.as_deref(), seen, longest, context)
            }),
            pairs,
        }
    }
}

impl Band {
    fn all(language: Language, slowdown: &[f64], pairs: &[Pair]) -> Vec<Band> {
        let band = |band: &crate::bands::Band| {
            let (first, last) = (&pairs[band.first], &pairs[band.last]);
            Band {
                pairs: [band.first, band.last],
                wavelengths: [first.wavelength, last.wavelength],
                turns: first.turns.zip(last.turns).map(|(first, last)| [first, last]),
                change: words::change(language, band.change),
            }
        };
        bands(slowdown).iter().map(band).collect()
    }
}

impl Training {
    fn new(language: Language, rope: &Rope, frequencies: &Frequencies, seen: &Seen, length: u64) -> Training {
        // A longer search than a person waits for is not made.
        let searched = length.min(1 << 22);
        let mut training = Training {
            length: seen.length,
            never_turned: seen.never_turned(),
            negative: first_negative(frequencies.inv_freq(), searched),
            searched,
            single_precision_error: single_precision_error(rope, length),
            findings: Vec::new(),
        };
        training.findings = words::findings(language, &training, rope, length);
        training
    }
}

/// A number in at most seven characters.
pub fn brief(value: f64) -> String {
    match value.abs() {
        size if size.is_infinite() => "∞".to_string(),
        size if size >= 1e7 || (size < 1e-3 && size > 0.0) => format!("{value:.1e}"),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::HfOptions;

    fn read(file: &str) -> HfConfig {
        HfConfig::read(file.as_bytes(), &HfOptions::default()).unwrap()
    }

    #[test]
    fn a_pair_is_the_two_features_that_the_pairing_names() {
        let features = |file: &str, pair: usize| {
            Report::new(&read(file), None).layers[0].turning.clone().unwrap().pairs[pair].features
        };
        assert_eq!(features(r#"{"model_type": "llama", "head_dim": 128}"#, 0), Some((0, 64)));
        assert_eq!(features(r#"{"model_type": "gptj", "n_embd": 4096, "n_head": 16}"#, 3), Some((6, 7)));
        assert_eq!(features(r#"{"model_type": "mystery", "head_dim": 64}"#, 0), None);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let config = read(r#"{"model_type": "mystery", "head_dim": 64}"#);
        let turning = Report::new(&config, None).layers[0].turning.clone().unwrap();
        assert!(turning.length.is_none() && turning.training.is_none() && turning.advice.is_none());
        assert!(turning.pairs.iter().all(|pair| pair.turns.is_none() && pair.seen.is_none()));
        let config = read(r#"{"model_type": "bloom", "alibi": true}"#);
        assert!(Report::new(&config, Some(4096)).layers[0].turning.is_none());
        let object = object(&config, Some(4096));
        assert!(object["inv_freq"].is_null());
        assert!(object["encoding"].as_str().unwrap().contains("ALiBi"), "{object}");
    }

    /// What is inspected is what is run.
    #[test]
    fn a_decoder_turns_as_its_configuration_is_inspected() {
        use crate::blueprint::Blueprint;
        use crate::encoding::{Encoding, Rotary};
        let sizes = r#""model_type": "minimind", "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2"#;
        for more in [
            "",
            r#", "inference_rope_scaling": true"#,
            r#", "inference_rope_scaling": true, "max_position_embeddings": 2048"#,
            r#", "inference_rope_scaling": false, "rope_scaling": {"type": "yarn", "factor": 4.0}"#,
            r#", "rope_theta": 1e4, "initializer_range": NaN"#,
        ] {
            let file = format!("{{{sizes}{more}}}");
            let run = Blueprint::from_config(file.as_bytes()).unwrap().encoding;
            let inspected = read(&file).layers[0].rope.clone().unwrap();
            assert_eq!(run, Encoding::Rotary(Rotary::of(&inspected)), "{file}");
        }
        let file = "\u{feff}{\"model_type\": \"roformer\", \"dropout\": Infinity}";
        assert_eq!(Blueprint::from_config(file.as_bytes()).unwrap().head_dim, 64);
        let used = r#"{"model_type": "roformer", "layer_norm_eps": NaN}"#;
        let error = Blueprint::from_config(used.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("layer_norm_eps") && error.contains("NaN"), "{error}");
    }

    #[test]
    fn the_report_and_the_object_are_about_the_same_frequencies() {
        let config = read(
            r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048,
                "rope_scaling": {"type": "dynamic", "factor": 2.0}}"#,
        );
        for context in [1000, 65536] {
            let theta = object(&config, Some(context))["inv_freq"].clone();
            let turning = Report::new(&config, Some(context)).layers[0].turning.clone().unwrap();
            assert_eq!(json!(turning.pairs.iter().map(|pair| pair.theta).collect::<Vec<_>>()), theta);
            assert_eq!(turning.training.unwrap().length, 2048);
            assert_eq!(turning.advice.unwrap().context, context);
        }
    }
}

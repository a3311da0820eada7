//! What Hugging Face's model classes assume when a configuration does not say: one row per `model_type` in `models.tsv`.
//!
//! Read off transformers 5.22.2 by running each class, and for a few well-known types that are not in it from their own
//! code. Columns: the pairing (`rope_interleave`: that field decides; `reversed`: half, turning backwards); the base and
//! the rotary part of a head where the file has none (`rotary_dim=64`: in features); the width of a head where it is
//! not hidden_size / heads (`global:` of full-attention layers, `qk_rope:` of latent attention, `qk_joined:` where that
//! slice is a part of the head, `ratio` where hidden_size / heads counts whatever the file's head_dim is); whether
//! `partial_rotary_factor` counts under the default rule, which most classes ignore it under; the M-RoPE layout; the
//! type of the text part of a multi-modal model; the rope dictionary used when the file has none (of a multi-modal
//! model: what its text part has where the file is silent); and the class's own hidden_size, heads and
//! max_position_embeddings.

use crate::pairing::Pairing;
use serde_json::Value;

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Model {
    pub name: &'static str,
    pub pairing: PairingRule,
    pub base: f64,
    pub partial: Partial,
    pub head: Head,
    /// Whether `partial_rotary_factor` is read under the default rule.
    pub default_partial: bool,
    pub mrope: Mrope,
    /// The `model_type` of the text part, for multi-modal models.
    pub text: Option<&'static str>,
    /// JSON: the rope dictionary of a file that has none.
    pub rope_parameters: Option<&'static str>,
    pub hidden_size: Option<u64>,
    pub heads: Option<u64>,
    pub positions: Option<u64>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum PairingRule {
    Fixed(Pairing),
    /// `rope_interleave` chooses between interleaved-to-half (true, also if absent) and half.
    RopeInterleave,
    /// Half, turning the other way.
    Reversed,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Partial {
    Factor(f64),
    /// In features.
    Features(usize),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Head {
    /// `head_dim` if given, else hidden_size / heads.
    Derived,
    /// hidden_size / heads, whatever `head_dim` is.
    Ratio,
    /// `head_dim` if given, else this; full-attention layers may have another.
    Default { dim: usize, global: Option<usize> },
    /// `qk_rope_head_dim`: the rotary slice of latent attention, a head of its own here.
    Latent(usize),
    /// `qk_nope_head_dim` + `qk_rope_head_dim`, each this: the slice at the end turns.
    Joined(usize),
    /// `kv_channels`, else this.
    KvChannels(usize),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mrope {
    None,
    Sections(&'static str),
    Interleaved(&'static str),
    /// A layout of its own for image positions.
    Unsupported,
}

/// The row of a `model_type`.
pub(super) fn find(model_type: &str) -> Option<Model> {
    let lines = include_str!("models.tsv").lines().skip(1);
    lines.map(|line| line.split('\t')).find_map(|mut fields| {
        let name = fields.next()?;
        (name == model_type).then(|| parse(name, fields)).flatten()
    })
}

/// Other names that classes have for a field of Hugging Face's.
const ALIASES: &[(&str, &str, &str)] = &[
    ("RefinedWeb", "num_attention_heads", "n_head"),
    ("RefinedWebModel", "num_attention_heads", "n_head"),
    ("bailing_hybrid", "max_position_embeddings", "model_max_length"),
    ("baichuan", "max_position_embeddings", "model_max_length"),
    ("chatglm", "max_position_embeddings", "seq_length"),
    ("codegen", "hidden_size", "n_embd"),
    ("codegen", "num_attention_heads", "n_head"),
    ("codegen", "max_position_embeddings", "n_positions"),
    ("dbrx", "hidden_size", "d_model"),
    ("dbrx", "num_attention_heads", "n_heads"),
    ("dbrx", "max_position_embeddings", "max_seq_len"),
    ("gptj", "hidden_size", "n_embd"),
    ("gptj", "num_attention_heads", "n_head"),
    ("gptj", "max_position_embeddings", "n_positions"),
    ("moonshine", "num_attention_heads", "decoder_num_attention_heads"),
    ("phi-msft", "hidden_size", "n_embd"),
    ("phi-msft", "num_attention_heads", "n_head"),
    ("phi-msft", "max_position_embeddings", "n_positions"),
    ("qwen", "max_position_embeddings", "seq_length"),
];

impl Model {
    /// The names under which the class reads a field.
    pub fn names(&self, field: &'static str) -> Vec<&'static str> {
        let own = ALIASES.iter().filter(|(model, name, _)| *model == self.name && *name == field);
        std::iter::once(field).chain(own.map(|(_, _, alias)| *alias)).collect()
    }
}

/// Gives the text part of a multi-modal model what its class assumes where the file is silent.
pub(super) fn fill_text_part(config: &mut Value) {
    let Some(model) = config["model_type"].as_str().and_then(find).filter(|model| model.text.is_some())
    else {
        return;
    };
    let assumed = model.rope_parameters.and_then(|json| serde_json::from_str(json).ok());
    if let (Some(Value::Object(assumed)), Some(Value::Object(text))) =
        (assumed, config.get_mut("text_config"))
    {
        for (key, value) in assumed {
            text.entry(key).or_insert(value);
        }
    }
}

fn parse(name: &'static str, mut fields: std::str::Split<'static, char>) -> Option<Model> {
    let mut next = || fields.next().map(|field| if field == "-" { "" } else { field });
    let pairing = match next()? {
        "rope_interleave" => PairingRule::RopeInterleave,
        "reversed" => PairingRule::Reversed,
        name => PairingRule::Fixed(name.parse().ok()?),
    };
    let base = next()?.parse().ok()?;
    let partial = next()?;
    let partial = match partial.strip_prefix("rotary_dim=") {
        Some(features) => Partial::Features(features.parse().ok()?),
        None => Partial::Factor(partial.parse().ok()?),
    };
    let head = match next()? {
        "" => Head::Derived,
        "ratio" => Head::Ratio,
        head => match head.split_once(':') {
            Some(("qk_rope", dim)) => Head::Latent(dim.parse().ok()?),
            Some(("qk_joined", dim)) => Head::Joined(dim.parse().ok()?),
            Some(("kv_channels", dim)) => Head::KvChannels(dim.parse().ok()?),
            Some((dim, global)) => Head::Default {
                dim: dim.strip_suffix(" global")?.parse().ok()?,
                global: Some(global.parse().ok()?),
            },
            None => Head::Default { dim: head.parse().ok()?, global: None },
        },
    };
    let default_partial = next()? == "y";
    let mrope = match next()? {
        "" => Mrope::None,
        "unsupported" => Mrope::Unsupported,
        "sections" => Mrope::Sections(""),
        layout => match layout.split_once(':')? {
            ("sections", sections) => Mrope::Sections(sections),
            ("interleaved", sections) => Mrope::Interleaved(sections),
            _ => return None,
        },
    };
    let text = Some(next()?).filter(|text| !text.is_empty());
    let rope_parameters = Some(next()?).filter(|json| !json.is_empty());
    let mut count = || -> Option<Option<u64>> {
        match next()? {
            "" => Some(None),
            count => count.parse().ok().map(Some),
        }
    };
    let (hidden_size, heads, positions) = (count()?, count()?, count()?);
    Some(Model {
        name,
        pairing,
        base,
        partial,
        head,
        default_partial,
        mrope,
        text,
        rope_parameters,
        hidden_size,
        heads,
        positions,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_row_can_be_read() {
        let mut count = 0;
        for line in include_str!("models.tsv").lines().skip(1) {
            let name = line.split('\t').next().unwrap();
            let model = super::find(name).unwrap_or_else(|| panic!("the row of {name}"));
            if let Some(json) = model.rope_parameters {
                serde_json::from_str::<serde_json::Value>(json).unwrap();
            }
            count += 1;
        }
        assert!(count > 250);
    }

    #[test]
    fn no_type_is_both_rotary_and_not() {
        let others = include_str!("other.tsv").lines().skip(1).filter_map(|line| line.split('\t').next());
        for name in others {
            assert!(super::find(name).is_none(), "{name}");
        }
    }
}

//! What Hugging Face's model classes assume when a configuration does not say: one row a `model_type` in `models.tsv`.
//!
//! Read off transformers 5.22.2 by running each class, and for a few well-known types that are not in it from their own
//! code. Columns: the pairing (`rope_interleave`: that field decides; `reversed`: half, turning backwards); the base and
//! the rotary part of a head where the file has none (`rotary_dim=64`: in features); the width of a head where it is
//! not hidden_size / heads (`global:` of full-attention layers, `qk_rope:` of latent attention); whether
//! `partial_rotary_factor` counts under the default rule, which most classes ignore it under; the M-RoPE layout; the
//! type of the text part of a multi-modal model; and the rope dictionary used when the file has none.

use crate::pairing::Pairing;

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
    /// `head_dim` if given, else this; full-attention layers may have another.
    Default { dim: usize, global: Option<usize> },
    /// `qk_rope_head_dim`: the rotary slice of latent attention, a head of its own here.
    Latent(usize),
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
        head => match head.split_once(':') {
            Some(("qk_rope", dim)) => Head::Latent(dim.parse().ok()?),
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
    Some(Model { name, pairing, base, partial, head, default_partial, mrope, text, rope_parameters })
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
}

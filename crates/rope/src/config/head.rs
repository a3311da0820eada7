//! How wide a head is, and how many of its features turn.

use super::dictionaries::NESTED;
use super::fields::Fields;
use super::models::{Head, Partial};
use super::{Context, Reader};
use crate::error::{Error, Result};

/// What turns in a head.
pub(super) struct Turning {
    pub head_dim: usize,
    /// The field that the width comes from.
    pub field: String,
    /// How many features turn, as transformers counts them: this may be odd.
    pub rotary_dim: usize,
    /// The part of the head that is.
    pub part: f64,
    /// Whether they stand at the end of the head.
    pub at_end: bool,
}

impl Reader<'_> {
    /// The width of a head and what turns of it under a rule.
    pub(super) fn turning(
        &mut self,
        ctx: &Context,
        dictionary: &Fields,
        layer_type: Option<&str>,
        rule: &str,
    ) -> Result<Turning> {
        let (head_dim, field) = self.head_dim(ctx, layer_type)?;
        let at_end = ctx.is(&["mistral4", "deepseek_v4"]);
        let (rotary_dim, part) = match self.features(ctx)? {
            Some(features) if features > head_dim as u64 => {
                return Err(ctx.top.error("rotary_dim", format!("at most the head_dim, {head_dim}")));
            }
            Some(features) => (features as usize, features as f64 / head_dim as f64),
            None => self.part(ctx, dictionary, head_dim, rule)?,
        };
        Ok(Turning { head_dim, field, rotary_dim, part, at_end })
    }

    /// The width of a head, or of its rotary slice in latent attention, and the field it comes from.
    fn head_dim(&mut self, ctx: &Context, layer_type: Option<&str>) -> Result<(usize, String)> {
        let top = &ctx.top;
        let head = ctx.model.as_ref().map_or(Head::Derived, |model| model.head);
        if let Head::Joined(slice) = head {
            let count = |key| Ok::<_, Error>(top.count(key)?.unwrap_or(slice as u64) as usize);
            let joined = count("qk_nope_head_dim")?.saturating_add(count("qk_rope_head_dim")?);
            return Ok((joined, top.path("qk_rope_head_dim")));
        }
        let (names, default): (&[&str], Option<usize>) = match head {
            // A wider head for full attention is a field of its own.
            Head::Default { global: Some(global), .. } if layer_type == Some("full_attention") => {
                (&["global_head_dim"], Some(global))
            }
            // Classes in which a width that the file has replaces that of the slice.
            Head::Latent(dim) if ctx.is(&["axk1", "deepseek_v3", "glm4_moe_lite", "youtu"]) => {
                (&["head_dim", "qk_rope_head_dim"], Some(dim))
            }
            Head::Latent(dim) => (&["qk_rope_head_dim"], Some(dim)),
            Head::KvChannels(dim) => (&["head_dim", "kv_channels"], Some(dim)),
            Head::Default { dim, .. } => (&["head_dim"], Some(dim)),
            Head::Derived if ctx.model.is_none() => {
                (&["qk_rope_head_dim", "head_dim", "attention_head_dim"], None)
            }
            Head::Derived if ctx.is(&["zamba2"]) => (&["attention_head_dim", "head_dim"], None),
            Head::Derived if ctx.is(&["hunyuan_vl", "hunyuan_vl_text"]) => {
                (&["head_dim", "attention_head_dim"], None)
            }
            Head::Derived => (&["head_dim"], None),
            Head::Ratio | Head::Joined(_) => (&[], None),
        };
        // Where a class has a width of its own, null asks for hidden_size / heads.
        let is_null = names.iter().any(|name| top.has(name) && top.get(name).is_none());
        match (top.count_of(names)?, default.filter(|_| !is_null)) {
            (Some((name, dim)), _) => return Ok((dim as usize, top.path(name))),
            (None, Some(dim)) => return Ok((dim, top.path(names[0]))),
            (None, None) => {}
        }
        self.ratio(ctx)
    }

    /// hidden_size / heads.
    fn ratio(&mut self, ctx: &Context) -> Result<(usize, String)> {
        let top = &ctx.top;
        let class = ctx.model.as_ref();
        let names = ctx.names("hidden_size", &["n_embd", "d_model"]);
        let hidden = top.count_of(&names)?.or(class.and_then(|class| Some((names[0], class.hidden_size?))));
        let (name, hidden) = hidden
            .ok_or_else(|| top.error("head_dim", "head_dim, or hidden_size and num_attention_heads"))?;
        let names = ctx
            .names("num_attention_heads", &["n_head", "num_heads", "n_heads", "decoder_num_attention_heads"]);
        let heads = top.count_of(&names)?.or(class.and_then(|class| Some((names[0], class.heads?))));
        let (heads_name, heads) =
            heads.ok_or_else(|| top.error("num_attention_heads", "a whole number: hidden_size / heads"))?;
        let hidden = if ctx.is(&["zamba2"]) { hidden.saturating_mul(2) } else { hidden };
        if hidden < heads {
            let expected = format!("at least `{heads_name}`, which is {heads}, or a head_dim");
            return Err(top.error(name, expected));
        }
        if !hidden.is_multiple_of(heads) {
            self.warn(format!(
                "`{name}` is {hidden}, which is not a multiple of `{heads_name}`, {heads}: heads of {}",
                hidden / heads
            ));
        }
        Ok(((hidden / heads) as usize, top.path(name)))
    }

    /// The number of features that turn, where the file or the class gives it as such.
    fn features(&self, ctx: &Context) -> Result<Option<u64>> {
        Ok(match ctx.model.as_ref().map(|model| model.partial) {
            Some(Partial::Features(default)) => Some(ctx.top.count("rotary_dim")?.unwrap_or(default as u64)),
            None => ctx.top.count("rotary_dim")?,
            _ => None,
        })
    }

    /// How many features turn by the part of the head that does, and that part.
    fn part(
        &mut self,
        ctx: &Context,
        dictionary: &Fields,
        head_dim: usize,
        rule: &str,
    ) -> Result<(usize, f64)> {
        let (top, model) = (&ctx.top, ctx.model.as_ref());
        let outer: &[&str] = match ctx.model.as_ref().map(|model| model.name) {
            Some("gpt_neox" | "gpt_neox_japanese" | "qwen") => &["rotary_pct"],
            // Their dictionaries have a part before the file's is looked at.
            Some("bamba" | "cohere2_moe" | "mistral4") => &[],
            Some(name) if NESTED.contains(&name) => &[],
            Some("stablelm_epoch") => &["rope_pct", "partial_rotary_factor"],
            Some(_) => &["partial_rotary_factor"],
            None => &["partial_rotary_factor", "rotary_pct"],
        };
        let mut given = None;
        let mut source = (dictionary, "partial_rotary_factor");
        let places = std::iter::once(source).chain(outer.iter().map(|key| (top, *key)));
        for (fields, key) in places {
            given = match fields.number(key)? {
                Some(part) if !(0.0..=1.0).contains(&part) || (part == 0.0 && rule != "proportional") => {
                    return Err(fields.error(key, "a number greater than 0, and at most 1"));
                }
                part => part,
            };
            if given.is_some() {
                source = (fields, key);
                break;
            }
        }
        let mut part = match given {
            Some(part) => part,
            None if rule == "default" && ctx.is(&["mimo_v2_flash"]) => 0.334,
            None => self.assumed_part(ctx, head_dim)?,
        };
        let ignored = rule == "default" && model.is_some_and(|model| !model.default_partial);
        if part != 1.0 && ignored {
            if given.is_some() {
                self.warn("`partial_rotary_factor` is ignored by this model's class under the default rule");
            }
            part = 1.0;
        }
        if rule == "proportional" {
            return Ok((head_dim, part));
        }
        let features = (head_dim as f64 * part) as usize;
        if features == 0 {
            let message = format!("a part of head_dim {head_dim} that leaves at least one feature");
            return Err(source.0.error(source.1, message));
        }
        Ok((features, part))
    }

    /// The part of a head that turns where no part is given.
    fn assumed_part(&self, ctx: &Context, head_dim: usize) -> Result<f64> {
        let in_features = match ctx.model.as_ref().map(|model| model.name) {
            Some("minimax_m2") => ctx.top.count("rotary_dim")?,
            Some("mistral4") => Some(ctx.top.count("qk_rope_head_dim")?.unwrap_or(64)),
            _ => None,
        };
        Ok(match (in_features, ctx.model.as_ref().map(|model| model.partial)) {
            (Some(features), _) => (features as f64 / head_dim as f64).min(1.0),
            (None, Some(Partial::Factor(part))) => part,
            _ => 1.0,
        })
    }
}

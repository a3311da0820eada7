//! One rope dictionary → one rope: the rule, its settings, the rotary part of the head, the axes.

use super::fields::{Fields, plain};
use super::models::{Head, Mrope, Partial};
use super::{Context, FIXED_BASE, NEOX, PHI_3, Reader, Sources, Spec};
use crate::error::{Error, Result};
use crate::rope::{Axes, Rope};
use crate::schedule::{Llama3, LongRope, Ramp, Schedule, Yarn};

/// Keys that some rule reads.
const READ: &[&str] = &[
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "short_factor",
    "long_factor",
    "low_freq_factor",
    "high_freq_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "mrope_section",
    "mrope_interleaved",
    "xdrope_section",
    "alpha",
    "llama_4_scaling_beta",
    "short_mscale",
    "long_mscale",
];
/// Keys that are found in files and change nothing.
const HARMLESS: &[&str] = &["finetuned", "max_position_embeddings", "interleaved"];

/// Whether a key belongs to a rope dictionary (and is not the name of a layer type).
pub(super) fn is_known(key: &str) -> bool {
    READ.contains(&key) || HARMLESS.contains(&key)
}

impl Reader<'_> {
    /// The rope that a dictionary describes.
    pub(super) fn rule(
        &mut self,
        ctx: &Context,
        dictionary: &Fields,
        (head_dim, head_field): (usize, String),
    ) -> Result<Spec> {
        for key in dictionary.keys() {
            if !is_known(key) && !self.options.allow_unknown.contains(key) {
                let (field, key) = (dictionary.path(key), plain(key));
                return Err(Error::UnknownKey { field, key, known: READ.join(", ") });
            }
        }
        let rule = self.rule_name(ctx, dictionary)?;
        let mut sources = Sources::default();
        for argument in ["head_dim", "rotary_dim", "rotary_offset"] {
            sources.add(argument, head_field.clone());
        }
        let base = self.base(ctx, dictionary, &mut sources)?;
        let (rotary_dim, partial) = self.rotary_dim(ctx, dictionary, head_dim, rule)?;
        let original = self.original_length(ctx, dictionary, rule, &mut sources)?;
        for key in ["factor", "mscale", "mscale_all_dim", "short_factor", "long_factor"] {
            if dictionary.get(key).is_some() {
                sources.add(key, dictionary.path(key));
            }
        }
        // What follows from other fields is named by them.
        let scales = dictionary.path("mscale, mscale_all_dim, short_mscale or long_mscale");
        let given = dictionary.get("attention_factor").is_some();
        sources.add("attention_factor", if given { dictionary.path("attention_factor") } else { scales });
        let schedule = self.schedule(ctx, dictionary, rule, original, partial)?;

        let mut builder = Rope::builder(head_dim).base(base).schedule(schedule);
        if rotary_dim % 2 == 1 {
            self.warn(format!(
                "an odd rotary dimension, {rotary_dim}: one more feature turns, with {rotary_dim} in the exponent"
            ));
            builder = builder.exponent_dim(rotary_dim);
        }
        let rotary_dim = rotary_dim.next_multiple_of(2);
        builder = builder.rotary_dim(rotary_dim);
        if let Some(axes) = self.axes(ctx, dictionary, rotary_dim / 2)? {
            builder = builder.axes(axes);
        }
        Ok(Spec { builder, rule: rule.to_string(), original_length: original, sources })
    }

    /// `rope_type`, with older names resolved.
    fn rule_name<'v>(&mut self, ctx: &Context, dictionary: &Fields<'v>) -> Result<&'v str> {
        let name = dictionary.string("rope_type")?.or(dictionary.string("type")?);
        if name.is_none() && dictionary.has("factor") {
            self.warn(format!("`{}` has no `rope_type`: its factor is ignored", dictionary.path("factor")));
        }
        Ok(match name.unwrap_or("default") {
            "su" => {
                self.warn("the rule \"su\" is an older name of \"longrope\"");
                "longrope"
            }
            "yarn" if ctx.is(PHI_3) => {
                self.warn("this model's class reads the rule \"yarn\" as \"longrope\"");
                "longrope"
            }
            "mrope" => "default",
            "xdrope" => "dynamic",
            known @ ("default" | "linear" | "dynamic" | "yarn" | "longrope" | "llama3" | "proportional") => {
                known
            }
            _ => {
                let key = if dictionary.has("rope_type") { "rope_type" } else { "type" };
                return Err(dictionary.error(
                    key,
                    "default, linear, dynamic, yarn, longrope, llama3 or proportional (or the older su, mrope, xdrope)",
                ));
            }
        })
    }

    fn base(&mut self, ctx: &Context, dictionary: &Fields, sources: &mut Sources) -> Result<f64> {
        let top = &ctx.top;
        let default = ctx.model.as_ref().map_or(10_000.0, |model| model.base);
        if ctx.is(FIXED_BASE) {
            if top.base("rope_theta")?.is_some_and(|base| base != default) {
                self.warn(format!(
                    "`rope_theta` is ignored: the base of this model type is {default} in its code"
                ));
            }
            return Ok(default);
        }
        let outer: &[&str] = match ctx.is(NEOX) {
            true => &["rotary_emb_base"],
            false if ctx.model.is_none() => &["rope_theta", "rotary_emb_base"],
            false => &["rope_theta"],
        };
        if ctx.is(NEOX) && top.has("rope_theta") {
            self.warn("`rope_theta` is ignored by this model's class, which reads `rotary_emb_base`");
        }
        let places = std::iter::once((dictionary, "rope_theta")).chain(outer.iter().map(|key| (top, *key)));
        let mut given = None;
        for (fields, key) in places {
            if let Some(base) = fields.base(key)? {
                sources.add("base", fields.path(key));
                given = Some(base);
                break;
            }
        }
        if given.is_none() && ctx.model.is_none() {
            self.warn("no `rope_theta`, and the model type is unknown: the base is taken to be 10000");
        }
        let base = given.unwrap_or(default);
        // ChatGLM stretches its base by a field of its own.
        Ok(if ctx.is(&["chatglm"]) { base * top.positive("rope_ratio")?.unwrap_or(1.0) } else { base })
    }

    /// How many features turn, and the part of the head that is.
    fn rotary_dim(
        &mut self,
        ctx: &Context,
        dictionary: &Fields,
        head_dim: usize,
        rule: &str,
    ) -> Result<(usize, f64)> {
        let top = &ctx.top;
        let model = ctx.model.as_ref();
        let in_features = match model.map(|model| model.partial) {
            Some(Partial::Features(default)) => Some(top.count("rotary_dim")?.unwrap_or(default as u64)),
            _ if model.is_none() || ctx.is(&["minimax_m2"]) => top.count("rotary_dim")?,
            _ => None,
        };
        if let Some(features) = in_features {
            if features > head_dim as u64 {
                return Err(top.error("rotary_dim", format!("at most the head_dim, {head_dim}")));
            }
            return Ok((features as usize, features as f64 / head_dim as f64));
        }
        let mut given = None;
        let mut source = (dictionary, "partial_rotary_factor");
        for (fields, key) in [
            (dictionary, "partial_rotary_factor"),
            (top, if ctx.is(NEOX) { "rotary_pct" } else { "partial_rotary_factor" }),
            (top, if model.is_none() { "rotary_pct" } else { "partial_rotary_factor" }),
        ] {
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
        let default = match model.map(|model| model.partial) {
            Some(Partial::Factor(part)) => part,
            _ => 1.0,
        };
        let mut part = given.unwrap_or(default);
        let latent =
            model.is_some_and(|model| matches!(model.head, Head::Latent(_)) && !model.default_partial);
        let ignored = rule == "default" && model.is_some_and(|model| !model.default_partial);
        if part != 1.0 && (ignored || latent) {
            self.warn("`partial_rotary_factor` is ignored by this model's class under the default rule");
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

    /// The length the frequencies were trained at, for the rules that need one.
    fn original_length(
        &mut self,
        ctx: &Context,
        dictionary: &Fields,
        rule: &str,
        sources: &mut Sources,
    ) -> Result<Option<u64>> {
        if !["yarn", "longrope", "llama3"].contains(&rule) {
            return Ok(None);
        }
        let key = "original_max_position_embeddings";
        let inner = dictionary.count(key)?;
        let outer = if ctx.nested { None } else { ctx.top.count(key)? };
        if let (Some(inner), Some(outer)) = (inner, outer)
            && inner != outer
        {
            self.warn(format!(
                "`{key}` is {outer} at the top and {inner} in the rope dictionary; the top counts"
            ));
        }
        let field = if outer.is_some() { ctx.top.path(key) } else { dictionary.path(key) };
        if dictionary.get("factor").is_none() {
            sources.add("factor", field.clone());
        }
        sources.add("original_length", field);
        let class = if ctx.is(PHI_3) && !ctx.nested { Some(4096) } else { None };
        match outer.or(inner).or(class).or(ctx.max_position_embeddings) {
            Some(length) => Ok(Some(length)),
            None => Err(dictionary.error(key, "a whole number, or max_position_embeddings in the file")),
        }
    }

    fn schedule(
        &mut self,
        ctx: &Context,
        dictionary: &Fields,
        rule: &str,
        original: Option<u64>,
        partial: f64,
    ) -> Result<Schedule> {
        let longest = ctx.max_position_embeddings;
        let original = original.unwrap_or(1);
        let factor = dictionary.positive("factor")?;
        if factor.is_some_and(|factor| factor < 1.0) {
            self.warn(format!("`{}` is less than 1: it shrinks the context", dictionary.path("factor")));
        }
        let required = || factor.ok_or_else(|| dictionary.error("factor", "a number of at least 1"));
        let stretch = || match longest {
            Some(longest) => Ok(longest as f64 / original as f64),
            None => Err(dictionary.error("factor", "a number, or max_position_embeddings in the file")),
        };
        if dictionary.has("llama_4_scaling_beta") {
            self.warn("`llama_4_scaling_beta`: queries are also scaled by position; that is no part of the rotation");
        }
        Ok(match rule {
            "linear" => Schedule::Linear { factor: required()? },
            "dynamic" => match dictionary.positive("alpha")? {
                // Hunyuan: a fixed stretch of the base, whatever the length.
                Some(alpha) => Schedule::NtkAware { factor: alpha },
                None => Schedule::DynamicNtk {
                    factor: required()?,
                    trained_length: longest.ok_or_else(|| {
                        ctx.top.error("max_position_embeddings", "a whole number: \"dynamic\" needs it")
                    })?,
                },
            },
            "yarn" => {
                let factor = match factor {
                    Some(factor) => factor,
                    None if dictionary.has("factor") => stretch()?,
                    None => {
                        return Err(dictionary.error("factor", "a number, or null for max / original length"));
                    }
                };
                let implied = longest.map(|longest| longest as f64 / original as f64);
                if let Some(implied) = implied.filter(|&implied| implied != factor && implied != 1.0) {
                    self.warn(format!(
                        "`factor` is {factor}, but the two lengths say {implied}; \
                         the factor counts, as transformers reads it"
                    ));
                }
                let truncate = dictionary.boolean("truncate")?.unwrap_or(true);
                if ctx.nested && !truncate {
                    self.warn("`truncate` is false in a layer type; transformers 5.22 does not see it there");
                }
                // Zero counts as absent, as transformers reads it.
                let beta = |key, default| -> Result<f64> {
                    match dictionary.number(key)? {
                        Some(beta) if beta < 0.0 => Err(dictionary.error(key, "a number greater than 0")),
                        Some(0.0) | None => Ok(default),
                        Some(beta) => Ok(beta),
                    }
                };
                let (beta_fast, beta_slow) = (beta("beta_fast", 32.0)?, beta("beta_slow", 1.0)?);
                if beta_fast < beta_slow {
                    return Err(dictionary.error("beta_fast", format!("at least beta_slow, {beta_slow}")));
                }
                let mscale_all_dim = dictionary.number("mscale_all_dim")?;
                if mscale_all_dim.is_some_and(|mscale| mscale != 0.0)
                    && ctx.model.as_ref().is_some_and(|model| matches!(model.head, Head::Latent(_)))
                {
                    self.warn(
                        "`mscale_all_dim`: this model also multiplies its softmax scale; that is no part of the rotation",
                    );
                }
                Schedule::Yarn(Yarn {
                    factor,
                    original_length: original,
                    beta_fast,
                    beta_slow,
                    ramp: Ramp::Index { truncate },
                    attention_factor: dictionary.positive("attention_factor")?,
                    mscale: dictionary.number("mscale")?,
                    mscale_all_dim,
                })
            }
            "longrope" => {
                let list = |key| -> Result<Vec<f64>> {
                    let list = dictionary.numbers(key)?;
                    let list = list.ok_or_else(|| dictionary.error(key, "a list of one number a pair"))?;
                    match list.iter().all(|&by| by > 0.0) {
                        true => Ok(list),
                        false => Err(dictionary.error(key, "numbers greater than 0")),
                    }
                };
                let scales = (dictionary.positive("short_mscale")?, dictionary.positive("long_mscale")?);
                let attention_factor = match scales {
                    (None, None) => dictionary.positive("attention_factor")?,
                    (Some(short), Some(long)) if short == long => Some(short),
                    _ => {
                        let expected = "the same as short_mscale: a factor that changes with the length is not supported";
                        return Err(dictionary.error("long_mscale", expected));
                    }
                };
                let factor = match factor {
                    Some(factor) => factor,
                    None => stretch()?,
                };
                Schedule::LongRope(LongRope {
                    short: list("short_factor")?,
                    long: list("long_factor")?,
                    original_length: original,
                    factor,
                    attention_factor,
                })
            }
            "llama3" => {
                let need = |key| -> Result<f64> {
                    dictionary.positive(key)?.ok_or_else(|| dictionary.error(key, "a number greater than 0"))
                };
                let (low, high) = (need("low_freq_factor")?, need("high_freq_factor")?);
                if high < low {
                    return Err(
                        dictionary.error("high_freq_factor", format!("at least low_freq_factor, {low}"))
                    );
                }
                if longest.is_some_and(|longest| original >= longest) {
                    self.warn(
                        "the original length is not below `max_position_embeddings`: nothing to stretch",
                    );
                }
                Schedule::Llama3(Llama3 {
                    factor: required()?,
                    low_freq_factor: low,
                    high_freq_factor: high,
                    original_length: original,
                })
            }
            "proportional" => Schedule::Proportional { fraction: partial, factor: factor.unwrap_or(1.0) },
            _ => Schedule::Default,
        })
    }

    /// The axes of an M-RoPE model.
    fn axes(&mut self, ctx: &Context, dictionary: &Fields, pairs: usize) -> Result<Option<Axes>> {
        let key = if dictionary.has("mrope_section") { "mrope_section" } else { "xdrope_section" };
        let given = dictionary.counts(key)?;
        let interleaved = dictionary.boolean("mrope_interleaved")?;
        let layout = match ctx.model.as_ref().map(|model| model.mrope) {
            Some(layout) => layout,
            None if interleaved == Some(true) => Mrope::Interleaved(""),
            None => Mrope::Sections(""),
        };
        let sections = |default: &str| {
            given.clone().unwrap_or_else(|| default.split(',').filter_map(|size| size.parse().ok()).collect())
        };
        let (sections, interleaved) = match layout {
            Mrope::None if given.is_some() => {
                self.warn(format!("`{}` is ignored by this model's class", dictionary.path(key)));
                return Ok(None);
            }
            Mrope::None => return Ok(None),
            Mrope::Unsupported => {
                self.warn(
                    "image positions of this model type have a layout of their own; text positions are right",
                );
                return Ok(None);
            }
            Mrope::Sections(default) => (sections(default), false),
            Mrope::Interleaved(default) => (sections(default), true),
        };
        if sections.is_empty() && given.is_none() {
            return Ok(None);
        }
        if sections.iter().sum::<usize>() != pairs || sections.len() > 16 {
            if given.is_none() {
                self.warn(format!("the class's sections {sections:?} do not add up to the {pairs} pairs: text positions alone"));
                return Ok(None);
            }
            return Err(
                dictionary.error(key, format!("at most 16 sections that add up to the {pairs} pairs"))
            );
        }
        Ok(Some(if interleaved { Axes::Interleaved(sections) } else { Axes::Sections(sections) }))
    }
}

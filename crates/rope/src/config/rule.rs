//! One rope dictionary → one rope: the rule, its settings, the rotary part of the head, the axes.

use super::fields::{Fields, plain};
use super::head::Turning;
use super::models::{Head, Mrope};
use super::{Context, FIXED_BASE, NEOX, PHI_3, Reader, Sources, Spec};
use crate::error::{Error, Result};
use crate::rope::{Axes, Rope, XPos};
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
    "rho",
    "llama_4_scaling_beta",
    "short_mscale",
    "long_mscale",
];
/// Keys that are found in files and change nothing.
const HARMLESS: &[&str] = &["finetuned", "max_position_embeddings", "interleaved"];

/// A head of odd width as a message shows it: with where the width comes from.
fn odd_head(ctx: &Context, head_dim: usize) -> String {
    match ctx.top.get("head_dim") {
        Some(_) => head_dim.to_string(),
        None => format!("one that makes heads of {head_dim}"),
    }
}

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
        layer_type: Option<&str>,
    ) -> Result<Spec> {
        for key in dictionary.keys() {
            if !is_known(key) && !self.options.allow_unknown.contains(key) {
                let (field, key) = (dictionary.path(key), plain(key));
                return Err(Error::UnknownKey { field, key, known: READ.join(", ") });
            }
        }
        let rule = self.rule_name(ctx, dictionary)?;
        let Turning { head_dim, field: head_field, rotary_dim, part: partial, at_end } =
            self.turning(ctx, dictionary, layer_type, rule)?;
        let mut sources = Sources::default();
        for argument in ["head_dim", "rotary_dim", "rotary_offset"] {
            sources.add(argument, head_field.clone());
        }
        let base = self.base(ctx, dictionary, &mut sources)?;
        let original = self.original_length(ctx, dictionary, rule, &mut sources)?;
        let named = [
            "factor",
            "mscale",
            "mscale_all_dim",
            "short_factor",
            "long_factor",
            "beta_fast",
            "beta_slow",
            "alpha",
            "rho",
        ];
        for key in named {
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
        if rotary_dim % 2 == 1 && rotary_dim == head_dim {
            let expected = "an even number: features turn in pairs";
            return Err(Error::Field {
                field: head_field,
                value: odd_head(ctx, head_dim),
                expected: expected.into(),
            });
        }
        if rotary_dim % 2 == 1 {
            self.warn(format!(
                "an odd rotary dimension, {rotary_dim}: one more feature turns, with {rotary_dim} in the exponent"
            ));
            builder = builder.exponent_dim(rotary_dim);
        }
        let rotary_dim = rotary_dim.next_multiple_of(2);
        builder = builder.rotary_dim(rotary_dim);
        if at_end {
            builder = builder.rotary_offset(head_dim.saturating_sub(rotary_dim));
        }
        if ctx.own_encoding()? == Some("xpos") {
            builder = builder.xpos(XPos::default());
        }
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
            known @ ("default" | "linear" | "dynamic" | "yarn" | "longrope" | "llama3" | "proportional"
            | "receptive-field") => known,
            _ => {
                let key = if dictionary.has("rope_type") { "rope_type" } else { "type" };
                return Err(dictionary.error(
                    key,
                    "default, linear, dynamic, yarn, longrope, llama3, proportional or receptive-field (or the older su, mrope, xdrope)",
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
        let outer: &[&str] = match ctx.model.as_ref().map(|model| model.name) {
            Some("gpt_neox" | "gpt_neox_japanese" | "qwen") => &["rotary_emb_base"],
            // Read before the dictionary is, and spread over the layer types.
            Some("step3p5" | "ultrabert") => &[],
            Some(_) => &["rope_theta"],
            None => &["rope_theta", "rotary_emb_base"],
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
        // Phi-3's class has a length of its own, which counts before the dictionary's.
        let class = if ctx.is(PHI_3) && !ctx.nested { Some(4096) } else { None };
        // Classes that look for the length before they read the field's other name.
        let own = match ctx.model.as_ref().map(|model| model.name) {
            Some("bailing_hybrid") => Some("max_position_embeddings"),
            Some("dbrx") => Some("max_seq_len"),
            _ => None,
        };
        let longest = match own {
            Some(key) => ctx.top.count(key)?.or(ctx.model.as_ref().and_then(|model| model.positions)),
            None => ctx.max_position_embeddings,
        };
        match outer.or(class).or(inner).or(longest) {
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
            self.warn("`llama_4_scaling_beta`: queries are also scaled by position; that is not part of the rotation");
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
                let mut truncate = dictionary.boolean("truncate")?.unwrap_or(true);
                if ctx.nested && !truncate {
                    self.warn("`truncate` is false in a layer type, where transformers 5.22 does not see it: ignored");
                    truncate = true;
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
                    self.warn(format!(
                        "`beta_fast` is {beta_fast}, less than `beta_slow`, {beta_slow}: fast pairs are slowed and slow ones \
                         kept, as transformers reads it"
                    ));
                }
                let mscale_all_dim = dictionary.number("mscale_all_dim")?;
                if mscale_all_dim.is_some_and(|mscale| mscale != 0.0)
                    && ctx.model.as_ref().is_some_and(|model| matches!(model.head, Head::Latent(_)))
                {
                    self.warn(
                        "`mscale_all_dim`: this model also multiplies its softmax scale; that is not part of the rotation",
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
                    let list = list.ok_or_else(|| dictionary.error(key, "a list of one number per pair"))?;
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
            // Of this project: α/10000^ρ + (1−α)·θ_j.
            "receptive-field" => {
                let need = |key| dictionary.number(key)?.ok_or_else(|| dictionary.error(key, "a number"));
                Schedule::ReceptiveField { alpha: need("alpha")?, rho: need("rho")? }
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
                self.warn(format!("the class's sections {sections:?} do not add up to the {pairs} pairs: only text positions are right"));
                return Ok(None);
            }
            return Err(
                dictionary.error(key, format!("at most 16 sections that add up to the {pairs} pairs"))
            );
        }
        Ok(Some(if interleaved { Axes::Interleaved(sections) } else { Axes::Sections(sections) }))
    }
}

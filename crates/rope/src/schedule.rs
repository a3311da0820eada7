//! From a rule to frequencies: θ_j for every pair j, and the attention factor.
//!
//! Every rule starts from θ_j = base^(−2j/d), j from 0, where d is the rotary dimension of a head. Rules that stretch
//! a context change these frequencies; some also scale the rotated vectors by an attention factor. All arithmetic is
//! done to about 106 bits (see `wide.rs`), so that an angle is right at every position to 2^31 and beyond.

use crate::error::{Error, Result, brief};
use crate::wide::{TAU, Wide};
use std::fmt;

/// How the angle position · θ_j is formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum AnglePrecision {
    /// In more than `f64`: the table holds the nearest numbers to the true cosines and sines, at every position.
    #[default]
    Exact,
    /// In `f32`, as Hugging Face decoders do: the frequency and the product are rounded to `f32`, to the same bits (on
    /// x86-64 with AVX-512: torch's `pow` gives other last bits on narrower machines for some dimensions). The
    /// cosine and sine of that angle are correctly rounded, within one unit of torch's. To match such a model
    /// bit for bit at long range; the angle is off by several hundredths of a radian near position 1,000,000.
    F32,
}

/// The rule that makes the frequencies. `d` is the rotary dimension, `s` the factor, θ_j = base^(−2j/d).
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
#[non_exhaustive]
pub enum Schedule {
    /// θ_j: the RoFormer paper.
    #[default]
    Default,
    /// θ_j / s: position interpolation (Chen et al. 2023).
    Linear {
        /// By how much positions are compressed.
        factor: f64,
    },
    /// θ_j with base·s^(d/(d−2)): the fastest pair is left alone, the slowest interpolated by s.
    #[cfg_attr(feature = "serde", serde(rename = "ntk"))]
    NtkAware {
        /// By how much the slowest pair is slowed.
        factor: f64,
    },
    /// NTK-aware with a base that grows with the sequence beyond the trained length, as Hugging Face's `dynamic`.
    #[cfg_attr(feature = "serde", serde(rename = "dynamic"))]
    DynamicNtk {
        /// How fast the base grows.
        factor: f64,
        /// The length up to which nothing changes.
        trained_length: u64,
    },
    /// YaRN (Peng et al. 2023): fast pairs kept, slow pairs interpolated, a ramp between; and an attention factor.
    Yarn(Yarn),
    /// LongRoPE (Ding et al. 2024): a searched divisor for every pair, one list for short and one for long sequences.
    #[cfg_attr(feature = "serde", serde(rename = "longrope"))]
    LongRope(LongRope),
    /// Llama 3.1: kept or interpolated by wavelength, a ramp in rotations between.
    Llama3(Llama3),
    /// p-RoPE: the first ⌊fraction·d/2⌋ pairs turn at θ_j / s, the others not at all. Not the same as a smaller
    /// rotary dimension: here the exponent keeps the whole d, and pairs reach across the whole head.
    Proportional {
        /// The part of the pairs that turns, in [0, 1].
        fraction: f64,
        /// By how much positions are compressed; 1 for none.
        factor: f64,
    },
    /// α/10000^ρ + (1−α)·θ_j: one frequency shared by all pairs, mixed with the usual ones.
    ReceptiveField {
        /// The weight of the shared frequency. At 0 this is the default rule.
        alpha: f64,
        /// The shared frequency is 10000^(−ρ).
        rho: f64,
    },
    /// Frequencies given one by one (learned ones, say), with no attention factor.
    Given(Vec<f64>),
}

/// The settings of YaRN. [`Yarn::new`] has the usual ones.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Yarn {
    /// By how much the context is stretched.
    pub factor: f64,
    /// The length the model was trained at.
    pub original_length: u64,
    /// Pairs that turn more often than this within the original length are kept. 32.
    pub beta_fast: f64,
    /// Pairs that turn less often than this are interpolated. 1.
    pub beta_slow: f64,
    /// The shape of the ramp between the two.
    pub ramp: Ramp,
    /// Replaces the attention factor if given; else it follows from the factor and the two values below.
    pub attention_factor: Option<f64>,
    /// With `mscale_all_dim`: the attention factor is m(mscale)/m(mscale_all_dim), m(x) = 0.1·x·ln s + 1.
    pub mscale: Option<f64>,
    /// See `mscale`.
    pub mscale_all_dim: Option<f64>,
}

/// Where YaRN stands between keeping and interpolating a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum Ramp {
    /// Linear in the index of the pair, between the indices where `beta_fast` and `beta_slow` fall: the released code,
    /// Hugging Face, llama.cpp. `truncate` rounds the two indices outwards.
    Index {
        /// Whether the two ends of the ramp are rounded outwards to whole indices.
        truncate: bool,
    },
    /// Linear in the number of turns within the original length: equation 18 of the paper.
    Rotations,
}

/// The settings of LongRoPE.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct LongRope {
    /// The divisor of each θ_j for sequences up to the original length.
    pub short: Vec<f64>,
    /// The divisor of each θ_j for longer sequences.
    pub long: Vec<f64>,
    /// The length the model was first trained at.
    pub original_length: u64,
    /// By how much the context was stretched: sets the attention factor √(1 + ln s / ln original_length).
    pub factor: f64,
    /// Replaces the attention factor if given.
    pub attention_factor: Option<f64>,
}

/// The settings of the Llama 3.1 rule.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Llama3 {
    /// The divisor of the slow pairs.
    pub factor: f64,
    /// Pairs that turn less often than this within the original length are divided by `factor`. 1.
    pub low_freq_factor: f64,
    /// Pairs that turn more often than this are kept. 4.
    pub high_freq_factor: f64,
    /// The length the model was first trained at.
    pub original_length: u64,
}

impl Yarn {
    /// YaRN as Hugging Face reads it when only these two are given.
    pub fn new(factor: f64, original_length: u64) -> Self {
        Yarn {
            factor,
            original_length,
            beta_fast: 32.0,
            beta_slow: 1.0,
            ramp: Ramp::Index { truncate: true },
            attention_factor: None,
            mscale: None,
            mscale_all_dim: None,
        }
    }

    /// The scale of rotated vectors.
    pub fn attention_factor(&self) -> f64 {
        let m = |scale: f64| if self.factor <= 1.0 { 1.0 } else { 0.1 * scale * self.factor.ln() + 1.0 };
        match (self.attention_factor, self.mscale, self.mscale_all_dim) {
            (Some(given), _, _) => given,
            // As in Hugging Face, zero counts as absent.
            (None, Some(scale), Some(all)) if scale != 0.0 && all != 0.0 => m(scale) / m(all),
            _ => m(1.0),
        }
    }

    /// The ends of Hugging Face's ramp, as indices of pairs.
    pub(crate) fn index_range(&self, base: f64, dim: f64, truncate: bool) -> (f64, f64) {
        let index = |turns: f64| {
            dim * (self.original_length as f64 / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln())
        };
        let (mut low, mut high) = (index(self.beta_fast), index(self.beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(dim - 1.0));
        if low == high {
            high += 0.001;
        }
        (low, high)
    }
}

impl LongRope {
    /// The scale of rotated vectors. It does not change between short and long sequences.
    pub fn attention_factor(&self) -> f64 {
        match self.attention_factor {
            Some(given) => given,
            None if self.factor <= 1.0 => 1.0,
            None => (1.0 + self.factor.ln() / (self.original_length as f64).ln()).sqrt(),
        }
    }

    /// The divisors for a sequence of this length. Exactly the original length is still short.
    pub fn divisors(&self, sequence_length: Option<u64>) -> &[f64] {
        match sequence_length {
            Some(length) if length > self.original_length => &self.long,
            _ => &self.short,
        }
    }
}

/// What a schedule is applied to: θ_j = base^(−2j/dim) for `pairs` pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ladder {
    pub base: f64,
    /// The denominator of the exponent: the rotary dimension (which Hugging Face lets be odd).
    pub dim: usize,
    pub pairs: usize,
}

impl Ladder {
    /// θ_j for the base with this logarithm, to 106 bits.
    fn theta(&self, ln_base: Wide, pair: usize) -> Wide {
        let exponent = Wide::from(-2.0 * pair as f64) / Wide::from(self.dim as f64);
        (ln_base * exponent).exp()
    }
}

impl Schedule {
    /// Checks the rule's own settings against the dimensions it will be applied to.
    pub(crate) fn validate(&self, ladder: &Ladder) -> Result<()> {
        positive("base", ladder.base)?;
        let needs_dim = |least: usize| {
            if ladder.dim >= least {
                return Ok(());
            }
            Err(Error::argument(
                "rotary_dim",
                ladder.dim,
                format!("at least {least} for the rule {}, whose exponent is d/(d−2)", self.name()),
            ))
        };
        let divisors = |name: &'static str, list: &[f64]| {
            if list.len() != ladder.pairs {
                let got = format!("a list of {}", list.len());
                return Err(Error::argument(name, got, format!("one value per pair: {}", ladder.pairs)));
            }
            list.iter().try_for_each(|&value| stretch(name, value))
        };
        match self {
            Schedule::Default => Ok(()),
            Schedule::Linear { factor } => stretch("factor", *factor),
            Schedule::NtkAware { factor } => stretch("factor", *factor).and(needs_dim(3)),
            Schedule::DynamicNtk { factor, trained_length } => {
                stretch("factor", *factor)?;
                positive("trained_length", *trained_length as f64)?;
                needs_dim(3)
            }
            Schedule::Yarn(yarn) => {
                stretch("factor", yarn.factor)?;
                positive("original_length", yarn.original_length as f64)?;
                stretch("beta_fast", yarn.beta_fast)?;
                stretch("beta_slow", yarn.beta_slow)?;
                if yarn.beta_fast < yarn.beta_slow && yarn.ramp == Ramp::Rotations {
                    let expected = format!("at least beta_slow, which is {}", yarn.beta_slow);
                    return Err(Error::argument("beta_fast", brief(yarn.beta_fast), expected));
                }
                if ladder.base <= 1.0 {
                    return Err(Error::argument("base", brief(ladder.base), "more than 1 for YaRN"));
                }
                finite("mscale", yarn.mscale.unwrap_or(1.0))?;
                finite("mscale_all_dim", yarn.mscale_all_dim.unwrap_or(1.0))?;
                usable_factor(yarn.attention_factor())
            }
            Schedule::LongRope(long) => {
                divisors("short_factor", &long.short)?;
                divisors("long_factor", &long.long)?;
                stretch("factor", long.factor)?;
                positive("original_length", long.original_length as f64)?;
                if long.attention_factor.is_none() && long.factor > 1.0 && long.original_length < 2 {
                    let expected = "at least 2: the attention factor divides by its logarithm";
                    return Err(Error::argument("original_length", long.original_length, expected));
                }
                usable_factor(long.attention_factor())
            }
            Schedule::Llama3(llama) => {
                stretch("factor", llama.factor)?;
                positive("low_freq_factor", llama.low_freq_factor)?;
                positive("high_freq_factor", llama.high_freq_factor)?;
                positive("original_length", llama.original_length as f64)?;
                if llama.high_freq_factor < llama.low_freq_factor {
                    let expected = format!("at least low_freq_factor, which is {}", llama.low_freq_factor);
                    return Err(Error::argument("high_freq_factor", brief(llama.high_freq_factor), expected));
                }
                Ok(())
            }
            Schedule::Proportional { fraction, factor } => {
                if !(0.0..=1.0).contains(fraction) {
                    return Err(Error::argument("fraction", brief(*fraction), "a number from 0 to 1"));
                }
                stretch("factor", *factor)
            }
            Schedule::ReceptiveField { alpha, rho } => finite("alpha", *alpha).and(finite("rho", *rho)),
            Schedule::Given(list) => {
                if list.len() != ladder.pairs {
                    let got = format!("a list of {}", list.len());
                    let expected = format!("one frequency per pair: {}", ladder.pairs);
                    return Err(Error::argument("frequencies", got, expected));
                }
                list.iter().try_for_each(|&value| finite("frequencies", value))
            }
        }
    }

    /// The exact frequencies of a validated rule, into `out`.
    pub(crate) fn exact(&self, ladder: &Ladder, sequence_length: Option<u64>, out: &mut Vec<Wide>) {
        let base = Wide::from(ladder.base);
        let dim = Wide::from(ladder.dim as f64);
        let pairs = 0..ladder.pairs;
        let ln_base = base.ln();
        let theta = |pair| ladder.theta(ln_base, pair);
        let ntk = |growth: Wide| (base * growth.pow(dim / (dim - Wide::from(2.0)))).ln();
        out.clear();
        match self {
            Schedule::Default => out.extend(pairs.map(theta)),
            Schedule::Linear { factor } => out.extend(pairs.map(|j| theta(j) / Wide::from(*factor))),
            Schedule::NtkAware { factor } => {
                let ln_base = ntk(Wide::from(*factor));
                out.extend(pairs.map(|j| ladder.theta(ln_base, j)));
            }
            Schedule::DynamicNtk { factor, trained_length } => {
                let (factor, trained) = (Wide::from(*factor), Wide::from(*trained_length as f64));
                let length = Wide::from(sequence_length.unwrap_or(0).max(*trained_length) as f64);
                let ln_base = ntk(factor * length / trained - (factor - Wide::ONE));
                out.extend(pairs.map(|j| ladder.theta(ln_base, j)));
            }
            Schedule::Yarn(yarn) => out.extend(pairs.map(|j| {
                let theta = theta(j);
                let slow = match yarn.ramp {
                    Ramp::Index { truncate } => {
                        let (low, high) = yarn.index_range(ladder.base, ladder.dim as f64, truncate);
                        (Wide::from(j as f64) - Wide::from(low)) / (Wide::from(high) - Wide::from(low))
                    }
                    Ramp::Rotations => {
                        slow_by_turns(theta, yarn.original_length, yarn.beta_slow, yarn.beta_fast)
                    }
                };
                blend(theta, Wide::from(yarn.factor), slow.clamp_unit())
            })),
            Schedule::LongRope(long) => {
                let divisors = long.divisors(sequence_length);
                out.extend(pairs.map(|j| theta(j) / Wide::from(divisors[j])));
            }
            Schedule::Llama3(llama) => out.extend(pairs.map(|j| {
                let theta = theta(j);
                let (low, high) = (llama.low_freq_factor, llama.high_freq_factor);
                let slow = slow_by_turns(theta, llama.original_length, low, high);
                blend(theta, Wide::from(llama.factor), slow.clamp_unit())
            })),
            Schedule::Proportional { fraction, factor } => {
                let turning = turning_pairs(*fraction, ladder.dim);
                out.extend(pairs.map(|j| match j < turning {
                    true => theta(j) / Wide::from(*factor),
                    false => Wide::from(0.0),
                }));
            }
            Schedule::ReceptiveField { alpha, rho } => {
                let shared = Wide::from(*alpha) * Wide::from(10_000.0).pow(Wide::from(-*rho));
                let rest = Wide::ONE - Wide::from(*alpha);
                out.extend(pairs.map(|j| shared + rest * theta(j)));
            }
            Schedule::Given(list) => out.extend(list.iter().map(|&value| Wide::from(value))),
        }
    }

    /// The scale of rotated vectors.
    pub fn attention_factor(&self) -> f64 {
        match self {
            Schedule::Yarn(yarn) => yarn.attention_factor(),
            Schedule::LongRope(long) => long.attention_factor(),
            _ => 1.0,
        }
    }

    /// Whether the frequencies depend on the length of the sequence.
    pub fn depends_on_length(&self) -> bool {
        matches!(self, Schedule::DynamicNtk { .. } | Schedule::LongRope(_))
    }

    /// The rule's name: Hugging Face's `rope_type` where it has one.
    pub fn name(&self) -> &'static str {
        match self {
            Schedule::Default => "default",
            Schedule::Linear { .. } => "linear",
            Schedule::NtkAware { .. } => "ntk",
            Schedule::DynamicNtk { .. } => "dynamic",
            Schedule::Yarn(Yarn { ramp: Ramp::Index { .. }, .. }) => "yarn",
            Schedule::Yarn(Yarn { ramp: Ramp::Rotations, .. }) => "yarn-paper",
            Schedule::LongRope(_) => "longrope",
            Schedule::Llama3(_) => "llama3",
            Schedule::Proportional { .. } => "proportional",
            Schedule::ReceptiveField { .. } => "receptive-field",
            Schedule::Given(_) => "given",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Schedule::Linear { factor } | Schedule::NtkAware { factor } => {
                write!(f, "{name} (factor {factor})")
            }
            Schedule::DynamicNtk { factor, trained_length } => {
                write!(f, "{name} (factor {factor}, beyond {trained_length})")
            }
            Schedule::Yarn(yarn) => {
                write!(f, "{name} (factor {}, original length {})", yarn.factor, yarn.original_length)
            }
            Schedule::LongRope(long) => write!(f, "{name} (original length {})", long.original_length),
            Schedule::Llama3(llama) => {
                write!(f, "{name} (factor {}, original length {})", llama.factor, llama.original_length)
            }
            Schedule::Proportional { fraction, factor } => {
                write!(f, "{name} (fraction {fraction}, factor {factor})")
            }
            Schedule::ReceptiveField { alpha, rho } => write!(f, "{name} (alpha {alpha}, rho {rho})"),
            Schedule::Default | Schedule::Given(_) => write!(f, "{name}"),
        }
    }
}

/// How many pairs of a proportional rule turn: Hugging Face's `int(fraction * dim // 2)`.
pub(crate) fn turning_pairs(fraction: f64, dim: usize) -> usize {
    (fraction * dim as f64 / 2.0).floor() as usize
}

/// 1 for a pair that turns `low` times within the length, 0 for `high` times, linear in the turns: beyond the ends too.
fn slow_by_turns(theta: Wide, length: u64, low: f64, high: f64) -> Wide {
    let turns = Wide::from(length as f64) * theta / TAU;
    if low == high {
        return Wide::from(if turns.hi < low { 1.0 } else { 0.0 });
    }
    (Wide::from(high) - turns) / (Wide::from(high) - Wide::from(low))
}

/// θ interpolated by `factor` where `slow` is 1, kept where it is 0.
fn blend(theta: Wide, factor: Wide, slow: Wide) -> Wide {
    theta / factor * slow + theta * (Wide::ONE - slow)
}

fn positive(name: &'static str, value: f64) -> Result<()> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(Error::argument(name, brief(value), "a finite number greater than 0")),
    }
}

/// Checks a factor of frequencies or of turns: beyond these bounds what is made of it is no ordinary number any more.
fn stretch(name: &'static str, value: f64) -> Result<()> {
    match (1e-9..=1e15).contains(&value) {
        true => Ok(()),
        false => Err(Error::argument(name, brief(value), "a number from 1e-9 to 1e15")),
    }
}

/// Checks that neither the attention factor nor its inverse takes ordinary numbers out of the range of an `f32`.
fn usable_factor(value: f64) -> Result<()> {
    match (1e-6..=1e6).contains(&value) {
        true => Ok(()),
        false => Err(Error::argument("attention_factor", brief(value), "a number from 1e-6 to 1e6")),
    }
}

fn finite(name: &'static str, value: f64) -> Result<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(Error::argument(name, brief(value), "a finite number")),
    }
}

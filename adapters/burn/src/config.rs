//! The settings of a rotary embedding as a configuration of burn.

use crate::Error;
use burn::config::Config;
use rope::{AnglePrecision, Axes, HfConfig, HfOptions, Pairing, Rope, Schedule};

/// The settings of a [`RotaryEmbedding`](crate::RotaryEmbedding), from a model's `config.json` or one by one; burn saves and loads them.
///
/// ```
/// use burn::config::Config;
/// use burn::tensor::Device;
/// use rope_burn::RotaryEmbeddingConfig;
/// use rope_burn::rotary::{Pairing, Schedule, Yarn};
///
/// let config = RotaryEmbeddingConfig::new(32768, 128)
///     .with_pairing(Pairing::Interleaved)
///     .with_schedule(Schedule::Yarn(Yarn::new(4.0, 8192)));
/// let rope = config.init(&Device::flex())?;
/// let again = RotaryEmbeddingConfig::load_binary(config.to_string().as_bytes()).unwrap();
/// assert_eq!(again.rope()?, config.rope()?);
/// # Ok::<(), rope_burn::Error>(())
/// ```
#[derive(Config, Debug)]
pub struct RotaryEmbeddingConfig {
    /// How many positions there are.
    pub max_sequence_length: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// The base of the frequencies, Hugging Face's `rope_theta`.
    #[config(default = 10000.0)]
    pub base: f64,
    /// The rule that makes the frequencies.
    #[config(default = "Schedule::Default")]
    pub schedule: Schedule,
    /// Which features form a pair: j and j + d/2 (Llama, Qwen), or neighbours (RoFormer, GPT-J).
    #[config(default = "Pairing::Half")]
    pub pairing: Pairing,
    /// How many features of a head turn: an even number. All, unless told.
    pub rotary_dim: Option<usize>,
    /// The first feature that turns.
    #[config(default = 0)]
    pub rotary_offset: usize,
    /// Positions with several axes: M-RoPE, images.
    #[config(default = "Axes::One")]
    pub axes: Axes,
    /// How angles are formed.
    #[config(default = "AnglePrecision::Exact")]
    pub angle_precision: AnglePrecision,
    /// Tokens of a sequence, for the rules that depend on it (dynamic NTK, LongRoPE). Unless told, that which the model was trained at.
    pub sequence_length: Option<u64>,
}

impl RotaryEmbeddingConfig {
    /// Reads a model's `config.json`, for the positions `0..max_sequence_length`: the rule, the part of a head that turns, and which
    /// features form a pair.
    ///
    /// All layers have to share one rotary embedding. Of a model with several (Gemma 3, ModernBERT), take each layer type's from
    /// [`rope::Rope::from_hf`] and call [`of`](RotaryEmbeddingConfig::of).
    pub fn from_hf(config: &[u8], max_sequence_length: usize) -> rope::Result<Self> {
        let config = HfConfig::read(config, &HfOptions::default())?;
        Self::of(config.ropes()?.only()?, max_sequence_length)
    }

    /// The settings of a rope. One with an odd number of rotary features, which these fields cannot hold, is refused: make its module by
    /// [`RotaryEmbedding::new`](crate::RotaryEmbedding::new). So is one with xPos scaling, which no module here has, because it needs
    /// other tables for keys than for queries.
    pub fn of(rope: &Rope, max_sequence_length: usize) -> rope::Result<Self> {
        let config = RotaryEmbeddingConfig::new(max_sequence_length, rope.head_dim())
            .with_base(rope.base())
            .with_schedule(rope.schedule().clone())
            .with_pairing(rope.pairing())
            .with_rotary_dim(Some(rope.rotary_dim()))
            .with_rotary_offset(rope.rotary_offset())
            .with_axes(rope.axes().clone())
            .with_angle_precision(rope.angle_precision());
        if config.rope()? == *rope {
            return Ok(config);
        }
        let (value, expected) = match rope.xpos() {
            Some(_) => {
                ("one with xPos scaling", "one without: keys and queries would need tables of their own")
            }
            None => (
                "one with an odd number of rotary features",
                "one without: make its module by `RotaryEmbedding::new`",
            ),
        };
        Err(Error::Argument { name: "rope", value: value.into(), expected: expected.into() })
    }

    /// The rope that these settings are.
    pub fn rope(&self) -> rope::Result<Rope> {
        let builder = Rope::builder(self.head_dim)
            .base(self.base)
            .schedule(self.schedule.clone())
            .pairing(self.pairing)
            .rotary_offset(self.rotary_offset)
            .axes(self.axes.clone())
            .angle_precision(self.angle_precision);
        match self.rotary_dim {
            Some(rotary_dim) => builder.rotary_dim(rotary_dim),
            None => builder,
        }
        .build()
    }
}

//! A model's rotary embedding as a module of burn.

use crate::Result;
use crate::config::RotaryEmbeddingConfig;
use crate::positions::Positions;
use crate::rows::Rows;
use crate::tables::{Covers, Tables};
use burn::backend::DispatchDevice;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::tensor::{DType, Device, Tensor};
use rope::Rope;
use std::sync::Arc;

/// The rotary embedding of a model: which features turn, in which pairs, and exact cosines and sines for a range of positions. Made by
/// [`RotaryEmbeddingConfig`].
///
/// It has no parameters, so records neither hold nor need anything of it. Its tables are made on the CPU; each device that tensors come
/// from gets a copy once, so that moving a model moves nothing here.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use rope_burn::{Positions, RotaryEmbeddingConfig};
///
/// let device = Device::flex();
/// let config = br#"{"model_type": "llama", "head_dim": 128, "rope_theta": 500000.0}"#; // a model's config.json
/// let rope = RotaryEmbeddingConfig::from_hf(config, 8192)?.init(&device)?;
///
/// let q = Tensor::<4>::zeros([1, 32, 10, 128], &device); // [batch, heads, length, head_dim]
/// let k = Tensor::<4>::zeros([1, 8, 10, 128], &device);
/// let rows = rope.at(Positions::From(0))?; // once for all layers of a forward pass
/// let (q, k) = (rows.rotate(q)?, rows.rotate(k)?);
/// # Ok::<(), rope_burn::Error>(())
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct RotaryEmbedding {
    #[module(skip)]
    tables: Arc<Tables>,
}

impl RotaryEmbedding {
    /// Tables of any rope for the positions `0..max_sequence_length`: for what [`RotaryEmbeddingConfig`] has no field for.
    pub fn new(rope: &Rope, max_sequence_length: usize, device: &Device) -> Result<Self> {
        Self::made(rope, max_sequence_length, None, device)
    }

    pub(crate) fn made(
        rope: &Rope,
        max_sequence_length: usize,
        sequence_length: Option<u64>,
        device: &Device,
    ) -> Result<Self> {
        let tables = Tables::new(rope, Covers::length(max_sequence_length)?, sequence_length)?;
        prepare(&tables, device)?;
        Ok(RotaryEmbedding { tables: Arc::new(tables) })
    }

    /// The same embedding as it is for sequences of so many tokens, for the rules that depend on the length (dynamic NTK, LongRoPE).
    /// Unless told, it is that of the length the model was trained at.
    pub fn with_sequence_length(&self, sequence_length: u64) -> Result<Self> {
        let covers = Covers::length(self.tables.rows())?;
        let tables = Tables::new(self.rope(), covers, Some(sequence_length))?;
        Ok(RotaryEmbedding { tables: Arc::new(tables) })
    }

    /// What is rotated, and how fast.
    pub fn rope(&self) -> &Rope {
        self.tables.rope()
    }

    /// Cosines and sines `[max_sequence_length, pairs]` in `f32`, times the attention factor, exact: for kernels of one's own.
    pub fn cos_sin(&self, device: &Device) -> Result<(Tensor<2>, Tensor<2>)> {
        self.tables.on(device, DType::F32)
    }

    /// The rows that the tokens of an input take: made once for all layers of a forward pass.
    pub fn at(&self, positions: Positions) -> Result<Rows> {
        let (read, listed) = positions.read(self.rope().axis_count())?;
        let tables = match listed {
            Some(listed) => {
                let sequence_length = self.tables.sequence_length();
                Arc::new(Tables::new(self.rope(), Covers::Listed(listed), sequence_length)?)
            }
            None => self.tables.clone(),
        };
        Rows::new(tables, read)
    }

    /// Queries and keys of the tokens from a position on: `[batch, heads, length, head_dim]` both.
    pub fn apply(&self, q: Tensor<4>, k: Tensor<4>, position: usize) -> Result<(Tensor<4>, Tensor<4>)> {
        let rows = self.at(Positions::From(position))?;
        Ok((rows.rotate(q)?, rows.rotate(k)?))
    }
}

/// Copies tables to a device, unless its tensors are rotated by rope's kernels.
pub(crate) fn prepare(tables: &Tables, device: &Device) -> Result<()> {
    match device.clone().without_autodiff().as_dispatch() {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => Ok(()),
        #[cfg(feature = "ndarray")]
        DispatchDevice::NdArray(_) => Ok(()),
        #[allow(unreachable_patterns, reason = "which backends there are is the user's choice")]
        _ => tables.on(device, DType::F32).map(|_| ()),
    }
}

impl RotaryEmbeddingConfig {
    /// Makes the embedding, with its tables on `device` where tensors of that are not rotated by rope's kernels.
    pub fn init(&self, device: &Device) -> Result<RotaryEmbedding> {
        RotaryEmbedding::made(&self.rope()?, self.max_sequence_length, self.sequence_length, device)
    }
}

impl ModuleDisplay for RotaryEmbedding {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let rope = self.rope();
        content
            .add("head_dim", &rope.head_dim())
            .add("rotary_dim", &rope.rotary_dim())
            .add("pairing", &rope.pairing().to_string())
            .add("schedule", &rope.schedule().to_string())
            .add("max_sequence_length", &self.tables.rows())
            .optional()
    }
}

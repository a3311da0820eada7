//! burn's own layer by its own names, exact and on rope's kernels.

use crate::Error;
use crate::embedding::prepare;
use crate::positions::Read;
use crate::rows::Rows;
use crate::tables::{Covers, Tables};
use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::tensor::{Device, Tensor, TensorData};
use rope::{Pairing, Rope, Schedule};
use std::sync::Arc;

/// The settings of a [`RotaryEncoding`]: burn's own by their names, so that files of one are files of the other.
#[derive(Config, Debug)]
pub struct RotaryEncodingConfig {
    /// How many positions there are.
    pub max_sequence_length: usize,
    /// Features of a head: an even number.
    pub d_model: usize,
    /// The base of the frequencies.
    #[config(default = "10000.0")]
    pub theta: f32,
}

impl RotaryEncodingConfig {
    /// Makes the layer.
    ///
    /// # Panics
    ///
    /// Where [`try_init`](Self::try_init) has an error, as burn's own does.
    pub fn init(&self, device: &Device) -> RotaryEncoding {
        self.try_init(device).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Makes the layer with frequencies that `scaling` makes of the usual ones, `[d_model / 2]`.
    ///
    /// # Panics
    ///
    /// Where [`try_init_with_frequency_scaling`](Self::try_init_with_frequency_scaling) has an error, as burn's own does.
    pub fn init_with_frequency_scaling(
        &self,
        scaling: impl Fn(Tensor<1>) -> Tensor<1>,
        device: &Device,
    ) -> RotaryEncoding {
        self.try_init_with_frequency_scaling(scaling, device).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Makes the layer, or says what is wrong: features that do not pair, a base that is not positive, too many positions.
    pub fn try_init(&self, device: &Device) -> rope::Result<RotaryEncoding> {
        RotaryEncoding::new(&self.rope(Schedule::Default)?, 0, self.max_sequence_length, device)
    }

    /// As [`try_init`](Self::try_init), with frequencies that `scaling` makes of the usual ones, `[d_model / 2]` in `f32`. For the rules
    /// that have a name there is [`RotaryEmbeddingConfig`](crate::RotaryEmbeddingConfig), which keeps all their digits.
    pub fn try_init_with_frequency_scaling(
        &self,
        scaling: impl Fn(Tensor<1>) -> Tensor<1>,
        device: &Device,
    ) -> rope::Result<RotaryEncoding> {
        let frequencies = self.rope(Schedule::Default)?.frequencies(None);
        let usual: Vec<f32> = frequencies.inv_freq().iter().map(|&theta| theta as f32).collect();
        let pairs = usual.len();
        let scaled = scaling(Tensor::from_data(TensorData::new(usual, [pairs]), device));
        let unread = |error| Error::Argument {
            name: "frequencies",
            value: format!("a tensor that cannot be read ({error})"),
            expected: format!("{pairs} numbers"),
        };
        let given = scaled.try_into_vec_as::<f64>().map_err(unread)?;
        RotaryEncoding::new(&self.rope(Schedule::Given(given))?, 0, self.max_sequence_length, device)
    }

    fn rope(&self, schedule: Schedule) -> rope::Result<Rope> {
        let builder = Rope::builder(self.d_model).base(self.theta.into());
        builder.pairing(Pairing::Interleaved).schedule(schedule).build()
    }
}

/// burn's `RotaryEncoding` by its names and with its shapes: features 2j and 2j + 1 form a pair. Made by [`RotaryEncodingConfig`].
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use rope_burn::RotaryEncodingConfig; // in the place of burn::nn::RotaryEncodingConfig
///
/// let device = Device::flex();
/// let rotary = RotaryEncodingConfig::new(512, 64).init(&device);
/// let q = Tensor::<4>::zeros([2, 8, 100, 64], &device);
/// let q = rotary.forward(q);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct RotaryEncoding {
    #[module(skip)]
    tables: Arc<Tables>,
    #[module(skip)]
    device: Device,
}

impl RotaryEncoding {
    fn new(rope: &Rope, start: usize, max_sequence_length: usize, device: &Device) -> rope::Result<Self> {
        let end = start.checked_add(max_sequence_length).and_then(|end| i32::try_from(end).ok());
        let end = end.ok_or_else(|| Error::Argument {
            name: "positions",
            value: format!("{max_sequence_length} from {start} on"),
            expected: "an end of at most 2^31 - 1".into(),
        })?;
        let tables = Tables::new(rope, Covers::Range(start as i64..end.into()), None)?;
        prepare(&tables, device)?;
        Ok(RotaryEncoding { tables: Arc::new(tables), device: device.clone() })
    }

    /// Rotates `x`, `[…, length, d_model]` with two axes or more, whose tokens stand at the first positions.
    ///
    /// # Panics
    ///
    /// Where [`try_apply`](Self::try_apply) has an error, as burn's own does.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.apply(x, 0)
    }

    /// As [`forward`](Self::forward), with tokens from position `start` on, counted from the first that there is.
    ///
    /// # Panics
    ///
    /// Where [`try_apply`](Self::try_apply) has an error, as burn's own does.
    pub fn apply<const D: usize>(&self, x: Tensor<D>, start: usize) -> Tensor<D> {
        self.try_apply(x, start).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`apply`](Self::apply), or says what is wrong: another number of features, or a token beyond the last position.
    pub fn try_apply<const D: usize>(&self, x: Tensor<D>, start: usize) -> rope::Result<Tensor<D>> {
        let first = i64::try_from(start).ok().and_then(|start| start.checked_add(self.tables.first()));
        let first = first.ok_or_else(|| Error::Argument {
            name: "start",
            value: start.to_string(),
            expected: format!("less than {}", self.tables.rows()),
        })?;
        Rows::new(self.tables.clone(), Read::From(first))?.rotate(x)
    }

    /// Moves the window of positions, so that `start` is the first that there is.
    ///
    /// # Panics
    ///
    /// If `start` is not beyond the first position that there is, or where [`try_shift`](Self::try_shift) has an error; as burn's own
    /// does.
    pub fn shift(&mut self, start: usize) {
        assert!(
            i64::try_from(start).is_ok_and(|start| start > self.tables.first()),
            "Shift start position must be monotonically increasing"
        );
        self.try_shift(start).unwrap_or_else(|error| panic!("{error}"));
    }

    /// As [`shift`](Self::shift), to any position, or says that the window would end beyond the last position that can be counted.
    pub fn try_shift(&mut self, start: usize) -> rope::Result<()> {
        *self = RotaryEncoding::new(self.tables.rope(), start, self.tables.rows(), &self.device)?;
        Ok(())
    }

    /// Moves the window of positions back to 0.
    pub fn reset(&mut self) {
        if self.tables.first() != 0 {
            self.try_shift(0).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// What is rotated, and how fast.
    pub fn rope(&self) -> &Rope {
        self.tables.rope()
    }
}

impl ModuleDisplay for RotaryEncoding {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let (d_model, rows) = (self.rope().head_dim(), self.tables.rows());
        content.add("d_model", &d_model).add("max_sequence_length", &rows).optional()
    }
}

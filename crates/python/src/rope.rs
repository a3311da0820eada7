//! What a configuration means: frequencies and tables.

use crate::config;
use crate::error::{guarded, raised};
use crate::numbers::{Numbers, array, array_or_tensor};
use crate::whole::{Whole, length};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange};
use rope::{AnglePrecision, HeadLayout, HfConfig, HfOptions, Pairing, Precision, Schedule, Table};
use std::ops::Range;

/// A rotary position embedding: which features turn, in which pairs, and how fast.
///
/// `Rope(head_dim)` makes one by hand, `Rope.from_hf(config)` reads a model's.
///
/// >>> import rotary
/// >>> rope = rotary.Rope(8, base=10000.0, pairing="interleaved")
/// >>> rope
/// Rope(head_dim=8, base=10000, pairing="interleaved", rule="default")
/// >>> rope.inv_freq().tolist()
/// [1.0, 0.1, 0.01, 0.001]
#[pyclass(frozen, eq, module = "rotary")]
#[derive(PartialEq)]
pub(crate) struct Rope(pub rope::Rope);

#[pymethods]
impl Rope {
    /// Makes one by hand. `scaling` is a rule as a `config.json` writes it, such as `{"rope_type": "linear", "factor": 4}`;
    /// rules that depend on the length a model was trained at read it from `max_position_embeddings`.
    #[new]
    #[pyo3(
        signature = (head_dim, *, base=10_000.0, pairing="half", rotary_dim=None, rotary_offset=Whole(0), scaling=None,
                     max_position_embeddings=None, angles="exact"),
        text_signature = "(head_dim, *, base=10000.0, pairing='half', rotary_dim=None, rotary_offset=0, scaling=None, \
                          max_position_embeddings=None, angles='exact')"
    )]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments, each a setting of the builder")]
    fn new(
        head_dim: Whole,
        base: f64,
        pairing: &str,
        rotary_dim: Option<Whole>,
        rotary_offset: Whole,
        scaling: Option<&Bound<'_, PyDict>>,
        max_position_embeddings: Option<Whole>,
        angles: &str,
    ) -> PyResult<Rope> {
        guarded(|| {
            let head_dim = head_dim.size("head_dim")?;
            let rotary_dim = rotary_dim.map(|dim| dim.size("rotary_dim")).transpose()?.unwrap_or(head_dim);
            let schedule = match scaling {
                None => Schedule::Default,
                Some(rule) => schedule(rule, rotary_dim, base, max_position_embeddings)?,
            };
            let builder = rope::Rope::builder(head_dim).base(base).pairing(parsed(pairing)?);
            let builder = builder.rotary_dim(rotary_dim).rotary_offset(rotary_offset.size("rotary_offset")?);
            builder.schedule(schedule).angle_precision(precision(angles)?).build().map(Rope).map_err(raised)
        })
    }

    /// Reads a model's: from a path to a `config.json` or its folder, a name on the hub, a dict, or a configuration of
    /// transformers. Of a model whose layers differ, that of `layer_type`.
    ///
    /// >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
    /// >>> rotary.Rope.from_hf(config).head_dim
    /// 128
    #[staticmethod]
    #[pyo3(signature = (config, layer_type=None, *, pairing=None, angles="exact"))]
    fn from_hf(
        config: &Bound<'_, PyAny>,
        layer_type: Option<&str>,
        pairing: Option<&str>,
        angles: &str,
    ) -> PyResult<Rope> {
        let bytes = config::bytes(config)?;
        guarded(|| read(&bytes, layer_type, pairing, angles))
    }

    /// The same from the text of a `config.json`.
    #[staticmethod]
    #[pyo3(signature = (config, layer_type=None))]
    fn from_json(config: &str, layer_type: Option<&str>) -> PyResult<Rope> {
        guarded(|| read(config.as_bytes(), layer_type, None, "exact"))
    }

    /// All of a model's, by layer type: `None` is the key where all layers are alike, and the value of layers that have none.
    ///
    /// >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
    /// >>> rotary.Rope.layers_from_hf(config)
    /// {None: Rope(head_dim=128, base=10000, pairing="half", rule="default")}
    #[staticmethod]
    #[pyo3(signature = (config, *, pairing=None, angles="exact"))]
    fn layers_from_hf<'py>(
        config: &Bound<'py, PyAny>,
        pairing: Option<&str>,
        angles: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, bytes) = (config.py(), config::bytes(config)?);
        let layers = PyDict::new(py);
        let set = guarded(|| ropes(&bytes, pairing, angles))?;
        for layer in set.layers() {
            layers.set_item(&layer.layer_type, layer.rope.clone().map(Rope))?;
        }
        Ok(layers)
    }

    /// Features of a head.
    #[getter]
    fn head_dim(&self) -> usize {
        self.0.head_dim()
    }

    /// Features of a head that turn.
    #[getter]
    fn rotary_dim(&self) -> usize {
        self.0.rotary_dim()
    }

    /// The first feature that turns.
    #[getter]
    fn rotary_offset(&self) -> usize {
        self.0.rotary_offset()
    }

    /// Pairs of features: half of those that turn.
    #[getter]
    fn pairs(&self) -> usize {
        self.0.pairs()
    }

    /// Which features form a pair: interleaved, half or interleaved_to_half.
    #[getter]
    fn pairing(&self) -> &'static str {
        self.0.pairing().name()
    }

    /// The base of the frequencies, Hugging Face's `rope_theta`.
    #[getter]
    fn base(&self) -> f64 {
        self.0.base()
    }

    /// The name of the rule that makes the frequencies.
    #[getter]
    fn rule(&self) -> &'static str {
        self.0.schedule().name()
    }

    /// How many axes a position has: 1, but for models of images and videos.
    #[getter]
    fn axes(&self) -> usize {
        self.0.axis_count()
    }

    /// The scale of rotated vectors: 1, but for YaRN and LongRoPE.
    #[getter]
    fn attention_factor(&self) -> f64 {
        self.0.frequencies(None).attention_factor()
    }

    /// The frequencies in radians per position, one per pair: an array `[pairs]` of float64. The length of the sequence matters
    /// to the dynamic rule and to LongRoPE alone.
    #[pyo3(signature = (sequence_length=None))]
    fn inv_freq<'py>(&self, py: Python<'py>, sequence_length: Option<Whole>) -> PyResult<Bound<'py, PyAny>> {
        let sequence_length = length("sequence_length", sequence_length)?;
        let frequencies = guarded(|| Ok(self.0.frequencies(sequence_length).inv_freq().to_vec()))?;
        let pairs = frequencies.len();
        array(py, Numbers::doubles(frequencies, vec![pairs]))
    }

    /// The cosines and sines of positions, two arrays `[positions, pairs]`, both times the attention factor. Positions are a
    /// number (from 0 up to it), a range, or a list of numbers, which may be fractional; of positions with several axes, a list
    /// of each axis. `dtype` is f32 or f64; `to` is numpy, or torch for tensors.
    ///
    /// They are right to the last bit or the next at every position, which a product of float32 numbers is not.
    ///
    /// >>> cos, sin = rotary.Rope(4).tables(range(1_000_000, 1_000_002))
    /// >>> cos.shape, cos.dtype.name
    /// ((2, 2), 'float32')
    #[pyo3(signature = (positions, *, sequence_length=None, dtype="f32", to="numpy"))]
    fn tables<'py>(
        &self,
        py: Python<'py>,
        positions: &Bound<'py, PyAny>,
        sequence_length: Option<Whole>,
        dtype: &str,
        to: &str,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (positions, sequence_length) =
            (Places::of(positions)?, length("sequence_length", sequence_length)?);
        let made = py.detach(|| {
            guarded(|| match dtype {
                "f32" => table::<f32>(&self.0, &positions, sequence_length)
                    .map(|table| pair(&table, Numbers::singles)),
                "f64" => table::<f64>(&self.0, &positions, sequence_length)
                    .map(|table| pair(&table, Numbers::doubles)),
                other => Err(raised(format!("dtype is {other:?}; expected f32 or f64"))),
            })
        });
        let (cos, sin) = made?;
        Ok((array_or_tensor(py, cos, to)?, array_or_tensor(py, sin, to)?))
    }

    /// The cosines and sines that move keys which this rope has turned at some positions to other positions, or to another rope,
    /// without computing them again: two arrays `[positions, pairs]` of float32. Keys are turned by them as by `tables`.
    ///
    /// >>> rope = rotary.Rope(4)
    /// >>> cos, sin = rope.rerotation([7, 8], [2, 3])
    /// >>> bool(abs(cos - rope.tables([-5, -5])[0]).max() < 1e-7)
    /// True
    #[pyo3(signature = (from_positions, to_positions, target=None, *, sequence_length=None, target_length=None))]
    fn rerotation<'py>(
        &self,
        py: Python<'py>,
        from_positions: &Bound<'py, PyAny>,
        to_positions: &Bound<'py, PyAny>,
        target: Option<&Rope>,
        sequence_length: Option<Whole>,
        target_length: Option<Whole>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (from, to) = (Places::of(from_positions)?.listed()?, Places::of(to_positions)?.listed()?);
        let target = target.map_or(&self.0, |target| &target.0);
        let sequence_length = length("sequence_length", sequence_length)?;
        let target_length = length("target_length", target_length)?;
        let (cos, sin) = guarded(|| {
            let made = self.0.rerotation::<f32>(&from, sequence_length, target, &to, target_length);
            made.map(|table| pair(&table, Numbers::singles)).map_err(raised)
        })?;
        Ok((array(py, cos)?, array(py, sin)?))
    }

    /// Itself: nothing in it changes. Modules of torch that hold one are copied so.
    fn __copy__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __deepcopy__<'py>(this: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        this
    }

    fn __repr__(&self) -> String {
        let rope = &self.0;
        let part = match rope.rotary_dim() == rope.head_dim() {
            true => String::new(),
            false => format!(", rotary_dim={}", rope.rotary_dim()),
        };
        format!(
            "Rope(head_dim={}{part}, base={}, pairing={:?}, rule={:?})",
            rope.head_dim(),
            rope.base(),
            self.pairing(),
            self.rule()
        )
    }
}

/// The rows of a projection of queries or keys in the order that another pairing reads: row i of the new one is row `order[i]`.
#[pyfunction]
pub(crate) fn projection_order(
    heads: Whole,
    head_dim: Whole,
    rotary_dim: Whole,
    rotary_offset: Whole,
    from_pairing: &str,
    to_pairing: &str,
) -> PyResult<Vec<usize>> {
    guarded(|| {
        let head = HeadLayout {
            heads: heads.size("heads")?,
            head_dim: head_dim.size("head_dim")?,
            rotary_dim: rotary_dim.size("rotary_dim")?,
            rotary_offset: rotary_offset.size("rotary_offset")?,
        };
        let rows = head.heads.checked_mul(head.head_dim).filter(|&rows| rows <= MOST);
        let rows = rows.ok_or_else(|| raised(format!("heads is {}; expected fewer rows", heads.0)))?;
        let (order, mut permuted) = ((0..rows).collect::<Vec<_>>(), vec![0; rows]);
        let made = rope::permute_projection(
            &order,
            &mut permuted,
            1,
            head,
            parsed(from_pairing)?,
            parsed(to_pairing)?,
        );
        made.map(|()| permuted).map_err(raised)
    })
}

/// The most positions that are listed one by one, and rows that are put in another order.
const MOST: usize = 1 << 26;

/// The positions of a table.
enum Places {
    Range(Range<i64>),
    /// `[axes, rows]`
    Listed(Vec<f64>),
}

impl Places {
    fn of(positions: &Bound<'_, PyAny>) -> PyResult<Places> {
        if let Ok(range) = positions.cast::<PyRange>() {
            let [start, stop, step] =
                ["start", "stop", "step"].map(|name| range.getattr(name)?.extract::<Whole>());
            if step?.0 == 1 {
                let (start, stop) = (start?.0, stop?.0);
                return Ok(Places::Range(start..stop.max(start)));
            }
        }
        if let Ok(count) = positions.extract::<Whole>().map(|count| count.0) {
            return match count {
                0.. => Ok(Places::Range(0..count)),
                _ => Err(raised(format!("positions is {count}; expected how many, a range or a list"))),
            };
        }
        if positions.len().is_ok_and(|count| count > MOST) {
            let expected = format!("at most {MOST}, or a range of steps of 1");
            return Err(raised(format!("positions are {} numbers; expected {expected}", positions.len()?)));
        }
        // Arrays and tensors, whatever their type, as lists.
        let positions = match positions.hasattr("tolist")? {
            true => positions.call_method0("tolist")?,
            false => positions.clone(),
        };
        let listed = positions.extract::<Vec<f64>>();
        let listed = listed.or_else(|_| positions.extract::<Vec<Vec<f64>>>().map(|axes| axes.concat()));
        listed.map(Places::Listed).map_err(|_| {
            PyTypeError::new_err(
                "positions are none of these: how many, a range, a list of numbers, a list for each axis",
            )
        })
    }

    /// One by one.
    fn listed(self) -> PyResult<Vec<f64>> {
        match self {
            Places::Listed(positions) => Ok(positions),
            Places::Range(range) if range.end.abs_diff(range.start) > MOST as u64 => {
                Err(raised(format!("the range {range:?} has too many positions; expected at most {MOST}")))
            }
            Places::Range(range) => Ok(range.map(|position| position as f64).collect()),
        }
    }
}

fn table<P: Precision>(rope: &rope::Rope, positions: &Places, length: Option<u64>) -> PyResult<Table<P>> {
    let table = match positions {
        Places::Range(range) if rope.axis_count() == 1 => rope.table(range.clone(), length),
        Places::Range(range) => {
            let expected = format!("a list for each of the {} axes", rope.axis_count());
            return Err(raised(format!("positions is the range {range:?}; expected {expected}")));
        }
        Places::Listed(positions) => rope.table_of(positions, length),
    };
    table.map_err(raised)
}

fn pair<P: Precision>(table: &Table<P>, numbers: fn(Vec<P>, Vec<usize>) -> Numbers) -> (Numbers, Numbers) {
    let shape = || vec![table.rows(), table.rope().pairs()];
    (numbers(table.cos().to_vec(), shape()), numbers(table.sin().to_vec(), shape()))
}

fn read(config: &[u8], layer_type: Option<&str>, pairing: Option<&str>, angles: &str) -> PyResult<Rope> {
    let set = ropes(config, pairing, angles)?;
    let rope = match layer_type {
        None => set.only().map_err(raised)?,
        Some(name) => {
            let none =
                || raised(format!("layer_type is {name:?}, whose layers do not turn; expected another"));
            set.layer(name).map_err(raised)?.ok_or_else(none)?
        }
    };
    Ok(Rope(rope.clone()))
}

fn ropes(config: &[u8], pairing: Option<&str>, angles: &str) -> PyResult<rope::RopeSet> {
    let pairing = pairing.map(parsed).transpose()?;
    let options = HfOptions { pairing, angle_precision: precision(angles)?, ..HfOptions::default() };
    HfConfig::read(config, &options).and_then(HfConfig::ropes).map_err(raised)
}

/// A rule as a `config.json` writes it, read as such.
fn schedule(rule: &Bound<'_, PyDict>, dim: usize, base: f64, longest: Option<Whole>) -> PyResult<Schedule> {
    let config = PyDict::new(rule.py());
    let rule = rule.copy()?;
    rule.set_item("rope_theta", base)?;
    config.set_item("model_type", "llama")?;
    config.set_item("head_dim", dim)?;
    config.set_item("rope_parameters", rule)?;
    if let Some(longest) = longest {
        config.set_item("max_position_embeddings", longest.0)?;
    }
    Ok(read(&config::bytes(config.as_any())?, None, None, "exact")?.0.schedule().clone())
}

fn parsed(pairing: &str) -> PyResult<Pairing> {
    pairing.parse().map_err(raised)
}

fn precision(angles: &str) -> PyResult<AnglePrecision> {
    match angles {
        "exact" => Ok(AnglePrecision::Exact),
        "f32" => Ok(AnglePrecision::F32),
        other => Err(raised(format!("angles is {other:?}; expected exact or f32"))),
    }
}

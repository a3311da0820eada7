//! Weights in files: safetensors, PyTorch's `.bin` and TensorFlow's checkpoints, one file or many, read on demand and never
//! twice in memory.
//!
//! Opening reads what stands before the numbers (headers, indexes, pickles) and checks all of it. A tensor is mapped when
//! it is read and unmapped when it has been copied, so that the pages of a file are never in memory beside the whole copy.
//!
//! ```no_run
//! # fn main() -> roformer::weights::Result<()> {
//! let weights = roformer::weights::Weights::open("chinese_roformer_base")?;
//! let mut bias = vec![0.0; 768];
//! weights.read_f32("roformer.encoder.layer.0.output.dense.bias", &[768], &mut bias)?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! mod.rs          what is asked of weights; which kind of file it is
//! shards.rs       an index that spreads the tensors over several files
//! safetensors.rs  the header of a safetensors file
//! torch.rs        the two layouts that torch.save has written
//! zip.rs          the archive around the newer one
//! pickle.rs       reads a pickle and runs nothing
//! bundle.rs       TensorFlow's checkpoints
//! table.rs        the table that their index is
//! proto.rs        the messages in it
//! crc.rs          the checksums of both
//! original.rs     the names of their variables, as transformers has them
//! source.rs       a file and the parts of it that are mapped
//! tensor.rs       one tensor: where it stands, and its conversion to f32 or f64
//! write.rs        safetensors out
//! error.rs        what can go wrong
//! ```

mod bundle;
mod crc;
mod error;
mod original;
mod pairing;
mod pickle;
mod proto;
mod safetensors;
mod shards;
#[allow(unsafe_code, reason = "maps files")]
mod source;
mod table;
mod tensor;
mod torch;
mod write;
mod zip;

pub use error::{Error, Result};
pub use pairing::{PAIRING_KEY, recorded_pairing};
pub use tensor::{Dtype, Target, Tensor};
pub use write::save;
pub(crate) use write::save_with;

pub use error::brief;
pub(crate) use shards::is_plain;
use source::Source;
pub(crate) use source::map_file;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a folder is searched for, in this order.
pub(crate) const FILES: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// The most that is read of a header, an index or a pickle. The largest models have some 100,000 tensors at about 100 bytes
/// each; what claims to need more is damaged or hostile.
pub(crate) const LIMIT: u64 = 64 << 20;

/// The tensors of one file, by name.
type Tensors = BTreeMap<String, Tensor>;

/// The tensors of a model, wherever its files keep them.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    files: Vec<Source>,
    tensors: Tensors,
    is_tensorflow: bool,
    left_out: Vec<String>,
}

impl Weights {
    /// Opens a file of weights, an index of several, or a folder that holds one of these: `model.safetensors`,
    /// `model.safetensors.index.json`, `pytorch_model.bin` or `pytorch_model.bin.index.json`, the first that exists, or else
    /// a checkpoint of TensorFlow, `bert_model.ckpt.index` or the only other that there is.
    ///
    /// What a file is is told by what it holds, not by its name. A checkpoint of TensorFlow may be named without `.index`,
    /// as TensorFlow does.
    pub fn open(path: impl AsRef<Path>) -> Result<Weights> {
        let path = path.as_ref();
        let file = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => in_folder(path)?,
            Ok(_) => path.to_owned(),
            Err(error) => bundle::named(path).ok_or_else(|| Error::io(path, "open", error))?,
        };
        let source = Source::open(&file)?;
        let kind = kind(&source)?;
        let (files, tensors) = match kind {
            Kind::Index => shards::open(&source)?,
            Kind::Bundle => bundle::open(&source)?,
            single => {
                let tensors = read_single(&source, single)?;
                (vec![source], tensors)
            }
        };
        if tensors.is_empty() {
            return Err(Error::format(
                &file,
                "no tensor at all",
                "the weights of a model; download it again",
            ));
        }
        let is_tensorflow = matches!(kind, Kind::Bundle);
        Ok(Weights { path: file, files, tensors, is_tensorflow, left_out: Vec::new() })
    }

    /// Opens the weights of a model as [`open`](Self::open) does, under the names that transformers gives today: without the
    /// `module.` that PyTorch's parallel modules put before every name, and with `LayerNorm.weight` and `LayerNorm.bias` for
    /// the older `gamma` and `beta`. Weights of 8 bits are read with the scales that are beside them, [`SCALE`].
    ///
    /// A checkpoint of TensorFlow is taken to have the names of BERT's first release, as bert4keras and the releases of
    /// RoFormer do: its matrices are read transposed, and what an optimizer keeps is [left out](Self::left_out).
    pub fn of_model(path: impl AsRef<Path>) -> Result<Weights> {
        let weights = Weights::open(path)?;
        let (tensors, left_out) = match weights.is_tensorflow {
            true => original::renamed(weights.tensors),
            false => (renamed(weights.tensors), Vec::new()),
        };
        Ok(Weights { tensors, left_out, ..weights })
    }

    /// The names, in the file, of what [`of_model`](Self::of_model) left out because no model has it: an optimizer's numbers,
    /// counts of steps, the head that tells whether a text follows another.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether they are a checkpoint of TensorFlow.
    pub fn is_tensorflow(&self) -> bool {
        self.is_tensorflow
    }

    /// The file that was opened: the one found in the folder, if a folder was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is no tensor; never true of weights that were opened.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The shape and type of a tensor, or nothing if there is none of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// Copies a tensor into `out`, row by row, as f32. It must have the shape `expected`.
    pub fn read_f32(&self, name: &str, expected: &[usize], out: &mut [f32]) -> Result<()> {
        self.read(name, expected, out)
    }

    /// Copies a tensor into `out`, row by row, as f32 or f64. It must have the shape `expected`.
    ///
    /// Values are those of the file, NaN and infinities too; f64 is rounded to the nearest f32, all else is exact. May be
    /// called from several threads at once.
    pub fn read<T: Target>(&self, name: &str, expected: &[usize], out: &mut [T]) -> Result<()> {
        let tensor = self.checked(name, expected)?;
        let source = &self.files[tensor.file];
        if tensor.len() != out.len() {
            return Err(Error::Length { tensor: name.into(), found: out.len(), shape: expected.into() });
        }
        if out.is_empty() {
            return Ok(());
        }
        let bytes = source.map(tensor.start, tensor.span)?;
        if tensor.checksum.is_some_and(|checksum| crc::masked(&bytes) != checksum) {
            let found = format!("damaged numbers of `{}`: their checksum is another", brief(name));
            return Err(Error::format(source.path(), found, "the file as it was written; download it again"));
        }
        self.copy(tensor, &bytes, out)
    }

    /// Copies some rows of a tensor into `out`, as [`read`](Self::read) does all: from row `first` on. Of a tensor that is not
    /// [in rows](Self::is_in_rows), nothing.
    pub fn read_rows<T: Target>(
        &self,
        name: &str,
        expected: &[usize],
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        let tensor = self.checked(name, expected)?;
        let part = tensor.rows(first, out.len());
        let Some(part) = part else {
            return Err(Error::Length { tensor: name.into(), found: out.len(), shape: expected.into() });
        };
        if out.is_empty() {
            return Ok(());
        }
        self.copy(&part, &self.files[part.file].map(part.start, part.span)?, out)
    }

    /// Converts the bytes of a tensor, and multiplies its rows with their scales where it has some.
    fn copy<T: Target>(&self, tensor: &Tensor, bytes: &[u8], out: &mut [T]) -> Result<()> {
        tensor.copy(bytes, out);
        let Some(scale) = &tensor.scale else { return Ok(()) };
        let mut factors = vec![0.0; scale.len()];
        scale.copy(&self.files[scale.file].map(scale.start, scale.span)?, &mut factors);
        let row = out.len() / scale.len().max(1);
        for (row, &factor) in out.chunks_exact_mut(row.max(1)).zip(&factors) {
            row.iter_mut().for_each(|x| *x = x.times(factor));
        }
        Ok(())
    }

    /// Whether rows of a tensor can be read without the others: they follow each other, and are not checked as a whole.
    pub fn is_in_rows(&self, name: &str) -> bool {
        self.tensors.get(name).is_some_and(|tensor| tensor.rows(0, 0).is_some())
    }

    /// A tensor of this name and shape whose numbers are weights.
    fn checked(&self, name: &str, expected: &[usize]) -> Result<&Tensor> {
        let tensor = self.tensors.get(name).ok_or_else(|| self.missing(name))?;
        let path = || self.files[tensor.file].path().into();
        if tensor.shape() != expected {
            let (found, expected) = (tensor.shape().into(), expected.into());
            return Err(Error::Shape { path: path(), tensor: name.into(), found, expected });
        }
        if !tensor.is_weights() {
            return Err(Error::Type { path: path(), tensor: name.into(), found: tensor.dtype() });
        }
        Ok(tensor)
    }

    /// Says what is there instead of a name. Most often a prefix is missing or too much.
    fn missing(&self, name: &str) -> Error {
        let alike = |other: &&String| {
            !other.is_empty()
                && (name.ends_with(other.as_str()) || (!name.is_empty() && other.ends_with(name)))
        };
        let instead = match self.tensors.keys().find(alike) {
            Some(other) => format!("did you mean `{}`?", brief(other)),
            None => {
                let some: Vec<_> =
                    self.tensors.keys().take(3).map(|name| format!("`{}`", brief(name))).collect();
                format!(
                    "the {} there begin with {}; check that the weights are of this kind of model",
                    self.len(),
                    some.join(", ")
                )
            }
        };
        Error::Missing { path: self.path.clone(), tensor: name.into(), instead }
    }
}

/// The file of weights in a folder.
fn in_folder(folder: &Path) -> Result<PathBuf> {
    // A link that leads nowhere counts as there: opening it names the file that is missing.
    let known = FILES.iter().map(|name| folder.join(name)).find(|file| file.symlink_metadata().is_ok());
    let found = if known.is_some() { known } else { bundle::find(folder)? };
    let looked_for = || format!("{}, {}", FILES.join(", "), bundle::USUAL);
    found.ok_or_else(|| Error::NoWeights { folder: folder.into(), looked_for: looked_for() })
}

/// Tensors under today's names. A name that is taken already stays as it is.
fn renamed(mut tensors: Tensors) -> Tensors {
    const WRAPPED: &str = "module.";
    if tensors.keys().all(|name| name.starts_with(WRAPPED)) {
        let inner = |(name, tensor): (String, Tensor)| (name[WRAPPED.len()..].to_string(), tensor);
        tensors = tensors.into_iter().map(inner).collect();
    }
    for (old, new) in [("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")] {
        let names: Vec<String> = tensors.keys().filter(|name| name.ends_with(old)).cloned().collect();
        for name in names {
            let renamed = format!("{}{new}", &name[..name.len() - old.len()]);
            if !tensors.contains_key(&renamed)
                && let Some(tensor) = tensors.remove(&name)
            {
                tensors.insert(renamed, tensor);
            }
        }
    }
    with_scales(tensors)
}

/// What the scales of a weight of 8 bits are called, behind its name.
pub const SCALE: &str = "_scale";

/// Tensors of 8 bits together with their scales, which are then no tensors of their own.
fn with_scales(mut tensors: Tensors) -> Tensors {
    let names: Vec<String> = tensors.keys().filter(|name| name.ends_with(SCALE)).cloned().collect();
    for name in names {
        let stem = &name[..name.len() - SCALE.len()];
        let scaled = tensors.get(stem).and_then(|tensor| tensor.scaled(tensors.get(&name)?));
        if let Some(scaled) = scaled {
            tensors.insert(stem.into(), scaled);
            tensors.remove(&name);
        }
    }
    tensors
}

/// What a file holds.
#[derive(Clone, Copy)]
enum Kind {
    Safetensors,
    Zip,
    /// PyTorch before 1.6; the first pickle ends here.
    Legacy(usize),
    Index,
    /// A checkpoint of TensorFlow.
    Bundle,
}

/// Tells the kinds apart by their first bytes.
fn kind(source: &Source) -> Result<Kind> {
    let head = source.map(0, source.len().min(64))?;
    // By name as well, so that a damaged safetensors file hears what is wrong with it and not that it is of no kind.
    let named = source.path().extension().is_some_and(|extension| extension == "safetensors");
    // Its first eight bytes are a length, which can look like any of the marks below. No mark is a length that fits.
    let fits = safetensors::header_len(&head).is_some_and(|len| len <= source.len() - 8);
    let kind = if head.starts_with(b"version https://git-lfs") {
        return Err(Error::format(
            source.path(),
            "a Git LFS pointer, which stands for the weights",
            "the weights themselves; fetch them with `git lfs pull`",
        ));
    } else if named || fits && head.get(8) == Some(&b'{') {
        Kind::Safetensors
    } else if head.starts_with(b"PK") {
        Kind::Zip
    } else if let Some(end) = torch::legacy_magic(&head) {
        Kind::Legacy(end)
    } else if matches!(*head, [0x80, 2..=5, ..]) {
        return Err(torch::not_saved(source)?);
    } else if head.trim_ascii_start().first() == Some(&b'{') {
        Kind::Index
    } else if bundle::is_table(source)? {
        Kind::Bundle
    } else if bundle::is_data(source.path()) {
        let expected = "its .index; pass that file, or the folder";
        return Err(Error::format(source.path(), "the numbers of a TensorFlow checkpoint alone", expected));
    } else {
        let start = &head[..head.len().min(8)];
        return Err(Error::format(
            source.path(),
            format!("{} bytes that begin with {start:02x?}", source.len()),
            "safetensors, a file of torch.save, an index of such files, or that of a TensorFlow checkpoint; download it again",
        ));
    };
    Ok(kind)
}

/// Reads what a single file says of its tensors.
fn read_single(source: &Source, kind: Kind) -> Result<Tensors> {
    match kind {
        Kind::Safetensors => safetensors::read(source),
        Kind::Zip => torch::read_zip(source),
        Kind::Legacy(start) => torch::read_legacy(source, start),
        Kind::Index | Kind::Bundle => Err(Error::format(
            source.path(),
            "an index",
            "a file with tensors; an index cannot list another index",
        )),
    }
}

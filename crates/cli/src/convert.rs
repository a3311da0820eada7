//! `roformer convert`: weights of any format that is read here, as one safetensors file; one tensor in memory at a time.

use crate::error::{Failure, Outcome};
use crate::input;
use clap::Args;
use roformer::model::RoFormerConfig;
use roformer::weights::Weights;
use rope::{HeadLayout, HfConfig, HfOptions, Pairing, permute_projection};
use serde_json::{Map, Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Write weights as model.safetensors, in f32
///
/// Reads safetensors and PyTorch's .bin, in one file or several, and writes DST/model.safetensors; with a folder, its
/// config.json too. All numbers become f32, whatever they were: exact but for f64, which is rounded. Position tables are
/// left out, because they follow from the configuration, and so are second copies of tied tensors.
///
/// With --pairing the projections of queries and keys are permuted for implementations that rotate other features
/// together; scores stay what they were. The file says so in its metadata ("rope_pairing"), and converting it again with
/// the other pairing gives the first bits back. Other programs do not look there: they must be told.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer convert roformer_chinese_base converted\n  \
    roformer convert pytorch_model.bin converted\n  roformer convert DIR half --pairing half")]
pub struct Arguments {
    /// A folder with weights and a config.json, or a file of weights
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The folder to write to; made if it is not there
    #[arg(value_name = "DST")]
    target: PathBuf,
    /// Which features of a head the result is to rotate together: half or interleaved [default: as they are]
    #[arg(long, value_name = "P", value_parser = ["half", "interleaved"])]
    pairing: Option<String>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

/// The key of a file's metadata that says for which pairing its projections are, where that is not the model's own.
const PAIRING_KEY: &str = "rope_pairing";

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { source, target, pairing, force } = arguments;
    let is_folder = source.is_dir();
    let weights = Weights::open(&source)?;
    // Beside the weights: a file alone says neither what is tied nor how wide a head is.
    let beside = weights.path().with_file_name("config.json");
    let config = if beside.exists() { Some(input::config(&beside)?) } else { None };
    let known = config.as_deref().and_then(|bytes| RoFormerConfig::from_json(bytes).ok());
    let own = recorded_pairing(weights.path());
    let change = match pairing.as_deref().map(str::parse::<Pairing>).transpose()? {
        Some(to) => Some(Change::new(config.as_deref(), &beside, known.as_ref(), own, to)?),
        None => None,
    };
    let names: Vec<&str> =
        weights.names().filter(|name| !is_left_out(name, &weights, known.as_ref())).collect();
    if let Some(change) = &change {
        change.check(&weights, &names)?;
    }

    let file = target.join("model.safetensors");
    if file.symlink_metadata().is_ok() && !force {
        let message = format!("{} is there already; give --force to replace it", file.display());
        return Err(Failure::Input(message));
    }
    let copied = target.join("config.json");
    let copy = config.as_ref().filter(|_| is_folder);
    if let (Some(config), false) = (copy, force)
        && copied.symlink_metadata().is_ok()
        && fs::read(&copied).ok().as_ref() != Some(config)
    {
        let message = format!("{} is there and is another one; give --force to replace it", copied.display());
        return Err(Failure::Input(message));
    }
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| Failure::Other(format!("{}: {error}", path.display()));
    fs::create_dir_all(&target).map_err(|error| failed(&target, &error))?;

    let mut metadata = json!({ "format": "pt" });
    let result = match &change {
        // The model's own pairing needs no mention.
        Some(change) => Some(change.to).filter(|to| *to != change.model),
        None => own,
    };
    if let Some(pairing) = result {
        metadata[PAIRING_KEY] = pairing.name().into();
    }
    whole(&file, |partial| write(partial, &metadata, &weights, &names, change.as_ref()))?;
    if let Some(config) = copy {
        whole(&copied, |partial| fs::write(partial, config).map_err(|error| failed(&copied, &error)))?;
    }

    println!(
        "{} tensors as F32 in {}; {} left out, made again or tied when a model is loaded",
        names.len(),
        file.display(),
        weights.len() - names.len()
    );
    if let (Some(pairing), Some(_)) = (result, &change) {
        println!(
            "note: queries and keys are for implementations that rotate this model in the pairing `{pairing}`; \
             transformers and roformer forward do not"
        );
    }
    Ok(())
}

/// Whether a tensor is one that every reader makes again, or a second copy of another.
pub fn is_left_out(name: &str, weights: &Weights, config: Option<&RoFormerConfig>) -> bool {
    let derived = ["rotary_emb.inv_freq", "position_ids"].iter().any(|end| name.ends_with(end));
    // Other models have a table of this name that was learned.
    let table = name.ends_with("encoder.embed_positions.weight");
    let table = table && (config.is_some() || name.starts_with("roformer."));
    // Where only one of the two is there it is no copy.
    let first = match name {
        "cls.predictions.decoder.weight" => Some("roformer.embeddings.word_embeddings.weight"),
        "cls.predictions.decoder.bias" => Some("cls.predictions.bias"),
        _ => None,
    };
    let tied = config.is_some_and(|config| config.tie_word_embeddings)
        && first.is_some_and(|first| weights.get(first).is_some());
    derived || table || tied
}

/// The pairing that a safetensors file's metadata gives, if any. The file has been opened before: what is wrong with it
/// has been said.
pub fn recorded_pairing(path: &Path) -> Option<Pairing> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let mut header = Vec::new();
    // More than any header has; other kinds of file begin with larger numbers.
    let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= 64 << 20)?;
    file.take(length).read_to_end(&mut header).ok()?;
    let header: Value = serde_json::from_slice(&header).ok()?;
    header["__metadata__"][PAIRING_KEY].as_str()?.parse().ok()
}

/// Refuses a model whose projections were permuted by `convert`: it would run, and give nonsense.
pub fn refuse_permuted(folder: &Path) -> Outcome {
    match recorded_pairing(&folder.join("model.safetensors")) {
        None | Some(Pairing::Interleaved) => Ok(()),
        Some(pairing) => Err(Failure::Input(format!(
            "{}: its queries and keys are in the pairing `{pairing}`; expected interleaved: \
             use roformer convert --pairing interleaved",
            folder.display()
        ))),
    }
}

/// Models whose projections of queries and keys are matrices of their own, with nothing after them that is tied to the
/// order of features. (Norms of each head's queries would have to be permuted too.)
const SEPARATE: [&str; 5] = ["llama", "mistral", "mixtral", "qwen2", "qwen2_moe"];

/// From one pairing to another.
struct Change {
    /// The pairing of the model's own definition.
    model: Pairing,
    from: Pairing,
    to: Pairing,
    /// Of one head; how many there are is told by each tensor.
    head: HeadLayout,
    /// What stands before `.weight` and `.bias`, for queries and for keys.
    ends: [&'static str; 2],
}

impl Change {
    fn new(
        config: Option<&[u8]>,
        path: &Path,
        known: Option<&RoFormerConfig>,
        own: Option<Pairing>,
        to: Pairing,
    ) -> Result<Self, Failure> {
        let fail = |message: &str| Failure::Input(format!("{}: {message}", path.display()));
        let Some(config) = config else {
            return Err(fail("not there; --pairing needs it, for the width of a head"));
        };
        if known.is_some_and(|config| config.rotary_value) {
            return Err(fail("`rotary_value` is true; --pairing permutes queries and keys, not values"));
        }
        let read = HfConfig::read(config, &HfOptions::default()).map_err(|error| fail(&error.to_string()))?;
        let kind = read.model_type.clone().unwrap_or_default();
        let ends = match kind.as_str() {
            "roformer" => [".attention.self.query", ".attention.self.key"],
            kind if SEPARATE.contains(&kind) && read.section.is_none() => {
                [".self_attn.q_proj", ".self_attn.k_proj"]
            }
            _ => {
                let kind = kind.escape_debug();
                let known = SEPARATE.join(", ");
                return Err(fail(&format!("`model_type` is \"{kind}\"; --pairing knows roformer, {known}")));
            }
        };
        let set = read.ropes()?;
        let rope = set.only().map_err(|error| fail(&error.to_string()))?;
        let head = HeadLayout {
            heads: 1,
            head_dim: rope.head_dim(),
            rotary_dim: rope.rotary_dim(),
            rotary_offset: rope.rotary_offset(),
        };
        Ok(Change { model: rope.pairing(), from: own.unwrap_or(rope.pairing()), to, head, ends })
    }

    fn concerns(&self, name: &str) -> bool {
        let stem = name.strip_suffix(".weight").or(name.strip_suffix(".bias"));
        stem.is_some_and(|stem| self.ends.iter().any(|end| stem.ends_with(end)))
    }

    /// That there is something to permute, and that it has whole heads.
    fn check(&self, weights: &Weights, names: &[&str]) -> Outcome {
        let fail = |message: String| Failure::Input(format!("{}: {message}", weights.path().display()));
        let mut found = false;
        for tensor in names.iter().filter(|name| self.concerns(name)) {
            let shape = weights.get(tensor).map_or(&[][..], |tensor| tensor.shape());
            let rows = shape.first().copied().unwrap_or(0);
            if rows == 0 || !rows.is_multiple_of(self.head.head_dim) {
                let expected = format!("rows for heads of {} features", self.head.head_dim);
                return Err(fail(format!(
                    "`{}` has shape {shape:?}; expected {expected}",
                    tensor.escape_debug()
                )));
            }
            found = true;
        }
        match found {
            true => Ok(()),
            false => Err(fail(format!("no tensor named …{}.weight; nothing to permute", self.ends[0]))),
        }
    }

    fn apply(&self, shape: &[usize], numbers: &[f32]) -> Result<Vec<f32>, Failure> {
        let [rows, columns @ ..] = shape else {
            return Err(Failure::Other("a projection without rows".into()));
        };
        let head = HeadLayout { heads: rows / self.head.head_dim, ..self.head };
        let mut out = zeros(numbers.len())?;
        permute_projection(numbers, &mut out, columns.iter().product(), head, self.from, self.to)?;
        Ok(out)
    }
}

/// Writes the tensors in the order of their names, each read when its turn comes.
fn write(
    path: &Path,
    metadata: &Value,
    weights: &Weights,
    names: &[&str],
    change: Option<&Change>,
) -> Outcome {
    let mut header = Map::from_iter([("__metadata__".to_string(), metadata.clone())]);
    let mut end: u64 = 0;
    for &name in names {
        let Some(tensor) = weights.get(name) else { continue };
        let start = end;
        end = (tensor.len() as u64)
            .checked_mul(size_of::<f32>() as u64)
            .and_then(|bytes| end.checked_add(bytes))
            .ok_or_else(|| Failure::Input("tensors of more bytes than can be counted".into()))?;
        let entry = json!({ "dtype": "F32", "shape": tensor.shape(), "data_offsets": [start, end] });
        header.insert(name.into(), entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    // Spaces, so that the numbers begin at a multiple of eight, as the format asks.
    header.resize(header.len().next_multiple_of(8), b' ');

    let failed = |error: std::io::Error| Failure::Other(format!("{}: {error}", path.display()));
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(&header).map_err(failed)?;
    for &name in names {
        let Some(tensor) = weights.get(name) else { continue };
        let mut numbers = zeros(tensor.len())?;
        weights.read_f32(name, tensor.shape(), &mut numbers)?;
        if let Some(change) = change.filter(|change| change.concerns(name)) {
            numbers = change.apply(tensor.shape(), &numbers)?;
        }
        for number in numbers {
            file.write_all(&number.to_le_bytes()).map_err(failed)?;
        }
    }
    file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)
}

/// Zeros, or word that there is no memory for them: a file may say that a tensor is of any size.
fn zeros(len: usize) -> Result<Vec<f32>, Failure> {
    let mut numbers = Vec::new();
    let reserved = numbers.try_reserve_exact(len);
    reserved.map_err(|_| Failure::Other(format!("not enough memory for a tensor of {len} numbers")))?;
    numbers.resize(len, 0.0);
    Ok(numbers)
}

/// Lets a file be written beside its name, and renames it: it is there whole or not at all.
fn whole(path: &Path, write: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    let partial = Path::new(&name);
    let outcome = write(partial).and_then(|()| {
        fs::rename(partial, path).map_err(|error| Failure::Other(format!("{}: {error}", path.display())))
    });
    if outcome.is_err() {
        // What is left is of no use; that it may not be there is no second failure.
        let _ = fs::remove_file(partial);
    }
    outcome
}

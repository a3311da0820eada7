//! What every engine's program needs: the cases of a folder, and its answers.
//!
//! A program calls [`run`] with a function that gets a case, a type, and q or k, and returns it turned; `None` for what the engine does
//! not have. None of the engines here keeps anything between calls, so that what came `before` does not matter to them.

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whatever went wrong; it is printed and that is all.
pub type Error = Box<dyn std::error::Error>;

/// A case, as `cases.json` has it.
#[derive(Deserialize)]
pub struct Case {
    /// What its tensors are called after.
    pub name: String,
    /// The model's `config.json`.
    pub config: Map<String, Value>,
    /// A row for each axis, a position for each token.
    pub positions: Vec<Vec<u64>>,
    /// The tokens come in so many calls: a cache is not what these functions have.
    #[serde(default)]
    calls: Option<Vec<usize>>,
    /// What the configuration comes to.
    pub rope: Rope,
}

/// What a configuration comes to.
#[derive(Deserialize)]
pub struct Rope {
    /// The rule's name.
    pub rule: String,
    /// Features of a head.
    pub head_dim: usize,
    /// Those that turn.
    pub rotary_dim: usize,
    /// Where they begin.
    pub rotary_offset: usize,
    /// `half`, `interleaved` or `interleaved_to_half`.
    pub pairing: String,
    /// What rotated vectors are multiplied by.
    pub attention_factor: f64,
    /// The angle of pair j at position 1.
    pub inv_freq: Vec<f64>,
}

impl Case {
    /// The base, wherever the configuration keeps it.
    pub fn base(&self) -> f64 {
        let inner = self.config.get("rope_parameters").and_then(|rope| rope.get("rope_theta"));
        inner.or(self.config.get("rope_theta")).and_then(Value::as_f64).unwrap_or(10000.0)
    }

    /// The only row of positions, and `None` where there are several.
    pub fn row(&self) -> Option<&[u64]> {
        match &self.positions[..] {
            [row] => Some(row),
            _ => None,
        }
    }

    /// The largest position and one.
    pub fn length(&self) -> usize {
        self.positions.iter().flatten().max().map_or(0, |&last| last as usize + 1)
    }
}

/// The type that q and k are turned in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32 bits.
    F32,
    /// 16 bits, 11 of them significant.
    F16,
    /// 16 bits, 8 of them significant.
    Bf16,
}

/// q or k, `[1, heads, length, head_dim]`, its numbers widened, which loses nothing.
#[derive(Clone)]
pub struct Array {
    /// The four axes.
    pub shape: [usize; 4],
    /// The numbers, in that order.
    pub values: Vec<f32>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::F32 => "f32",
            Kind::F16 => "f16",
            Kind::Bf16 => "bf16",
        }
    }

    /// The numbers as a file stores them.
    fn stored(self, values: &[f32]) -> (Dtype, Vec<u8>) {
        match self {
            Kind::F32 => (Dtype::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Kind::F16 => (Dtype::F16, values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect()),
            Kind::Bf16 => (Dtype::BF16, values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect()),
        }
    }
}

/// Asks `turn` every case of the folder on the command line in these types; writes the answers, and the versions of these packages by
/// the lock file that the program was built with.
pub fn run(
    packages: &[&str],
    kinds: &[Kind],
    mut turn: impl FnMut(&Case, Kind, &Array) -> Result<Option<Array>, Error>,
) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("expected the folder of the cases")?);
    let file: File = serde_json::from_slice(&std::fs::read(folder.join("cases.json"))?)?;
    let bytes = std::fs::read(folder.join("inputs.safetensors"))?;
    let inputs = SafeTensors::deserialize(&bytes)?;
    let mut answers: BTreeMap<String, (Dtype, [usize; 4], Vec<u8>)> = BTreeMap::new();
    for case in file.cases.iter().filter(|case| case.calls.is_none()) {
        for kind in kinds {
            for side in ["q", "k"] {
                let input = array(&inputs.tensor(&format!("{}.{side}", case.name))?)?;
                let Some(turned) = turn(case, *kind, &input)? else { continue };
                let (dtype, data) = kind.stored(&turned.values);
                answers.insert(format!("{}.{}.{side}", case.name, kind.name()), (dtype, turned.shape, data));
            }
        }
    }
    let views: Vec<_> = answers
        .iter()
        .map(|(name, (dtype, shape, data))| Ok((name, TensorView::new(*dtype, shape.to_vec(), data)?)))
        .collect::<Result<_, Error>>()?;
    std::fs::write(folder.join("answers.safetensors"), safetensors::serialize(views, None)?)?;
    let versions: Map<String, Value> =
        packages.iter().map(|name| Ok(((*name).into(), json!(version(name)?)))).collect::<Result<_, Error>>()?;
    std::fs::write(folder.join("versions.json"), Value::Object(versions).to_string())?;
    Ok(())
}

fn array(view: &TensorView<'_>) -> Result<Array, Error> {
    let words = view.data().chunks_exact(4).map(|word| <[u8; 4]>::try_from(word).map(f32::from_le_bytes));
    Ok(Array { shape: view.shape().try_into()?, values: words.collect::<Result<_, _>>()? })
}

/// A package's version in the lock file.
fn version(package: &str) -> Result<&'static str, Error> {
    let lock = include_str!("../../Cargo.lock");
    let after = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map(|(_, after)| after);
    let found = after.and_then(|after| after.split_once('"')).map(|(version, _)| version);
    found.ok_or_else(|| format!("{package} is not in Cargo.lock").into())
}

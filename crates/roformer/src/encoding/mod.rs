//! Position encodings: one file each, all made of seven terms.
//!
//! Attention knows seven ways for a position to enter, and nothing else: (1) a vector added to the embedding; (2) a rotation
//! of queries, keys and values; (3) a bias of the score, by head and distance; (4) the product of the query with a row of a
//! table, chosen by the distance; (5) the same with the key; (6) a row added to the value; (7) constants added to the query.
//! An encoding says which of them it uses and how its parameters make the tables; the gradients follow from the graph.
//! `docs/add-an-encoding.md` adds one.

mod absolute;
mod alibi;
mod deberta;
mod evaluated;
mod hierarchical;
mod kerple;
mod label;
mod learned;
mod none;
mod randomised;
mod receptive;
mod rotary;
mod shaw;
mod sinusoidal;
mod t5;
mod xlnet;
mod xpos;

pub use absolute::Merge;
pub use alibi::Alibi;
pub use deberta::{Deberta, DebertaTerms, Projections};
pub(crate) use evaluated::{Codes, Evaluated, LayerTerms, TableOf};
pub use hierarchical::Hierarchical;
pub use kerple::Kerple;
pub use learned::Learned;
pub use none::NoPositions;
pub use randomised::Randomised;
pub use receptive::ReceptiveField;
pub use rotary::Rotary;
pub use shaw::{Shaw, ShawTables};
pub use sinusoidal::{Sinusoidal, shift, sinusoid};
pub use t5::{T5, bucket};
pub use xlnet::XlNet;
pub use xpos::Xpos;

use crate::error::{Error, Result};
pub use crate::graph::Terms;
use crate::graph::{Builder, LinearForm, Value};
use crate::ops::Real;

/// The sizes of the model that an encoding is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Texts of a batch.
    pub batch: usize,
    /// Tokens of a text.
    pub length: usize,
    /// Tokens of the longest text that the model will ever see: the rows of learned tables.
    pub longest: usize,
    /// Width of the model.
    pub width: usize,
    /// Width of codes of positions: that of the embeddings, where they meet codes before they are projected.
    pub codes: usize,
    /// Attention heads.
    pub heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Whether a token sees only what came before.
    pub is_causal: bool,
    /// Whether the products that make queries and keys have biases.
    pub has_biases: bool,
}

impl Sizes {
    /// The sizes of what is rotated under linear attention: features, or heads where they are rotated first.
    pub(crate) fn rotated(&self, form: LinearForm) -> Sizes {
        Sizes { head_dim: form.rotated(self.head_dim), ..*self }
    }
}

/// A position encoding.
pub trait Encode<T: Real> {
    /// Checks that it works for these sizes.
    fn check(&self, _sizes: &Sizes) -> Result<()> {
        Ok(())
    }

    /// Term 1: a code for each position, `[length, codes]`, and how codes meet the embeddings.
    fn codes(&self, _builder: &mut Builder<T>, _sizes: &Sizes) -> Option<(Value, Merge)> {
        None
    }

    /// What becomes of the embeddings `[batch · length, width]`.
    fn embed(&self, builder: &mut Builder<T>, x: Value, sizes: &Sizes) -> Value {
        match self.codes(builder, sizes) {
            Some((codes, merge)) => merge.apply(builder, x, codes, sizes),
            None => x,
        }
    }

    /// Terms 2 to 7 of a layer. Tables that all layers share are made for the first, and found again by their name.
    fn terms(&self, _builder: &mut Builder<T>, _layer: usize, _sizes: &Sizes) -> Terms {
        Terms::default()
    }

    /// Positions drawn anew for every step, `[length]` and rising; `None` for 0, 1, 2 and so on.
    fn positions(&self, _length: usize, _seed: u64, _step: u64) -> Option<Vec<u32>> {
        None
    }
}

/// A position encoding by name.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoding {
    /// None at all.
    None(NoPositions),
    /// Fixed sines and cosines.
    Sinusoidal(Sinusoidal),
    /// A learned vector for each position.
    Learned(Learned),
    /// Learned vectors for n positions that reach to n².
    Hierarchical(Hierarchical),
    /// Shaw's vectors for clipped distances.
    Shaw(Shaw),
    /// XLNet's.
    XlNet(XlNet),
    /// T5's bias by buckets of distances.
    T5(T5),
    /// DeBERTa's.
    Deberta(Deberta),
    /// A bias that falls with the distance.
    Alibi(Alibi),
    /// A learned bias that falls with the logarithm of the distance.
    Kerple(Kerple),
    /// Rotary embedding.
    Rotary(Rotary),
    /// Rotary embedding with a learned receptive field.
    ReceptiveField(ReceptiveField),
    /// Rotary embedding that decays with the distance.
    Xpos(Xpos),
    /// Another encoding at positions drawn by chance.
    Randomised(Randomised),
}

impl Encoding {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Encoding::None(_) => "none",
            Encoding::Sinusoidal(_) => "sinusoidal",
            Encoding::Learned(_) => "learned",
            Encoding::Hierarchical(_) => "hierarchical",
            Encoding::Shaw(_) => "shaw",
            Encoding::XlNet(_) => "xlnet",
            Encoding::T5(_) => "t5",
            Encoding::Deberta(_) => "deberta",
            Encoding::Alibi(_) => "alibi",
            Encoding::Kerple(_) => "kerple",
            Encoding::Rotary(_) => "rotary",
            Encoding::ReceptiveField(_) => "receptive",
            Encoding::Xpos(_) => "xpos",
            Encoding::Randomised(_) => "randomised",
        }
    }

    /// Every encoding, as it is by default.
    pub fn all() -> Vec<Encoding> {
        vec![
            Encoding::None(NoPositions),
            Encoding::Sinusoidal(Sinusoidal::default()),
            Encoding::Learned(Learned::default()),
            Encoding::Hierarchical(Hierarchical::default()),
            Encoding::Shaw(Shaw::default()),
            Encoding::XlNet(XlNet::default()),
            Encoding::T5(T5::default()),
            Encoding::Deberta(Deberta::default()),
            Encoding::Alibi(Alibi),
            Encoding::Kerple(Kerple::default()),
            Encoding::Rotary(Rotary::default()),
            Encoding::ReceptiveField(ReceptiveField::default()),
            Encoding::Xpos(Xpos::default()),
            Encoding::Randomised(Randomised::default()),
        ]
    }

    /// What it does to a graph.
    pub fn as_encode<T: Real>(&self) -> &dyn Encode<T> {
        match self {
            Encoding::None(encoding) => encoding,
            Encoding::Sinusoidal(encoding) => encoding,
            Encoding::Learned(encoding) => encoding,
            Encoding::Hierarchical(encoding) => encoding,
            Encoding::Shaw(encoding) => encoding,
            Encoding::XlNet(encoding) => encoding,
            Encoding::T5(encoding) => encoding,
            Encoding::Deberta(encoding) => encoding,
            Encoding::Alibi(encoding) => encoding,
            Encoding::Kerple(encoding) => encoding,
            Encoding::Rotary(encoding) => encoding,
            Encoding::ReceptiveField(encoding) => encoding,
            Encoding::Xpos(encoding) => encoding,
            Encoding::Randomised(encoding) => encoding,
        }
    }

    /// Whether it goes by the places of tokens in the text, so that no other positions can be given.
    pub(crate) fn is_by_places(&self) -> bool {
        use Encoding::{Alibi, Deberta, Kerple, Shaw, T5, XlNet};
        matches!(self, Alibi(_) | Deberta(_) | Kerple(_) | Shaw(_) | T5(_) | XlNet(_))
    }

    /// Positions outside of training, where they are not 0, 1, 2 and so on: those that training draws by chance, spread evenly
    /// so that texts of up to `longest` tokens reach over the whole range.
    pub(crate) fn spread(&self, length: usize, longest: usize) -> Option<Vec<u32>> {
        let Encoding::Randomised(randomised) = self else { return None };
        let step = randomised.step(longest);
        Some((0..length).map(|token| (token * step) as u32).collect())
    }

    /// Whether it has a table with a learned vector for each position.
    pub(crate) fn has_learned_rows(&self) -> bool {
        matches!(self, Encoding::Learned(_) | Encoding::Deberta(Deberta { is_absolute: true, .. }))
    }

    /// Whether its tables are projected by the weights that make a layer's queries and keys.
    pub(crate) fn shares_projections(&self) -> bool {
        matches!(self, Encoding::Deberta(Deberta { projections: Projections::Shared, .. }))
    }

    /// The most tokens that a text can have; any number if there is no such limit. `longest` are the rows of learned tables.
    pub(crate) fn limit(&self, longest: usize) -> Option<usize> {
        match self {
            own if own.has_learned_rows() => Some(longest),
            Encoding::Randomised(_) => Some(longest),
            Encoding::Hierarchical(own) => Some(own.rows(longest).saturating_pow(2)),
            _ => None,
        }
    }

    /// Whether values turn too.
    pub(crate) fn turns_values(&self) -> bool {
        match self {
            Encoding::Rotary(rotary) => rotary.values,
            Encoding::ReceptiveField(field) => field.rotary.values,
            Encoding::Randomised(randomised) => randomised.rotary.values,
            _ => false,
        }
    }

    /// Whether linear attention can carry it; an error that says why where it cannot.
    pub fn check_linear(&self) -> Result<()> {
        let reason = match self {
            Encoding::T5(_) | Encoding::Alibi(_) | Encoding::Kerple(_) => {
                "adds B_ij to the score, and exp(B_ij) differs for every query: no sum over keys can be shared"
            }
            Encoding::Shaw(_) | Encoding::XlNet(_) | Encoding::Deberta(_) => {
                "adds products with tables by distance to the score, which differ for every pair of query and key: no sum \
                 over keys can be shared"
            }
            Encoding::None(_)
            | Encoding::Sinusoidal(_)
            | Encoding::Learned(_)
            | Encoding::Hierarchical(_)
            | Encoding::Rotary(_)
            | Encoding::ReceptiveField(_)
            | Encoding::Xpos(_)
            | Encoding::Randomised(_) => return Ok(()),
        };
        let expected = "an encoding that linear attention can carry: none, sinusoidal, learned, hierarchical or a rotary one";
        Err(Error::input("the encoding", format!("{}, which {reason}", self.name()), expected))
    }
}

/// More than any table of an encoding needs.
const MOST_ROWS: usize = 1 << 20;

/// Refuses a table that is absurdly long.
fn check_rows(name: &'static str, rows: usize) -> Result<()> {
    match rows <= MOST_ROWS {
        true => Ok(()),
        false => Err(Error::input(name, rows, format!("at most {MOST_ROWS}"))),
    }
}

/// For each distance between a query and a key its row in a table: `row(i − j)` for queries and keys of a text of `length`
/// tokens, in the order that attention reads them.
fn by_distance(length: usize, row: impl Fn(i64) -> u32) -> Vec<u32> {
    let reach = length as i64 - 1;
    (-reach..=reach).map(row).collect()
}

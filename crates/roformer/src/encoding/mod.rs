//! Position encodings: one file each, all made of eleven terms.
//!
//! Attention knows eleven ways for a position to enter, and nothing else: (1) a vector added to the embedding; (2) a rotation
//! of queries, keys and values; (3) a bias of the score, by head and distance; (4) the product of the query with a row of a
//! table, chosen by the distance; (5) the same with the key; (6) a row added to the value; (7) constants added to the query;
//! (8) a number for each place of a query and of a key; (9) sums over the tokens so far of gates by what is read; (10) the product of
//! the query with a row of a table, chosen by what it counts from the key on; (11) maps by what is read, which the query is taken through
//! on its way to the key.
//! An encoding says which of them it uses and how its parameters make the tables; the gradients follow from the graph.
//! `docs/add-an-encoding.md` adds one.

mod abacus;
mod absolute;
mod alibi;
mod axial;
mod clipped;
mod contextual;
mod coupled;
mod deberta;
mod evaluated;
mod extend;
mod fire;
mod fope;
mod forget;
mod given;
mod hierarchical;
mod high;
mod kerple;
mod label;
mod layers;
mod learned;
mod none;
mod path;
mod pope;
mod pose;
mod randomised;
mod receptive;
mod rotary;
mod sandwich;
mod selective;
mod shaw;
mod sinusoidal;
mod t5;
mod xlnet;
mod xpos;

pub use abacus::Abacus;
pub use absolute::Merge;
pub use alibi::Alibi;
pub use axial::Axial;
pub use clipped::Clipped;
pub use contextual::Contextual;
pub use coupled::Coupled;
pub use deberta::{Deberta, DebertaTerms, Projections};
pub(crate) use evaluated::{AnglesOf, Codes, Evaluated, GateOf, LayerTerms, PathOf, TableOf};
pub use extend::Extend;
pub use fire::Fire;
pub use fope::Fope;
pub use forget::Forget;
pub use given::Given;
pub use hierarchical::Hierarchical;
pub use high::High;
pub use kerple::{Kernel, Kerple};
pub use layers::Layers;
pub use learned::Learned;
pub use none::NoPositions;
pub use path::Path;
pub use pope::Pope;
pub use pose::Pose;
pub use randomised::Randomised;
pub use receptive::ReceptiveField;
pub use rotary::Rotary;
pub use sandwich::Sandwich;
pub use selective::Selective;
pub use shaw::{Shaw, ShawTables};
pub use sinusoidal::{Sinusoidal, shift, sinusoid};
pub use t5::{T5, bucket};
pub use xlnet::XlNet;
pub use xpos::Xpos;

use crate::error::{Error, Result};
pub use crate::graph::Gate;
pub use crate::graph::Terms;
use crate::graph::{Angles, Builder, Digits, Far, LinearForm, Parameter, Value};
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
    /// Heads of keys and values.
    pub key_heads: usize,
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

    /// Term 1 by what the tokens are: a table `[rows, codes]` whose rows are added to embeddings, and which row a token takes.
    fn digits(&self, _builder: &mut Builder<T>, _sizes: &Sizes) -> Option<(Parameter, Digits)> {
        None
    }

    /// What becomes of the embeddings `[batch · length, width]`.
    fn embed(&self, builder: &mut Builder<T>, x: Value, sizes: &Sizes) -> Value {
        if let Some((codes, merge)) = self.codes(builder, sizes) {
            return merge.apply(builder, x, codes, sizes);
        }
        let Some((table, digits)) = self.digits(builder, sizes) else { return x };
        let tokens = [sizes.batch * sizes.length, sizes.length];
        let rows = builder.digit_rows(table, digits, tokens, sizes.codes);
        builder.sum(x, rows)
    }

    /// Terms 2 to 8 and 10 of a layer. Tables that all layers share are made for the first, and found again by their name.
    fn terms(&self, _builder: &mut Builder<T>, _layer: usize, _sizes: &Sizes) -> Terms {
        Terms::default()
    }

    /// Term 9: the gates of a layer, which read what its queries are made of.
    fn gate(&self, _builder: &mut Builder<T>, _layer: usize, _sizes: &Sizes) -> Option<GateTerm> {
        None
    }

    /// Term 2, where queries and keys turn by what a layer reads and not by their positions.
    fn angles(&self, _builder: &mut Builder<T>, _layer: usize, _sizes: &Sizes) -> Option<AngleTerm> {
        None
    }

    /// Term 11: what the maps of a layer's tokens are made of, which read what its queries are made of.
    fn path(&self, _builder: &mut Builder<T>, _layer: usize, _sizes: &Sizes) -> Option<PathWeights> {
        None
    }

    /// Positions drawn anew for every step, `[length]` and rising; `None` for 0, 1, 2 and so on.
    fn positions(&self, _length: usize, _seed: u64, _step: u64) -> Option<Vec<u32>> {
        None
    }
}

/// Gates by what a layer reads: of each token g(w·x + b) for each head.
#[derive(Clone, Copy, Debug)]
pub struct GateTerm {
    /// w `[heads, width]`
    pub weight: Parameter,
    /// b `[heads]`
    pub bias: Parameter,
    /// g
    pub gate: Gate,
}

/// Angles by what a layer reads: each token turns each pair of each key head on by θ·(w·x + b).
#[derive(Clone, Debug)]
pub struct AngleTerm {
    /// w `[key_heads · pairs, width]`
    pub weight: Parameter,
    /// b `[key_heads · pairs]`
    pub bias: Parameter,
    /// θ
    pub angles: Angles,
}

/// Maps by what a layer reads: of each token w = up·down·x, made as long as 1 in each key head, and β = 2·σ(weight·x + bias).
#[derive(Clone, Copy, Debug)]
pub struct PathWeights {
    /// `[rank, width]`
    pub down: Parameter,
    /// `[key_heads · head_dim, rank]`
    pub up: Parameter,
    /// `[key_heads, width]`
    pub weight: Parameter,
    /// `[key_heads]`
    pub bias: Parameter,
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
    /// Learned vectors by the place of a digit within its number.
    Abacus(Abacus),
    /// The same, with signs that move along with the numbers.
    Coupled(Coupled),
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
    /// A bias by the inner product of sinusoidal codes.
    Sandwich(Sandwich),
    /// A bias by a small network of the relative distance.
    Fire(Fire),
    /// A bias that falls by what is read between a key and a query.
    Forget(Forget),
    /// Vectors by what a query counts from a key on.
    Contextual(Contextual),
    /// Maps by what is read between a key and a query.
    Path(Path),
    /// Rotary embedding.
    Rotary(Rotary),
    /// Rotary embedding of rows and columns.
    Axial(Axial),
    /// Rotary embedding with a learned receptive field.
    ReceptiveField(ReceptiveField),
    /// Rotary embedding that decays with the distance.
    Xpos(Xpos),
    /// Rotary embedding at high frequencies on a part of the features.
    High(High),
    /// Rotary embedding with softly clipped low frequencies.
    Clipped(Clipped),
    /// Rotary embedding whose pairs turn at sums of frequencies.
    Fope(Fope),
    /// Magnitudes that turn by their positions alone.
    Pope(Pope),
    /// Rotary embedding that turns by what is read.
    Selective(Selective),
    /// Rotary embedding whose far distances are held at a window, or counted in groups.
    Extend(Extend),
    /// Another encoding at positions drawn by chance.
    Randomised(Randomised),
    /// Rotary embedding at positions with skips.
    Pose(Pose),
    /// Rotary embedding with a window, and every n-th layer without positions or with another base.
    Layers(Layers),
    /// Numbers of a file of somebody's own. It is not among [`all`](Encoding::all), and no label says it.
    Given(Given),
}

impl Encoding {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Encoding::None(_) => "none",
            Encoding::Sinusoidal(_) => "sinusoidal",
            Encoding::Learned(_) => "learned",
            Encoding::Hierarchical(_) => "hierarchical",
            Encoding::Abacus(_) => "abacus",
            Encoding::Coupled(_) => "coupled",
            Encoding::Shaw(_) => "shaw",
            Encoding::XlNet(_) => "xlnet",
            Encoding::T5(_) => "t5",
            Encoding::Deberta(_) => "deberta",
            Encoding::Alibi(_) => "alibi",
            Encoding::Kerple(_) => "kerple",
            Encoding::Sandwich(_) => "sandwich",
            Encoding::Fire(_) => "fire",
            Encoding::Forget(_) => "forget",
            Encoding::Contextual(_) => "contextual",
            Encoding::Path(_) => "path",
            Encoding::Rotary(_) => "rotary",
            Encoding::Axial(_) => "axial",
            Encoding::ReceptiveField(_) => "receptive",
            Encoding::Xpos(_) => "xpos",
            Encoding::High(_) => "high",
            Encoding::Clipped(_) => "clipped",
            Encoding::Fope(_) => "fope",
            Encoding::Pope(_) => "pope",
            Encoding::Selective(_) => "selective",
            Encoding::Extend(_) => "extend",
            Encoding::Randomised(_) => "randomised",
            Encoding::Pose(_) => "pose",
            Encoding::Layers(_) => "layers",
            Encoding::Given(_) => "given",
        }
    }

    /// Every encoding, as it is by default.
    pub fn all() -> Vec<Encoding> {
        vec![
            Encoding::None(NoPositions),
            Encoding::Sinusoidal(Sinusoidal::default()),
            Encoding::Learned(Learned::default()),
            Encoding::Hierarchical(Hierarchical::default()),
            Encoding::Abacus(Abacus::default()),
            Encoding::Coupled(Coupled::default()),
            Encoding::Shaw(Shaw::default()),
            Encoding::XlNet(XlNet::default()),
            Encoding::T5(T5::default()),
            Encoding::Deberta(Deberta::default()),
            Encoding::Alibi(Alibi),
            Encoding::Kerple(Kerple::default()),
            Encoding::Sandwich(Sandwich::default()),
            Encoding::Fire(Fire::default()),
            Encoding::Forget(Forget::default()),
            Encoding::Contextual(Contextual::default()),
            Encoding::Path(Path::default()),
            Encoding::Rotary(Rotary::default()),
            Encoding::Axial(Axial::default()),
            Encoding::ReceptiveField(ReceptiveField::default()),
            Encoding::Xpos(Xpos::default()),
            Encoding::High(High::default()),
            Encoding::Clipped(Clipped::default()),
            Encoding::Fope(Fope::default()),
            Encoding::Pope(Pope::default()),
            Encoding::Selective(Selective::default()),
            Encoding::Extend(Extend::default()),
            Encoding::Randomised(Randomised::default()),
            Encoding::Pose(Pose::default()),
            Encoding::Layers(Layers::default()),
        ]
    }

    /// What it does to a graph.
    pub fn as_encode<T: Real>(&self) -> &dyn Encode<T> {
        match self {
            Encoding::None(encoding) => encoding,
            Encoding::Sinusoidal(encoding) => encoding,
            Encoding::Learned(encoding) => encoding,
            Encoding::Hierarchical(encoding) => encoding,
            Encoding::Abacus(encoding) => encoding,
            Encoding::Coupled(encoding) => encoding,
            Encoding::Shaw(encoding) => encoding,
            Encoding::XlNet(encoding) => encoding,
            Encoding::T5(encoding) => encoding,
            Encoding::Deberta(encoding) => encoding,
            Encoding::Alibi(encoding) => encoding,
            Encoding::Kerple(encoding) => encoding,
            Encoding::Sandwich(encoding) => encoding,
            Encoding::Fire(encoding) => encoding,
            Encoding::Forget(encoding) => encoding,
            Encoding::Contextual(encoding) => encoding,
            Encoding::Path(encoding) => encoding,
            Encoding::Rotary(encoding) => encoding,
            Encoding::Axial(encoding) => encoding,
            Encoding::ReceptiveField(encoding) => encoding,
            Encoding::Xpos(encoding) => encoding,
            Encoding::High(encoding) => encoding,
            Encoding::Clipped(encoding) => encoding,
            Encoding::Fope(encoding) => encoding,
            Encoding::Pope(encoding) => encoding,
            Encoding::Selective(encoding) => encoding,
            Encoding::Extend(encoding) => encoding,
            Encoding::Randomised(encoding) => encoding,
            Encoding::Pose(encoding) => encoding,
            Encoding::Layers(encoding) => encoding,
            Encoding::Given(encoding) => encoding,
        }
    }

    /// Whether it goes by the places of tokens in the text, so that no other positions can be given.
    pub(crate) fn is_by_places(&self) -> bool {
        use Encoding::{
            Alibi, Contextual, Deberta, Extend, Fire, Fope, Kerple, Sandwich, Selective, Shaw, T5, XlNet,
        };
        match self {
            Encoding::Forget(own) => !own.is_rotary,
            own if own.numbers().is_some() => own.numbers().is_some_and(|numbers| !numbers.is_rotary),
            Encoding::Given(own) => own.bias.is_some(),
            Alibi(_) | Deberta(_) | Fire(_) | Kerple(_) | Sandwich(_) | Shaw(_) | T5(_) | XlNet(_) => true,
            Contextual(_) | Encoding::Path(_) | Selective(_) | Extend(_) | Fope(_) => true,
            _ => false,
        }
    }

    /// What it goes by, where it goes by the places of digits.
    fn numbers(&self) -> Option<&Abacus> {
        match self {
            Encoding::Abacus(own) => Some(own),
            Encoding::Coupled(own) => Some(&own.numbers),
            _ => None,
        }
    }

    /// Whether it waits to be told which tokens are digits.
    pub fn lacks_digits(&self) -> bool {
        self.numbers().is_some_and(|numbers| numbers.digits.is_empty())
    }

    /// The same, told which tokens are digits, where it goes by them and does not know yet.
    ///
    /// ```
    /// use roformer::encoding::Encoding;
    /// let encoding = Encoding::parse("abacus")?.with_digits(&[4, 5, 6]);
    /// assert_eq!(encoding.label(), "abacus:digits=4-6");
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn with_digits(mut self, ids: &[u32]) -> Encoding {
        if self.lacks_digits()
            && let Encoding::Abacus(numbers) | Encoding::Coupled(Coupled { numbers }) = &mut self
        {
            numbers.digits = ids.to_vec();
        }
        self
    }

    /// Positions outside of training, where they are not 0, 1, 2 and so on: those that training draws by chance, spread evenly
    /// so that texts of up to `longest` tokens reach over the whole range.
    pub(crate) fn spread(&self, length: usize, longest: usize) -> Option<Vec<u32>> {
        let Encoding::Randomised(randomised) = self else { return None };
        let step = randomised.step(longest);
        Some((0..length).map(|token| (token * step) as u32).collect())
    }

    /// The positions that tokens can stand at in training, where they may be more than those of the longest text.
    pub fn range(&self) -> Option<usize> {
        match self {
            Encoding::Randomised(own) => Some(own.range),
            Encoding::Pose(own) => Some(own.range),
            Encoding::Axial(own) => Some(own.range()),
            _ => None,
        }
    }

    /// Tokens of a row, where it goes by rows and columns: a token stands at the position row · side + column.
    pub fn side(&self) -> Option<usize> {
        if let Encoding::Axial(own) = self { Some(own.side) } else { None }
    }

    /// Positions for texts that are not trained on: those of training where only they make sense, `None` for 0, 1, 2 and so on.
    pub fn positions_of_tests(&self, length: usize, seed: u64, step: u64) -> Option<Vec<u32>> {
        match self {
            Encoding::Pose(_) => None,
            other => other.as_encode::<f32>().positions(length, seed, step),
        }
    }

    /// Whether it is for models alone in which a token sees only what came before.
    pub fn is_causal_only(&self) -> bool {
        use Encoding::{Contextual, Extend, Fire, Forget, Path, Selective, Xpos};
        matches!(self, Xpos(_) | Fire(_) | Forget(_) | Contextual(_) | Path(_) | Selective(_) | Extend(_))
    }

    /// The window that it gives a layer, where it gives one.
    pub(crate) fn window_of(&self, layer: usize) -> Option<usize> {
        if let Encoding::Layers(own) = self { own.window_of(layer) } else { None }
    }

    /// Whether it sums gates over tokens.
    pub(crate) fn has_gates(&self) -> bool {
        matches!(self, Encoding::Forget(_))
    }

    /// Whether queries and keys turn by numbers that are not a rope's.
    pub(crate) fn has_turns(&self) -> bool {
        matches!(self, Encoding::Selective(_) | Encoding::Fope(_) | Encoding::Axial(_))
    }

    /// Whether angles sum up over tokens by what is read.
    pub(crate) fn has_angles(&self) -> bool {
        matches!(self, Encoding::Selective(_))
    }

    /// Which distances are far, where those are others than they seem.
    pub(crate) fn far(&self) -> Option<Far> {
        if let Encoding::Extend(own) = self { Some(own.far) } else { None }
    }

    /// The numbers that the maps of tokens are made of, where they have such; else 0.
    pub(crate) fn map_rank(&self) -> usize {
        if let Encoding::Path(own) = self { own.rank } else { 0 }
    }

    /// Numbers of a head of queries and keys where they meet, for heads of `head_dim` features.
    pub(crate) fn meeting_dim(&self, head_dim: usize) -> usize {
        if matches!(self, Encoding::Pope(_)) { 2 * head_dim } else { head_dim }
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
            Encoding::Pose(pose) => pose.rotary.values,
            Encoding::Extend(own) => own.rotary.values,
            _ => false,
        }
    }

    /// Whether linear attention can carry it; an error that says why where it cannot.
    pub fn check_linear(&self) -> Result<()> {
        let reason = match self {
            Encoding::Given(own) if own.bias.is_none() => return Ok(()),
            Encoding::Given(_)
            | Encoding::T5(_)
            | Encoding::Alibi(_)
            | Encoding::Kerple(_)
            | Encoding::Sandwich(_)
            | Encoding::Fire(_) => {
                "adds B_ij to the score, and exp(B_ij) differs for every query: no sum over keys can be shared"
            }
            Encoding::Shaw(_) | Encoding::XlNet(_) | Encoding::Deberta(_) => {
                "adds products with tables by distance to the score, which differ for every pair of query and key: no sum \
                 over keys can be shared"
            }
            Encoding::Layers(own) if own.window.is_some() => {
                "looks through a window in some layers: sums over all keys forget none"
            }
            Encoding::Layers(_) => return Ok(()),
            Encoding::Forget(_) => {
                "fades what came before by what each token reads: sums over keys would have to shrink token by token, which \
                 these do not"
            }
            Encoding::Contextual(_) => {
                "counts by gates of each query and each key what lies between them: no sum over keys can be shared"
            }
            Encoding::Path(_) => {
                "takes queries through a map of every token on the way to a key: sums over keys would have to be taken through \
                 them, which these are not"
            }
            Encoding::Pope(_) => {
                "makes features of its own, the magnitudes, of queries and keys: a feature map would undo them"
            }
            Encoding::Extend(_) => {
                "meets keys that are far away at other positions than near ones: a sum over keys would have to know how far each is"
            }
            Encoding::Rotary(own) if own.is_by_head => {
                "turns each head at frequencies of its own: features of all heads turn together here"
            }
            Encoding::None(_)
            | Encoding::Sinusoidal(_)
            | Encoding::Learned(_)
            | Encoding::Hierarchical(_)
            | Encoding::Abacus(_)
            | Encoding::Coupled(_)
            | Encoding::Rotary(_)
            | Encoding::Axial(_)
            | Encoding::ReceptiveField(_)
            | Encoding::Xpos(_)
            | Encoding::High(_)
            | Encoding::Clipped(_)
            | Encoding::Fope(_)
            | Encoding::Selective(_)
            | Encoding::Randomised(_)
            | Encoding::Pose(_) => return Ok(()),
        };
        let expected = "an encoding that linear attention can carry: none, sinusoidal, learned, hierarchical, abacus, coupled or a rotary one";
        let name = if let Encoding::Given(own) = self { own.name.as_str() } else { self.name() };
        Err(Error::input("the encoding", format!("{name}, which {reason}"), expected))
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

/// The features of a part of a head, in whole pairs.
fn part_of(head_dim: usize, part: f64) -> Result<usize> {
    let dim = (part * head_dim as f64 / 2.0).floor() as usize * 2;
    match part > 0.0 && part <= 1.0 && dim >= 2 {
        true => Ok(dim),
        false => {
            let expected = format!("above 0, at most 1, and at least a pair of the {head_dim} features");
            Err(Error::input("the part of the features that turns", part, expected))
        }
    }
}

/// For each distance between a query and a key its row in a table: `row(i − j)` for queries and keys of a text of `length`
/// tokens, in the order that attention reads them.
fn by_distance(length: usize, row: impl Fn(i64) -> u32) -> Vec<u32> {
    let reach = length as i64 - 1;
    (-reach..=reach).map(row).collect()
}

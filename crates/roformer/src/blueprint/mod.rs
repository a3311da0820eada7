//! What a Transformer is, as a value: read once from `config.json`, and all that runs, trains, checks or hands over a model
//! goes by it.
//!
//! ```text
//! mod.rs          a blueprint
//! parts.rs        its parts
//! check.rs        the sizes that it can have
//! head.rs         what stands on the last layer
//! family/         one file per family: its config.json both ways, and its tensor names
//! names.rs        what a family calls its tensors
//! arranged.rs     tensors that a family's files keep in another order
//! tensors.rs      the list of tensors that a blueprint asks for, and the check of a file against it
//! nearest.rs      which family a model of an unknown one is most like
//! fields.rs       reading fields of a config.json, with errors that name them
//! keys.rs         keys of a config.json that are not known
//! bert_config.rs  what BERT's first release has in place of a config.json
//! rope.rs         the rotary embedding in a config.json, both ways
//! ```
//!
//! [`model`](crate::model) walks a blueprint over a device with packed weights and caches; [`network`](crate::network) lays
//! it out as a graph to be trained. A test holds the two together: for every family and encoding they give the same numbers.

mod arranged;
mod bert_config;
mod check;
mod family;
pub(crate) mod fields;
mod head;
mod keys;
mod names;
mod nearest;
mod parts;
mod rope;
mod tensors;

pub(crate) use arranged::Arrangement;
pub use arranged::{Kept, Role};
pub(crate) use family::positions_table;
pub use family::{Family, QUANTISED};
pub use head::{HeadKind, Judged, Labels, Problem, Summary, SummaryOf};
pub use keys::UnknownKeys;
pub(crate) use names::{BUCKETS, Names, POSITIONS};
pub use nearest::Nearest;
pub use parts::{
    Biases, Convolution, Dims, Direction, Features, HeadNorms, LinearForm, Local, Mixing, NoPe, NormKind,
    NormPlace, Norms, Output, Temperature,
};
pub(crate) use tensors::Named;
pub use tensors::{Asked, Part};

use crate::encoding::{Encoding, Extend, NoPositions, Rotary, Sizes};
use crate::error::{Error, Result};
use crate::graph::Far;
use crate::ops::Activation;
use crate::weights::Weights;
use std::borrow::Cow;
use std::path::Path;

/// A description of a Transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// Whose tensor names and whose `config.json` it has.
    pub family: Family,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Segments; 0 where embeddings have none.
    pub types: usize,
    /// Width of the embeddings; projected to `width` where they differ.
    pub embedding: usize,
    /// Whether that projection, then without a bias, comes before the norm of the embeddings, rather than after it.
    pub projects_first: bool,
    /// Width of the model.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and of values: a divisor of `heads`, which share them in turn.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Width between the two products of a feed-forward block.
    pub wide: usize,
    /// Whether the feed-forward block is gated: activation(gate)·up rather than activation(up).
    pub is_gated: bool,
    /// The activation of the feed-forward block, or of its gate.
    pub activation: Activation,
    /// Whether attention and the feed-forward block read the same, side by side, rather than one after the other.
    pub is_parallel: bool,
    /// What scores of attention are multiplied by, where it is not 1/√head_dim.
    pub scale: Option<f64>,
    /// What scores of attention are bounded by, softly: c·tanh(score/c).
    pub score_cap: Option<f64>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f64,
    /// The norms.
    pub norms: Norms,
    /// Which products of a layer have biases.
    pub biases: Biases,
    /// The norms of single heads of queries and keys.
    pub head_norms: HeadNorms,
    /// Whether scores have a term by whether two tokens are of one segment.
    pub has_segment_scores: bool,
    /// Which tokens a token sees.
    pub direction: Direction,
    /// Whether layers also attend to another model's output.
    pub has_cross_attention: bool,
    /// The encoder whose output that is, where it comes with the model; it has the same word embeddings.
    pub encoder: Option<Box<Blueprint>>,
    /// The position encoding.
    pub encoding: Encoding,
    /// Whether codes of positions are added before the embeddings are normed; else they come last.
    pub codes_first: bool,
    /// The padding token, where positions count no token of that id.
    pub padding: Option<u32>,
    /// Tokens of the longest text: the rows of learned tables of positions.
    pub longest: usize,
    /// What is different in some of the layers.
    pub local: Option<Local>,
    /// Layers that no position encoding reaches.
    pub nope: Option<NoPe>,
    /// A convolution beside the first layer.
    pub convolution: Option<Convolution>,
    /// How tokens look at each other.
    pub mixing: Mixing,
    /// The output of a language model.
    pub output: Output,
    /// What hidden states are multiplied by before it.
    pub output_scale: f64,
    /// The activation of the pooler, where there is one.
    pub pooler: Option<Activation>,
    /// What stands on the last layer.
    pub head: HeadKind,
    /// What a classifier of texts reads.
    pub judged: Judged,
    /// The labels of a classifier.
    pub labels: Labels,
    /// What a multiple-choice head reads.
    pub summary: Summary,
    /// The tokens that end a text, as far as the file says.
    pub ends: Vec<u32>,
    /// The token that a text begins with which a decoder with an encoder writes.
    pub start: u32,
}

impl Blueprint {
    /// The blueprint of a `config.json`. What would change the result and is not supported is an error that names it.
    ///
    /// What a file does not say but its tensors do (RoFormer-Sim's pooler, the head norms of newer MiniMinds, the head where
    /// `architectures` is missing) is seen by [`open`](Blueprint::open) alone.
    pub fn from_config(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes, None)
    }

    /// The blueprint of a folder with a `config.json` or a `bert_config.json` and weights, and those weights, checked against
    /// it.
    pub fn open(folder: impl AsRef<Path>) -> Result<(Self, Weights)> {
        let folder = folder.as_ref();
        let bytes = Self::config_of(folder)?;
        // What is wrong with the configuration says more than that there are no weights.
        Self::from_config(&bytes)?;
        let weights = Weights::of_model(folder)?;
        let blueprint = Self::read(&bytes, Some(&weights))?;
        blueprint.check_weights(&weights)?;
        Ok((blueprint, weights))
    }

    /// The blueprint of a `config.json`, and of the weights beside it for what the file does not say.
    pub fn read(bytes: &[u8], weights: Option<&Weights>) -> Result<Self> {
        let map = fields::object(bytes)?;
        let mut blueprint = family::read(map.clone(), weights)?;
        UnknownKeys::check(&map, blueprint.family)?;
        if let Some(weights) = weights.filter(|_| blueprint.encoding.has_learned_rows()) {
            // A learned table says itself how many positions it has.
            let offset = match &blueprint.encoding {
                Encoding::Learned(learned) => learned.offset,
                _ => 0,
            };
            let names = blueprint.family.names();
            let (name, source) = (names.of_encoding(POSITIONS), Named::new(weights, names));
            let rows = weights.get(source.own(&name)).and_then(|table| table.shape().first().copied());
            blueprint.longest = rows.map_or(blueprint.longest, |rows| rows.saturating_sub(offset));
        }
        blueprint.check()?;
        Ok(blueprint)
    }

    /// A blueprint with none of the parts that only some families have; sizes are 0.
    pub(crate) fn without_parts(family: Family) -> Blueprint {
        Blueprint {
            family,
            vocabulary: 0,
            types: 0,
            embedding: 0,
            projects_first: false,
            width: 0,
            layers: 0,
            heads: 0,
            key_heads: 0,
            head_dim: 0,
            wide: 0,
            is_gated: false,
            activation: Activation::Gelu,
            is_parallel: false,
            scale: None,
            score_cap: None,
            embedding_scale: 1.0,
            norms: Norms {
                kind: NormKind::Layer,
                place: NormPlace::Before,
                epsilon: 1e-5,
                of_embeddings: false,
                at_end: false,
                skips_first: false,
            },
            biases: Biases::all(true),
            head_norms: HeadNorms::None,
            has_segment_scores: false,
            direction: Direction::Both,
            has_cross_attention: false,
            encoder: None,
            encoding: Encoding::Rotary(Rotary::default()),
            codes_first: false,
            padding: None,
            longest: 1,
            local: None,
            nope: None,
            convolution: None,
            mixing: Mixing::Softmax,
            output: Output {
                is_tied: true,
                transform: None,
                transform_has_bias: true,
                transforms_all: false,
                has_bias: false,
                cap: None,
            },
            output_scale: 1.0,
            pooler: None,
            head: HeadKind::None,
            judged: Judged::Token,
            labels: Labels::default(),
            summary: Summary::default(),
            ends: Vec::new(),
            start: 0,
        }
    }

    /// The part of `local` that a layer has.
    fn local_of(&self, layer: usize) -> Option<&Local> {
        self.local.as_ref().filter(|local| local.layers.get(layer) == Some(&true))
    }

    /// What a layer has that no position encoding reaches.
    pub(crate) fn nope_of(&self, layer: usize) -> Option<&NoPe> {
        self.nope.as_ref().filter(|nope| nope.layers.get(layer) == Some(&true))
    }

    /// The position encoding of a layer.
    pub(crate) fn encoding_of(&self, layer: usize) -> &Encoding {
        if self.nope_of(layer).is_some() {
            return &Encoding::None(NoPositions);
        }
        self.local_of(layer).and_then(|local| local.encoding.as_ref()).unwrap_or(&self.encoding)
    }

    /// The name of a parameter of an encoding in the family's files.
    pub(crate) fn of_encoding<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let shared = || {
            let (layer, part) = name.strip_prefix("position.deberta.")?.split_once('.')?;
            Some((layer.parse().ok()?, part))
        };
        let shared = shared().filter(|_| self.encoding.shares_projections());
        let shared = shared.and_then(|(layer, part)| self.family.names().shared(layer, part));
        shared.map_or_else(|| self.family.names().of_encoding(name), Cow::Owned)
    }

    /// The window of a layer, where it has one.
    pub(crate) fn window_of(&self, layer: usize) -> Option<usize> {
        let own = || self.encoding.window_of(layer);
        self.local_of(layer).and_then(|local| local.window).or_else(own)
    }

    /// The length of the pieces that a layer's texts are cut into, where they are.
    pub(crate) fn chunk_of(&self, layer: usize) -> Option<usize> {
        self.local_of(layer).and_then(|local| local.chunk)
    }

    /// The position encodings of the first layers.
    pub(crate) fn layer_encodings(&self, layers: usize) -> Vec<&Encoding> {
        (0..layers).map(|layer| self.encoding_of(layer)).collect()
    }

    /// Whether the frequencies of a rotation depend on how long a text is: dynamic NTK, LongRoPE.
    pub fn depends_on_length(&self) -> bool {
        let depends = |encoding: &&Encoding| matches!(encoding, Encoding::Rotary(own) if own.schedule.depends_on_length());
        self.layer_encodings(self.layers).iter().any(depends)
    }

    /// The same with rotary embedding that reaches further than it was trained to: keys that are a window or more before a query are all
    /// as far as the window (ReRoPE), or are counted in groups of tokens (Self-Extend). Weights stay what they are.
    ///
    /// ```
    /// use roformer::blueprint::{Blueprint, Dims};
    /// use roformer::graph::Far;
    ///
    /// let llama = Blueprint::llama(Dims { vocabulary: 100, width: 16, layers: 2, heads: 2 })?;
    /// let longer = llama.extended(Far { window: 1024, group: Some(8) })?;
    /// assert_eq!(longer.encoding.label(), "extend:window=1024,group=8,pairing=half");
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn extended(self, far: Far) -> Result<Blueprint> {
        let rotary = match self.encoding {
            Encoding::Rotary(rotary) => rotary,
            other => {
                let expected =
                    "one with rotary embedding: what is extended are the distances at which it turns";
                return Err(Error::input(
                    "the model",
                    format!("one whose encoding is {}", other.label()),
                    expected,
                ));
            }
        };
        let extended = Blueprint { encoding: Encoding::Extend(Extend { far, rotary }), ..self };
        extended.check_encoding()?;
        Ok(extended)
    }

    /// The activation of the product that comes before the scores of this head, with a norm behind, where there is one.
    pub(crate) fn transform(&self) -> Option<Activation> {
        let has_scores = match self.head {
            HeadKind::None => false,
            head => head.is_language_model() || self.output.transforms_all,
        };
        self.output.transform.filter(|_| has_scores)
    }

    /// Whether a token sees only what came before, from the first token on.
    pub fn is_causal(&self) -> bool {
        self.direction == Direction::Causal
    }

    /// Whether it reads a text whole and then continues it, token after token, as UniLM does and RoFormer-Sim is trained.
    pub fn is_unilm(&self) -> bool {
        self.direction == Direction::Prefix
    }

    /// Whether it continues a text token after token.
    pub fn is_generative(&self) -> bool {
        self.direction != Direction::Both
    }

    /// The activation between the two products of a classifier of texts.
    pub(crate) fn text_activation(&self) -> Activation {
        match self.family {
            // One pooler serves this head and that of multiple choice.
            Family::DebertaV2 | Family::XlNet => self.summary.activation,
            family => family.names().text_activation.unwrap_or(self.activation),
        }
    }

    /// How many segments a token can be of: as good as any, where they are only compared.
    pub fn segments(&self) -> usize {
        if self.has_segment_scores { fields::MAX_SIZE as usize } else { self.types.max(1) }
    }

    /// Width of what the norm of the embeddings reads.
    pub(crate) fn normed_embedding(&self) -> usize {
        if self.projects_first { self.width } else { self.embedding }
    }

    /// Numbers of a token's queries.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Numbers of a token's keys, and of its values.
    pub fn key_width(&self) -> usize {
        self.key_heads * self.head_dim
    }

    /// Numbers of a token's keys, and of its values, as a cache keeps them.
    pub(crate) fn kept_width(&self) -> usize {
        self.key_heads * self.encoding.meeting_dim(self.head_dim)
    }

    /// Numbers by which the heads of a token turn, where those are not a rope's.
    pub(crate) fn turns_width(&self) -> usize {
        if self.encoding.has_turns() { self.key_heads * self.encoded_sizes(1).head_dim } else { 0 }
    }

    /// Labels of a classifier.
    pub fn classes(&self) -> usize {
        self.labels.count
    }

    /// The sizes that an encoding goes by, for texts of `length` tokens.
    pub(crate) fn sizes(&self, batch: usize, length: usize) -> Sizes {
        Sizes {
            batch,
            length,
            longest: self.longest.max(length),
            width: self.width,
            codes: if self.codes_first { self.embedding } else { self.width },
            heads: self.heads,
            key_heads: self.key_heads,
            head_dim: self.head_dim,
            is_causal: self.is_causal(),
            has_biases: self.biases.queries,
        }
    }

    /// The sizes that an encoding goes by in a model that is run, for texts of up to `length` tokens.
    pub(crate) fn encoded_sizes(&self, length: usize) -> Sizes {
        let sizes = self.sizes(1, length);
        match self.mixing {
            Mixing::Softmax => sizes,
            Mixing::Linear(form) => sizes.rotated(form),
        }
    }

    /// About how many numbers the weights of a model are.
    pub(crate) fn numbers(&self) -> u128 {
        let [vocabulary, embedding, width, query, key, wide, layers] = [
            self.vocabulary,
            self.embedding,
            self.width,
            self.query_width(),
            self.key_width(),
            self.wide,
            self.layers,
        ]
        .map(|size| size as u128);
        let attention = (2 * query + 2 * key) * if self.has_cross_attention { 2 } else { 1 };
        let feed_forward = if self.is_gated { 3 * wide } else { 2 * wide };
        let output = match self.head.is_language_model() && !self.output.is_tied {
            true => vocabulary * embedding,
            false => 0,
        };
        let encoder = self.encoder.as_ref().map_or(0, |encoder| encoder.numbers());
        vocabulary * embedding + output + layers * width * (attention + feed_forward) + encoder
    }
}

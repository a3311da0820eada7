//! Text to tokens and back: RoFormer's WordPiece on jieba's words, BERT's on characters, or any `tokenizer.json`.
//!
//! ```no_run
//! # fn main() -> roformer::Result<()> {
//! let tokenizer = roformer::tokenizer::Tokenizer::load("chinese_roformer_base")?;
//! let encoding = tokenizer.encode("今天[MASK]气很好")?;
//! assert_eq!(encoding.ids[0], tokenizer.cls_id().unwrap());
//! println!("{}", tokenizer.decode(&encoding.ids));
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! mod.rs       what is asked of a tokenizer
//! load.rs      which rule a folder means, and the tokenizer made by it
//! files.rs     what the files of a folder say
//! bounds.rs    what a tokenizer.json may ask for
//! steps.rs     its normalizer, pre-tokenizer and decoder, watched step by step
//! foreign.rs   the tokenizers crate at work: in silence, within a time
//! words.rs     jieba's words and BERT's
//! cut.rs       texts of which only the beginning is kept
//! places.rs    where a text can be cut without changing what stands before
//! pattern.rs   what the matches of a pattern can hold
//! encoding.rs  a text as tokens
//! text.rs      tokens as text
//! unknown.rs   how many of them the vocabulary does not have
//! hand_over.rs the files for transformers
//! ```

mod bounds;
mod cut;
mod encoding;
mod files;
mod foreign;
mod hand_over;
mod load;
mod pattern;
mod places;
mod steps;
mod text;
mod unknown;
mod words;

pub use encoding::Encoding;
pub(crate) use hand_over::template;
pub use hand_over::{FILES, kept};
pub use unknown::Unknown;
pub use words::words;
pub(crate) use words::{cut_at_chinese, is_chinese, is_whole, jieba_words, word_starts};

use crate::error::{Error, Result};
use crate::weights::brief;
use places::Places;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use steps::{Decoding, Normalization, PreTokenization};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{ModelWrapper, PostProcessorWrapper, TokenizerImpl, decoders};
use words::Words;

/// The rule that a tokenizer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// WordPiece on words that jieba finds: RoFormer's Chinese models.
    RoFormer,
    /// WordPiece on characters and on words between spaces: BERT, and RoFormer's models of single characters.
    Bert,
    /// Whatever a `tokenizer.json` says.
    File,
}

impl Kind {
    /// A word for it: `roformer`, `bert` or `file`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::RoFormer => "roformer",
            Kind::Bert => "bert",
            Kind::File => "file",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// WordPiece by one of our two rules. The special tokens around a text are ours too, so there is no post-processor.
type Pieces =
    TokenizerImpl<WordPiece, BertNormalizer, Words, TemplateProcessing, decoders::wordpiece::WordPiece>;

/// Whatever a `tokenizer.json` says, within bounds.
type File = TokenizerImpl<ModelWrapper, Normalization, PreTokenization, PostProcessorWrapper, Decoding>;

enum Rule {
    Pieces(Box<Pieces>),
    File(Box<File>),
}

/// The same expression on either type of tokenizer.
macro_rules! either {
    ($rule:expr, $inner:ident => $work:expr) => {
        match $rule {
            Rule::Pieces($inner) => $work,
            Rule::File($inner) => $work,
        }
    };
}

impl Rule {
    /// All tokens, added ones included.
    fn vocabulary(&self) -> HashMap<String, u32> {
        either!(self, inner => inner.get_vocab(true))
    }

    /// The added tokens that are special.
    fn special(&self) -> Vec<String> {
        let added = either!(self, inner => inner.get_added_tokens_decoder());
        added.into_values().filter(|token| token.special).map(|token| token.content).collect()
    }
}

/// Turns text into tokens and tokens into text. It can be shared between threads.
pub struct Tokenizer {
    kind: Kind,
    rule: Rule,
    /// The file that a complaint names.
    path: String,
    /// The ids of the named special tokens, in the order of `files::ROLES`.
    roles: [Option<u32>; files::ROLES.len()],
    /// Ids that are left out of a text for people.
    special: HashSet<u32>,
    size: usize,
    /// Where texts can be cut; found out with the first one that is long.
    places: OnceLock<Places>,
}

impl Tokenizer {
    /// Reads the tokenizer of a model from its folder: `tokenizer_config.json`, `vocab.txt`, `tokenizer.json`,
    /// `special_tokens_map.json`, `added_tokens.json` and `config.json`, as far as they are there.
    ///
    /// The class that `tokenizer_config.json` (or else `config.json`) names decides:
    ///
    /// - `RoFormerTokenizer`: [`Kind::RoFormer`], with the vocabulary of `vocab.txt`, or of `tokenizer.json` where there
    ///   is none. The rule that is saved in `tokenizer.json` is not the one that the model was trained with (jieba cannot
    ///   be saved there), so it is ignored;
    /// - `BertTokenizer`: [`Kind::Bert`], with the vocabulary from the same places;
    /// - any other: [`Kind::File`], which needs `tokenizer.json`;
    /// - none: [`Kind::File`] if there is a `tokenizer.json` and `config.json` is not a RoFormer's; otherwise
    ///   [`Kind::RoFormer`] if the vocabulary has words of two or more Chinese characters, and [`Kind::Bert`] if not.
    pub fn load(dir: impl AsRef<Path>) -> Result<Self> {
        load::load(dir.as_ref(), false)
    }

    /// The same, with letters made small before anything else is done with a text, whatever the files say.
    pub(crate) fn load_lowercased(dir: impl AsRef<Path>) -> Result<Self> {
        load::load(dir.as_ref(), true)
    }

    /// The rule that it follows.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Loads jieba's dictionary, if this tokenizer needs it and it is not loaded yet; takes about a quarter of a second.
    ///
    /// The first [`encode`](Self::encode) does so itself. Call this from a thread of its own to have it done while
    /// weights are read.
    pub fn prepare(&self) {
        if self.kind == Kind::RoFormer {
            words::dictionary();
        }
    }

    /// A text with the special tokens that the model expects: `[CLS] text [SEP]`.
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        match &self.rule {
            Rule::Pieces(_) => Ok(self.framed([Some(self.parts(text)?), None])),
            Rule::File(file) => self.guarded(text.len(), || file.encode(text, true).map(convert)),
        }
    }

    /// Two texts: `[CLS] first [SEP] second [SEP]`, with token type 1 from the first token of the second text on.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Encoding> {
        match &self.rule {
            Rule::Pieces(_) => Ok(self.framed([Some(self.parts(first)?), Some(self.parts(second)?)])),
            Rule::File(file) => {
                let bytes = first.len() + second.len();
                self.guarded(bytes, || file.encode((first, second), true).map(convert))
            }
        }
    }

    /// A text without special tokens around it.
    pub fn encode_plain(&self, text: &str) -> Result<Encoding> {
        self.parts(text)
    }

    fn parts(&self, text: &str) -> Result<Encoding> {
        self.guarded(text.len(), || either!(&self.rule, inner => inner.encode(text, false)).map(convert))
    }

    /// One or two texts between `[CLS]` and `[SEP]`s.
    fn framed(&self, texts: [Option<Encoding>; 2]) -> Encoding {
        let mut all = Encoding::default();
        let mark = |all: &mut Encoding, id: Option<u32>, kind| {
            all.ids.extend(id);
            all.token_types.resize(all.ids.len(), kind);
            all.offsets.resize(all.ids.len(), (0, 0));
            all.sequence.resize(all.ids.len(), None);
        };
        mark(&mut all, self.cls_id(), 0);
        for (text, number) in texts.into_iter().flatten().zip(0u8..) {
            all.ids.extend(text.ids);
            all.token_types.resize(all.ids.len(), u32::from(number));
            all.offsets.extend(text.offsets);
            all.sequence.resize(all.ids.len(), Some(number));
            mark(&mut all, self.sep_id(), u32::from(number));
        }
        all
    }

    /// Runs the tokenizers crate on so many bytes of text.
    fn guarded<T>(&self, bytes: usize, work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
        let reason = match foreign::run(bytes, work) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => brief(&error.to_string()),
            Err(Some(reason)) => reason,
            Err(None) => "expected a sound tokenizer, download it again".into(),
        };
        let reason = format!("the text cannot be encoded with it: {reason}");
        Err(Error::File { path: self.path.clone().into(), reason })
    }

    /// The text of some tokens, for people: special tokens and unknown ids left out, pieces joined, no spaces between
    /// Chinese characters, punctuation spaced as one writes it. What encoding drops (case, accents, the spaces of the
    /// text) does not come back.
    pub fn decode(&self, ids: &[u32]) -> String {
        let prefix = match &self.rule {
            Rule::Pieces(_) => "##",
            Rule::File(file) => match file.get_decoder().and_then(Decoding::prefix) {
                Some(prefix) => prefix,
                None => {
                    let decoded = self.guarded(ids.len(), || file.decode(ids, true));
                    return decoded.unwrap_or_else(|_| self.pieces(ids).join(" "));
                }
            },
        };
        text::join(self.pieces(ids).iter().map(|piece| piece.as_ref()), prefix)
    }

    fn pieces(&self, ids: &[u32]) -> Vec<Cow<'_, str>> {
        let shown = ids.iter().filter(|id| !self.special.contains(id));
        shown.filter_map(|&id| self.token(id)).map(Cow::Owned).collect()
    }

    /// The token of an id; pieces within a word begin with `##`.
    pub fn token(&self, id: u32) -> Option<String> {
        either!(&self.rule, inner => inner.id_to_token(id))
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        either!(&self.rule, inner => inner.token_to_id(token))
    }

    /// The id that stands for what is not in the vocabulary, `[UNK]`.
    pub fn unk_id(&self) -> Option<u32> {
        self.roles[0]
    }

    /// The id after a text, `[SEP]`.
    pub fn sep_id(&self) -> Option<u32> {
        self.roles[1]
    }

    /// The id that fills up a batch, `[PAD]`.
    pub fn pad_id(&self) -> Option<u32> {
        self.roles[2]
    }

    /// The id before a text, `[CLS]`.
    pub fn cls_id(&self) -> Option<u32> {
        self.roles[3]
    }

    /// The id of a gap to fill, `[MASK]`.
    pub fn mask_id(&self) -> Option<u32> {
        self.roles[4]
    }

    /// The id that a decoder's text begins with, where `tokenizer_config.json` names it.
    pub fn bos_id(&self) -> Option<u32> {
        self.roles[5]
    }

    /// The id that a decoder's text ends with, where `tokenizer_config.json` names it.
    pub fn eos_id(&self) -> Option<u32> {
        self.roles[6]
    }

    /// Whether a token is special, by its name or as an added one.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// The largest id plus one, added tokens included: what a model's vocabulary must hold at least.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("kind", &self.kind)
            .field("path", &self.path)
            .field("len", &self.size)
            .finish_non_exhaustive()
    }
}

fn convert(encoding: tokenizers::Encoding) -> Encoding {
    let marks = encoding.get_special_tokens_mask();
    let sequence = encoding.get_sequence_ids().into_iter().zip(marks);
    Encoding {
        ids: encoding.get_ids().to_vec(),
        token_types: encoding.get_type_ids().to_vec(),
        offsets: encoding.get_offsets().to_vec(),
        sequence: sequence
            .map(|(text, &mark)| text.filter(|_| mark == 0).map(|text| text.min(1) as u8))
            .collect(),
    }
}

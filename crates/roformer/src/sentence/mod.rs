//! What a folder of sentence-transformers says is done with a text: the modules that make its vector, the prompts, how vectors
//! are compared; or that the model is a cross-encoder, which scores pairs of texts.
//!
//! The library's own reading is followed, version 6. What would change a number and is not done here is refused by name.
//!
//! ```text
//! mod.rs         a folder's recipe
//! modules.rs     modules.json: which modules there are, and where
//! settings.rs    the files beside it: prompts, the longest text, letters made small
//! pooling.rs     the vectors of tokens become one
//! dense.rs       a product and an activation
//! similarity.rs  how near two vectors are
//! pairs.rs       cross-encoders
//! fields.rs      reading fields of a file, with errors that name both
//! ```

mod dense;
mod fields;
mod modules;
mod pairs;
mod pooling;
mod settings;
mod similarity;

pub use dense::{Activation, Dense};
pub use pairs::Pairs;
pub use pooling::Pooling;
pub use settings::Prompts;
pub use similarity::{Similarity, cosine};

pub(crate) use dense::Product;
#[cfg(feature = "hub")]
pub(crate) use modules::{FILE as MODULES, files};

use crate::blueprint::fields::read_config;
use crate::blueprint::{Blueprint, HeadKind};
use crate::error::Result;
use fields::Fields;
use modules::{Kind, Module};
use settings::Settings;
use std::path::{Path, PathBuf};

/// What a folder says is done with texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// Where the transformer and its tokenizer lie: the folder itself, or one in it.
    pub transformer: PathBuf,
    /// What makes a vector of a text, where the folder says so.
    pub vectors: Option<Vectors>,
    /// What makes a score of a pair of texts, where the model is a cross-encoder.
    pub pairs: Option<Pairs>,
    /// What may stand before a text.
    pub prompts: Prompts,
    /// Texts are cut to so many tokens.
    pub longest: Option<usize>,
    /// Whether letters are made small, whatever the tokenizer does.
    pub lowers_case: bool,
}

/// What makes a vector of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// The poolings, whose results stand side by side.
    pub poolings: Vec<Pooling>,
    /// Whether the tokens of a prompt are pooled too.
    pub includes_prompt: bool,
    /// What comes after them.
    pub steps: Vec<Step>,
    /// How many numbers of a vector are kept, if not all.
    pub dimensions: Option<usize>,
    /// How vectors are compared.
    pub similarity: Similarity,
}

/// What is done with a vector after the pooling.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A product and an activation.
    Dense(Dense),
    /// The vector is scaled to length 1.
    Normalize,
}

impl Recipe {
    /// Reads the recipe of a folder. No weights are read. A folder without `modules.json` has none but that of a cross-encoder,
    /// which a classifier with a single label is.
    pub fn read(folder: impl AsRef<Path>) -> Result<Recipe> {
        let folder = folder.as_ref();
        let Some(modules) = modules::read(folder)? else {
            let pairs = Pairs::of_model(folder)?;
            return Ok(Recipe { transformer: folder.to_owned(), pairs, ..Recipe::default() });
        };
        let settings = Settings::read(folder)?;
        let (first, rest) = modules::split(folder, &modules)?;
        let transformer = first.folder(folder);
        let reading = settings::Reading::read(&transformer, settings.is_cross_encoder)?;
        let mut recipe = Recipe {
            longest: reading.longest(&transformer)?,
            lowers_case: reading.lowers_case,
            prompts: settings.prompts()?,
            transformer,
            ..Recipe::default()
        };
        match settings.is_cross_encoder {
            true => recipe.pairs = Some(Pairs::of_folder(folder, rest, &settings, &recipe)?),
            false => recipe.vectors = Some(Vectors::read(folder, rest, &settings)?),
        }
        Ok(recipe)
    }
}

impl Vectors {
    fn read(folder: &Path, modules: &[Module], settings: &Settings) -> Result<Vectors> {
        let Some((Module { kind: Kind::Pooling, .. }, rest)) = modules.split_first() else {
            return Err(modules::wrong(folder, "no pooling after the transformer; expected one there"));
        };
        let (poolings, includes_prompt) = pooling::read(&modules[0].folder(folder))?;
        let mut steps = Vec::new();
        for module in rest {
            let path = module.folder(folder);
            match module.kind {
                Kind::Dense => steps.push(Step::Dense(Dense::read(&path)?)),
                Kind::Normalize => {
                    of_vectors(&Fields::read_if_there(&path.join(CONFIG))?)?;
                    steps.push(Step::Normalize);
                }
                // Nothing is dropped when a model is run.
                Kind::Dropout => {}
                Kind::Transformer | Kind::Pooling => {
                    let what =
                        format!("`{}` after the pooling; expected Dense or Normalize there", module.name);
                    return Err(modules::wrong(folder, what));
                }
            }
        }
        Ok(Vectors {
            poolings,
            includes_prompt,
            steps,
            dimensions: settings.dimensions()?,
            similarity: settings.similarity()?,
        })
    }
}

/// The name of a module's configuration.
const CONFIG: &str = "config.json";

/// Checks that a module works on the vectors of texts, and on nothing else.
fn of_vectors(fields: &Fields) -> Result<()> {
    for field in ["module_input_name", "module_output_name"] {
        if fields.text(field)?.is_some_and(|name| name != "sentence_embedding") {
            return Err(fields.wrong(field, "sentence_embedding: modules on tokens are not run here"));
        }
    }
    Ok(())
}

/// The blueprint of a folder's `config.json`, as far as it can be read. That it cannot is said by whoever loads the model.
fn blueprint(folder: &Path) -> Option<Blueprint> {
    Blueprint::from_config(&read_config(&folder.join(CONFIG)).ok()?).ok()
}

/// Whether a blueprint is of a classifier with one label.
fn is_judge(blueprint: &Blueprint) -> bool {
    blueprint.head == HeadKind::SequenceClassification && blueprint.classes() == 1
}

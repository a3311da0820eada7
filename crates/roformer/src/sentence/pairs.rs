//! Cross-encoders: models that read two texts at once and score them.

use super::fields::Fields;
use super::modules::{Module, wrong};
use super::settings::{Reading, Settings};
use super::{Activation, CONFIG, Recipe, blueprint, is_judge};
use crate::error::Result;
use crate::files::broken;
use std::path::Path;

/// What makes a score of a pair of texts: the model's one label, through an activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// What is made of the label's number.
    pub activation: Activation,
    /// Pairs are cut to so many tokens.
    pub longest: Option<usize>,
}

impl Pairs {
    /// Of a folder that says itself that it is a cross-encoder's.
    pub(super) fn of_folder(
        folder: &Path,
        after: &[Module],
        settings: &Settings,
        recipe: &Recipe,
    ) -> Result<Pairs> {
        if let Some(module) = after.first() {
            let expected = "expected a Transformer alone, which classifies by one label";
            return Err(wrong(folder, format!("a cross-encoder with `{}`; {expected}", module.name)));
        }
        if blueprint(&recipe.transformer).is_some_and(|blueprint| !is_judge(&blueprint)) {
            let reason = "a cross-encoder whose model does not classify by one label; expected one that does";
            return Err(broken(&recipe.transformer.join(CONFIG), reason));
        }
        let activation = match settings.activation()? {
            Some(activation) => activation,
            None => of_config(&recipe.transformer)?,
        };
        Ok(Pairs { activation, longest: recipe.longest })
    }

    /// Of a folder that says nothing: what CrossEncoder makes of any classifier with one label.
    pub(super) fn of_model(folder: &Path) -> Result<Option<Pairs>> {
        match blueprint(folder).is_some_and(|blueprint| is_judge(&blueprint)) {
            false => Ok(None),
            true => {
                // What the files say amiss of lengths is nothing to a model that only classifies.
                let longest = Reading::default().longest(folder).unwrap_or(None);
                Ok(Some(Pairs { activation: of_config(folder)?, longest }))
            }
        }
    }
}

/// The activation that a model's `config.json` names, today or before version 4; else the sigmoid.
fn of_config(folder: &Path) -> Result<Activation> {
    let fields = Fields::read_if_there(&folder.join(CONFIG))?;
    let newer = fields.object("sentence_transformers")?.and_then(|own| own.get("activation_fn")?.as_str());
    let class = match newer {
        Some(class) => Some(class),
        None => fields.text("sbert_ce_default_activation_function")?,
    };
    let refused = |reason| broken(fields.path(), reason);
    class.map_or(Ok(Activation::Sigmoid), |class| Activation::from_class(class).map_err(refused))
}

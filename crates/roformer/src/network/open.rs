//! `config.json` → network, tensors → parameters.

use super::{Network, Task};
use crate::blueprint::fields::{Fields, object};
use crate::blueprint::{
    Blueprint, Direction, Family, HeadKind, HeadNorms, Kept, Labels, Named, Part, Summary,
};
use crate::error::{Error, Result};
use crate::graph::Parameters;
use crate::model::Parameters as Read;
use crate::ops::{Activation, Real};
use crate::weights::{Target, Weights};
use std::collections::HashSet;
use std::path::Path;

/// What was not found in a checkpoint, and what was not used of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Parameters that the checkpoint does not have: those of a head, or of an encoding. They keep their numbers.
    pub missing: Vec<String>,
    /// Tensors that nothing asks for: those of another head.
    pub unused: Vec<String>,
}

impl Network {
    /// The network that a `config.json` describes, to be trained for a task: any model that [`Model`](crate::model::Model)
    /// loads. Whether a token sees only what came before is as the file says where it is not given here; a RoFormer that
    /// judges a text by its first token sees all of it.
    ///
    /// What a file does not say but its tensors do (RoFormer-Sim's pooler, the norms of heads of newer MiniMinds) is seen by
    /// [`open`](Network::open) alone. Dropout is `hidden_dropout_prob`, or `attention_dropout` in Llama's families.
    pub fn from_config(bytes: &[u8], task: Task, is_causal: Option<bool>) -> Result<Network> {
        read(bytes, None, task, is_causal)
    }

    /// The network of a folder with a `config.json` or a `bert_config.json` and weights, to begin from. Its tensors are read by
    /// [`load`](Network::load), once it is built.
    ///
    /// ```no_run
    /// use roformer::network::{Network, Task};
    ///
    /// let (network, weights) = Network::open("roformer_chinese_base", Task::Text(3), None)?;
    /// let mut laid = network.build::<f32>(16, 128, 512)?;
    /// let layout = laid.graph.layout().clone();
    /// layout.initialise(1, laid.graph.parameters_mut());
    /// let loaded = network.load(&weights, &layout, laid.graph.parameters_mut())?;
    /// assert_eq!(loaded.missing.len(), 4); // weights and biases of the classifier, which keep their first numbers
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn open(folder: impl AsRef<Path>, task: Task, is_causal: Option<bool>) -> Result<(Network, Weights)> {
        let folder = folder.as_ref();
        let bytes = Blueprint::config_of(folder)?;
        let weights = Weights::of_model(folder)?;
        Ok((read(&bytes, Some(&weights), task, is_causal)?, weights))
    }

    /// The blueprint with the head that the task trains: what is handed over.
    pub fn described(&self) -> Blueprint {
        let blueprint = &self.blueprint;
        let pooler = blueprint.pooler.filter(|_| self.task == Task::Similarity);
        Blueprint {
            head: self.task.head(blueprint.is_causal()),
            labels: Labels { count: self.task.classes().unwrap_or(2), ..Labels::default() },
            // RoFormer-Sim reads a text whole, and continues it where it is asked to.
            direction: if pooler == Some(Activation::Identity) {
                Direction::Prefix
            } else {
                blueprint.direction
            },
            pooler,
            ..blueprint.clone()
        }
    }

    /// Reads the tensors of a checkpoint into parameters laid out as `layout` says, `[layout.len()]`.
    ///
    /// Names may be those of a model with a head (`roformer.`, `model.`) or not; older ones of norms, and those of parallel
    /// modules, are read by [`Weights::of_model`]. A head of the task that the checkpoint does not have keeps the numbers it has,
    /// and so do the parameters of an encoding. A tensor of another shape is an error that names it, and so is anything of
    /// the embeddings and layers that is missing or unexpected; then nothing, or a part, has been read.
    pub fn load<T: Real + Target>(
        &self,
        weights: &Weights,
        layout: &Parameters,
        out: &mut [T],
    ) -> Result<Loaded> {
        let blueprint = self.described();
        blueprint.check_pairing(weights)?;
        if out.len() != layout.len() {
            return Err(Error::input("the number of parameters", out.len(), layout.len().to_string()));
        }
        let (asked, source) = (blueprint.tensors(), Named::new(weights, blueprint.family.names()));
        let is_body = |name: &str| asked.iter().any(|asked| asked.part == Part::Body && asked.name == name);
        let mut loaded = Loaded::default();
        let (mut found, mut missing, mut unexpected) = (Vec::new(), Vec::new(), Vec::new());
        for entry in layout.entries() {
            match source.own(&entry.name) {
                name if weights.get(name).is_some() => found.push((entry, name)),
                name if is_body(&entry.name) => missing.push(name.to_string()),
                _ => loaded.missing.push(entry.name.clone()),
            }
        }
        let used: HashSet<&str> = found.iter().map(|&(_, name)| name).collect();
        let found: Vec<_> = found.iter().map(|&(entry, _)| entry).collect();
        for name in weights.names().filter(|name| !used.contains(name)) {
            if !blueprint.is_derived(&source, name)? {
                let is_unexpected = blueprint.is_of_body(&source.full(name));
                if is_unexpected { &mut unexpected } else { &mut loaded.unused }.push(name.to_string());
            }
        }
        if !missing.is_empty() || !unexpected.is_empty() {
            let verdict = blueprint.verdict(weights, &missing, &unexpected).into();
            return Err(Error::Tensors { missing, unexpected, verdict });
        }
        let source = Kept { blueprint: &blueprint, source };
        for entry in found {
            Read::read(&source, &entry.name, &entry.shape, &mut out[entry.range.clone()])?;
        }
        Ok(loaded)
    }
}

fn read(bytes: &[u8], weights: Option<&Weights>, task: Task, is_causal: Option<bool>) -> Result<Network> {
    let mut blueprint = Blueprint::read(bytes, weights)?;
    if let Some(encoder) = blueprint.encoder.take() {
        match (task, is_causal) {
            // A text is read, and another written.
            (Task::Language, None) => {
                blueprint.encoder = Some(Box::new(Blueprint { longest: 1, ..*encoder }));
            }
            // What reads texts is trained, and what writes them is left.
            _ => blueprint = *encoder,
        }
    }
    let (map, family) = (object(bytes)?, blueprint.family);
    let fields = Fields(&map);
    if blueprint.has_cross_attention && blueprint.encoder.is_none() {
        let expected = "false: attention to another model's output is run, but not trained";
        return Err(fields.error("add_cross_attention", expected));
    }
    if family == Family::T5 && matches!(task, Task::Language | Task::Text(_)) {
        let what =
            if task == Task::Language { "a language model of single texts" } else { "classes of texts" };
        let expected = "sequences, where it has its decoder, which writes one text of another; similarity; or classes of tokens";
        return Err(Error::input("task", format!("{what}, for a t5"), expected));
    }
    if family.is_encoder() && family != Family::RoFormer && is_causal == Some(true) {
        let value = format!("causal, for a {}", family.model_type());
        return Err(Error::input("task", value, "one for models that are read both ways, such as masked"));
    }
    if !family.is_encoder() && is_causal == Some(false) {
        let value = format!("asked to see ahead as a {}", family.model_type());
        return Err(Error::input("the network", value, "causal: all that load such a model run it so"));
    }
    let (field, usual) = family.dropout();
    let dropout = fields.fraction(field, usual)?;
    // BERT's pooler was trained for another task: vectors are means.
    let pooler = blueprint.pooler.filter(|_| task == Task::Similarity && family == Family::RoFormer);
    // A text that is judged by its first token must be seen whole by it.
    let reads_whole = matches!(task, Task::Text(_)) && family.names().judges_by_first() || pooler.is_some();
    let is_causal = is_causal.unwrap_or(blueprint.is_causal() && !reads_whole);
    let blueprint = Blueprint {
        // MiniMind is handed over as what it is: Llama, or Qwen3 where heads are normed.
        family: match family {
            Family::MiniMind if blueprint.head_norms == HeadNorms::Weighted => Family::Qwen3,
            Family::MiniMind => Family::Llama,
            family => family,
        },
        direction: if is_causal { Direction::Causal } else { Direction::Both },
        pooler,
        // A learned table has the rows that it has; else whoever builds the network says for which length.
        longest: if blueprint.encoding.has_learned_rows() { blueprint.longest } else { 1 },
        head: HeadKind::None,
        labels: Labels::default(),
        // Only RoFormer's file says it.
        summary: if family == Family::RoFormer { Summary::default() } else { blueprint.summary },
        ends: Vec::new(),
        ..blueprint
    };
    Ok(Network { blueprint, task, dropout })
}

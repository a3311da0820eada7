//! All that decides what a run computes, with its limits; as JSON, in which a run keeps it.

use super::schedule::Schedule;
use crate::blueprint::{Features, Mixing};
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::weights::brief;
use serde_json::{Map, Value, json};

/// How the parts of the model are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormName {
    /// RoFormerForCausalLM.
    #[default]
    RoFormer,
    /// LlamaForCausalLM.
    Llama,
}

impl FormName {
    /// All of them.
    pub const ALL: [FormName; 2] = [FormName::RoFormer, FormName::Llama];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FormName::RoFormer => "roformer",
            FormName::Llama => "llama",
        }
    }
}

/// How tokens look at each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attention {
    /// Softmax attention.
    #[default]
    Softmax,
    /// Linear attention.
    Linear,
}

impl Attention {
    /// All of them.
    pub const ALL: [Attention; 2] = [Attention::Softmax, Attention::Linear];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Attention::Softmax => "softmax",
            Attention::Linear => "linear",
        }
    }
}

/// What a model is trained to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// To tell the next token.
    #[default]
    Causal,
    /// To tell hidden tokens, whole words of them.
    Masked,
    /// To tell which label a text has, or a pair of texts.
    Classification,
    /// To give texts that mean the same vectors that point the same way.
    Similarity,
    /// To write one text of another.
    Sequences,
}

impl Goal {
    /// All of them.
    pub const ALL: [Goal; 5] =
        [Goal::Causal, Goal::Masked, Goal::Classification, Goal::Similarity, Goal::Sequences];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Causal => "causal",
            Goal::Masked => "masked",
            Goal::Classification => "classification",
            Goal::Similarity => "similarity",
            Goal::Sequences => "sequences",
        }
    }

    /// Whether it is about texts, each by itself or in pairs, rather than about their tokens.
    pub fn is_of_texts(self) -> bool {
        matches!(self, Goal::Classification | Goal::Similarity | Goal::Sequences)
    }
}

/// What a row of a batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A block of all texts, one after the other: no token is wasted.
    #[default]
    Packed,
    /// A text of its own, cut or filled up.
    Padded,
}

impl Layout {
    /// All of them.
    pub const ALL: [Layout; 2] = [Layout::Packed, Layout::Padded];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Packed => "packed",
            Layout::Padded => "padded",
        }
    }
}

/// All that decides what a run computes. The number of threads does not.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the model is trained to do.
    pub goal: Goal,
    /// What a row of a batch is; for texts and pairs of them always one of its own.
    pub layout: Layout,
    /// How the parts of the model are put together.
    pub form: FormName,
    /// The position encoding, as [`Encoding::parse`] reads it: `rotary`, `rotary:base=500`.
    pub encoding: String,
    /// How tokens look at each other.
    pub attention: Attention,
    /// The feature maps of linear attention.
    pub features: Features,
    /// Layers.
    pub layers: usize,
    /// Width.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Tokens of a text.
    pub block: usize,
    /// Rows of a batch: texts, blocks or pairs.
    pub batch: usize,
    /// The part of the words that are hidden from a masked model.
    pub mask: f64,
    /// Batches whose gradients are summed for one step.
    pub accumulate: u64,
    /// Steps in all.
    pub steps: u64,
    /// The highest learning rate.
    pub lr: f64,
    /// The lowest, at the end.
    pub min_lr: f64,
    /// Steps until the rate is highest.
    pub warmup: u64,
    /// How it falls from there.
    pub schedule: Schedule,
    /// How much of a matrix goes at each step, times the learning rate.
    pub weight_decay: f64,
    /// The chance that a number is dropped.
    pub dropout: f64,
    /// The largest norm of all gradients together; 0 for any.
    pub clip: f64,
    /// How much of the mean of the squares of gradients stays at each step.
    pub beta2: f64,
    /// The seed of weights, batches and dropout.
    pub seed: u64,
    /// Steps from one evaluation to the next.
    pub eval_every: u64,
    /// Batches of an evaluation.
    pub eval_batches: u64,
    /// Steps from one checkpoint to the next.
    pub save_every: u64,
    /// Evaluations without a better one after which the run ends; 0 for never.
    pub patience: u64,
    /// The part of the text that is kept from training.
    pub validation: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            goal: Goal::Causal,
            layout: Layout::Packed,
            form: FormName::RoFormer,
            encoding: "rotary".into(),
            attention: Attention::Softmax,
            features: Features::Elu,
            layers: 4,
            width: 128,
            heads: 4,
            block: 64,
            batch: 12,
            mask: 0.15,
            accumulate: 1,
            steps: 2000,
            lr: 1e-3,
            min_lr: 1e-4,
            warmup: 100,
            schedule: Schedule::Cosine,
            weight_decay: 0.1,
            dropout: 0.0,
            clip: 1.0,
            beta2: 0.99,
            seed: 1,
            eval_every: 250,
            eval_batches: 20,
            save_every: 250,
            patience: 0,
            validation: 0.1,
        }
    }
}

/// What may change when a run is resumed: none of it touches the parameters.
const FREE: [&str; 4] = ["eval_every", "eval_batches", "save_every", "patience"];

impl Settings {
    /// These with others in the place of some. The lowest learning rate is a tenth of the highest, where the highest alone
    /// is given.
    pub fn with(mut self, given: &Map<String, Value>) -> Result<Self> {
        for (name, value) in given {
            self.set(name, value)?;
        }
        if given.contains_key("lr") && !given.contains_key("min_lr") {
            self.min_lr = self.lr / 10.0;
        }
        self.check()?;
        Ok(self)
    }

    /// These, which a run was begun with, where it is resumed with others: what may not change is an error.
    pub(super) fn resumed_with(&self, given: &Map<String, Value>) -> Result<Self> {
        let (before, now) = (self.to_json(), self.clone().with(given)?.to_json());
        for name in given.keys().filter(|name| !FREE.contains(&name.as_str())) {
            if before[name] != now[name] {
                let value = format!("`{name}` {}, but it was begun with {}", now[name], before[name]);
                let expected =
                    "the settings that it was begun with: leave them out, or begin anew in another folder";
                return Err(Error::input("what the run is resumed with", value, expected));
            }
        }
        let free = given.iter().filter(|(name, _)| FREE.contains(&name.as_str()));
        self.clone().with(&free.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// All of them.
    pub fn to_json(&self) -> Map<String, Value> {
        let value = json!({
            "task": self.goal.name(), "rows": self.layout.name(), "mask": self.mask, "patience": self.patience,
            "form": self.form.name(), "encoding": self.encoding, "attention": self.attention.name(),
            "features": self.features.name(), "layers": self.layers, "width": self.width,
            "heads": self.heads, "block": self.block, "batch": self.batch, "accumulate": self.accumulate,
            "steps": self.steps, "lr": self.lr, "min_lr": self.min_lr, "warmup": self.warmup,
            "schedule": self.schedule.name(), "weight_decay": self.weight_decay, "dropout": self.dropout,
            "clip": self.clip, "beta2": self.beta2, "seed": self.seed, "eval_every": self.eval_every,
            "eval_batches": self.eval_batches, "save_every": self.save_every, "validation": self.validation,
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// The position encoding.
    pub(super) fn encoding(&self) -> Result<Encoding> {
        Encoding::parse(&self.encoding).map_err(|error| match error {
            Error::Input { value, expected, .. } => Error::input("encoding", value, expected),
            other => other,
        })
    }

    /// How tokens look at each other, in heads of so many features.
    pub(super) fn mixing(&self, head_dim: usize) -> Mixing {
        match self.attention {
            Attention::Softmax => Mixing::Softmax,
            Attention::Linear => Mixing::Linear(self.features.form(head_dim)),
        }
    }

    /// What a row of a batch is.
    pub(super) fn layout(&self) -> Layout {
        if self.goal.is_of_texts() { Layout::Padded } else { self.layout }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<()> {
        match name {
            "task" => self.goal = word("task", value, &Goal::ALL, Goal::name)?,
            "rows" => self.layout = word("rows", value, &Layout::ALL, Layout::name)?,
            "mask" => self.mask = number("mask", value)?,
            "patience" => self.patience = whole("patience", value, 0..=1 << 40)?,
            "form" => self.form = word("form", value, &FormName::ALL, FormName::name)?,
            "encoding" => {
                self.encoding = value.as_str().map_or_else(|| shown(value), str::to_owned);
                self.encoding()?;
            }
            "attention" => self.attention = word("attention", value, &Attention::ALL, Attention::name)?,
            "features" => self.features = word("features", value, &Features::ALL, Features::name)?,
            "schedule" => self.schedule = word("schedule", value, &Schedule::ALL, Schedule::name)?,
            "layers" => self.layers = whole("layers", value, 1..=1024)? as usize,
            "width" => self.width = whole("width", value, 1..=65_536)? as usize,
            "heads" => self.heads = whole("heads", value, 1..=65_536)? as usize,
            "block" => self.block = whole("block", value, 1..=1 << 20)? as usize,
            "batch" => self.batch = whole("batch", value, 1..=65_536)? as usize,
            "accumulate" => self.accumulate = whole("accumulate", value, 1..=65_536)?,
            "steps" => self.steps = whole("steps", value, 1..=1 << 40)?,
            "warmup" => self.warmup = whole("warmup", value, 0..=1 << 40)?,
            "seed" => self.seed = whole("seed", value, 0..=u64::MAX)?,
            "eval_every" => self.eval_every = whole("eval_every", value, 1..=1 << 40)?,
            "eval_batches" => self.eval_batches = whole("eval_batches", value, 1..=1 << 32)?,
            "save_every" => self.save_every = whole("save_every", value, 1..=1 << 40)?,
            "lr" => self.lr = number("lr", value)?,
            "min_lr" => self.min_lr = number("min_lr", value)?,
            "weight_decay" => self.weight_decay = number("weight_decay", value)?,
            "dropout" => self.dropout = number("dropout", value)?,
            "clip" => self.clip = number("clip", value)?,
            "beta2" => self.beta2 = number("beta2", value)?,
            "validation" => self.validation = number("validation", value)?,
            other => {
                return Err(Error::input("a setting", format!("`{}`", brief(other)), "one that is known"));
            }
        }
        Ok(())
    }

    /// Checks settings that may have been made by hand.
    pub fn check(&self) -> Result<()> {
        for (name, value, fits, expected) in [
            ("lr", self.lr, self.lr > 0.0 && self.lr <= 10.0, "more than 0 and at most 10"),
            ("min_lr", self.min_lr, (0.0..=self.lr).contains(&self.min_lr), "from 0 to lr"),
            ("weight_decay", self.weight_decay, (0.0..=10.0).contains(&self.weight_decay), "from 0 to 10"),
            ("mask", self.mask, self.mask > 0.0 && self.mask <= 0.9, "more than 0 and at most 0.9"),
            ("dropout", self.dropout, (0.0..1.0).contains(&self.dropout), "at least 0 and less than 1"),
            ("clip", self.clip, (0.0..=1e9).contains(&self.clip), "0 for no clipping, or a norm"),
            ("beta2", self.beta2, (0.0..1.0).contains(&self.beta2), "at least 0 and less than 1"),
            ("validation", self.validation, (0.0..=0.9).contains(&self.validation), "from 0 to 0.9"),
        ] {
            if !fits {
                return Err(Error::input(name, value, expected));
            }
        }
        // Each by itself, in case they were not set by name.
        for (name, value) in self.to_json() {
            self.clone().set(&name, &value)?;
        }
        if self.form == FormName::Llama && matches!(self.goal, Goal::Masked | Goal::Similarity) {
            let value = format!("llama for the task {}", self.goal.name());
            return Err(Error::input("form", value, "roformer, whose tokens see those after them"));
        }
        if self.attention == Attention::Softmax && self.features != Features::Elu {
            let expected = "elu, or linear attention: softmax attention has no feature maps";
            return Err(Error::input("features", self.features.name(), expected));
        }
        if !self.width.is_multiple_of(self.heads) {
            let expected = format!("a divisor of the width, {}", self.width);
            return Err(Error::input("heads", self.heads, expected));
        }
        Ok(())
    }
}

fn word<T: Clone>(
    name: &'static str,
    value: &Value,
    all: &[T],
    names: impl Fn(T) -> &'static str,
) -> Result<T> {
    let found = all.iter().find(|one| value.as_str() == Some(names((*one).clone())));
    found.cloned().ok_or_else(|| {
        let list: Vec<&str> = all.iter().map(|one| names(one.clone())).collect();
        Error::input(name, shown(value), format!("one of {}", list.join(", ")))
    })
}

fn whole(name: &'static str, value: &Value, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
    value.as_u64().filter(|value| range.contains(value)).ok_or_else(|| {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        Error::input(name, shown(value), expected)
    })
}

/// A value as a message shows it.
fn shown(value: &Value) -> String {
    brief(value.as_str().unwrap_or(&value.to_string()))
}

fn number(name: &'static str, value: &Value) -> Result<f64> {
    value.as_f64().ok_or_else(|| Error::input(name, shown(value), "a number"))
}

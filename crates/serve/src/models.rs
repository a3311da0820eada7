//! The models that are served, and which one a request is for.

use crate::queue::Queue;
use crate::refusal::{Kind, Refusal};
use crate::replica::Replica;
use crate::worker::Speed;
use roformer::model::HeadKind;
use roformer::pipeline::{Pooling, Reader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// A model to be served: its name, and the devices that it is on.
pub struct Model {
    pub(crate) name: String,
    /// Where it came from: a name on the hub, or a folder.
    pub(crate) id: String,
    pub(crate) revision: Option<String>,
    /// What it computes in, such as `float32`.
    pub(crate) dtype: String,
    /// `cpu`, `gpu`, or both.
    pub(crate) compute: String,
    pub(crate) free_tokens: usize,
    pub(crate) pooling: Option<Pooling>,
    pub(crate) replicas: Vec<Arc<dyn Replica>>,
    pub(crate) queue: Queue,
    pub(crate) speed: Speed,
    /// Texts are written one at a time on each device.
    pub(crate) writers: Arc<Semaphore>,
    /// Texts that have been written, which tells whose turn it is.
    written: AtomicUsize,
    /// Unix time.
    pub(crate) created: u64,
}

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Embed,
    Predict,
    Rerank,
    FillMask,
    ClassifyTokens,
    Answer,
    Complete,
}

impl Model {
    /// A model by this name, on each of these devices, with one queue before them. There has to be one at least.
    pub fn new(name: impl Into<String>, replicas: Vec<Arc<dyn Replica>>) -> Model {
        let name = name.into();
        let seconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        Model {
            id: name.clone(),
            name,
            revision: None,
            dtype: "float32".into(),
            compute: "cpu".into(),
            free_tokens: 0,
            pooling: None,
            writers: Arc::new(Semaphore::new(replicas.len())),
            written: AtomicUsize::new(0),
            replicas,
            queue: Queue::default(),
            speed: Speed::default(),
            created: seconds,
        }
    }

    /// Where it came from, for `/info`.
    pub fn from(self, id: impl Into<String>, revision: Option<String>) -> Model {
        Model { id: id.into(), revision, ..self }
    }

    /// What it computes in and where, for `/info` and the header `x-compute-type`.
    pub fn computed(self, dtype: impl Into<String>, compute: impl Into<String>) -> Model {
        Model { dtype: dtype.into(), compute: compute.into(), ..self }
    }

    /// Tokens below which a batch takes no longer for more of them, padding included; 0 otherwise, which is right for a CPU.
    pub fn free_tokens(self, tokens: usize) -> Model {
        Model { free_tokens: tokens, ..self }
    }

    /// How the vectors of tokens become one, in place of what the folder says.
    pub fn pooled(self, pooling: Option<Pooling>) -> Model {
        Model { pooling, ..self }
    }

    /// The folder's prompt of this name.
    pub fn prompt(&self, name: &str) -> roformer::Result<&str> {
        self.reader().recipe().prompts.get(name)
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        self.replicas[0].reader()
    }

    /// The device that writes the next text: each in turn.
    pub(crate) fn next_writer(&self) -> &Arc<dyn Replica> {
        &self.replicas[self.written.fetch_add(1, Ordering::Relaxed) % self.replicas.len()]
    }

    /// Whether it can do a task.
    pub(crate) fn can(&self, task: Task) -> bool {
        let reader = self.reader();
        let (head, blueprint) = (reader.head(), reader.blueprint());
        match task {
            Task::Embed => !matches!(
                head,
                HeadKind::SequenceClassification
                    | HeadKind::TokenClassification
                    | HeadKind::QuestionAnswering
                    | HeadKind::MultipleChoice
            ),
            Task::Predict => head == HeadKind::SequenceClassification && reader.recipe().pairs.is_none(),
            Task::Rerank => reader.recipe().pairs.is_some(),
            Task::FillMask => head == HeadKind::MaskedLm || head.is_language_model() && blueprint.is_unilm(),
            Task::ClassifyTokens => head == HeadKind::TokenClassification,
            Task::Answer => head == HeadKind::QuestionAnswering,
            Task::Complete => head == HeadKind::CausalLm && (blueprint.is_unilm() || blueprint.is_causal()),
        }
    }

    /// The most tokens of a text: what the folder says, else what the model has positions for, else what a batch may have.
    pub(crate) fn max_input_length(&self, max_batch_tokens: usize) -> usize {
        let reader = self.reader();
        let own = reader.recipe().longest.or(reader.recipe().pairs.as_ref().and_then(|pairs| pairs.longest));
        own.unwrap_or(reader.blueprint().longest).clamp(1, max_batch_tokens)
    }
}

/// All of them.
pub struct Models(pub Vec<Arc<Model>>);

impl Models {
    /// The model for a request: the one it names, else the first that can do its task, else the first. Where there is only one,
    /// every name is its name: clients have names of their own for it.
    pub fn find(&self, name: Option<&str>, task: Task) -> Result<&Arc<Model>, Refusal> {
        if let [only] = &self.0[..] {
            return Ok(only);
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let named = self.0.iter().find(|model| model.name == name || model.id == name);
            return named.ok_or_else(|| {
                let names: Vec<&str> = self.0.iter().map(|model| model.name.as_str()).collect();
                let expected = names.join(", ");
                Refusal::new(Kind::NoModel, format!("model is {name:?}; expected one of: {expected}"))
            });
        }
        let able = self.0.iter().find(|model| model.can(task));
        able.or(self.0.first()).ok_or_else(|| Refusal::new(Kind::NoModel, "no model is served"))
    }
}

//! Models on texts. Every task takes a list of texts and gives a list; what they look like in Python is written there.

use crate::error::raised;
use crate::numbers::{Numbers, array};
use crate::work::{Leave, Teller, finish};
use pyo3::prelude::*;
use roformer::ops::{Cpu, Cuda};
use roformer::pipeline::{Embed, Pooling, Prompt};
use roformer::{Device, hub};
use std::sync::Arc;

/// A model with its tokenizer, on a device.
#[pyclass(frozen, module = "rotary")]
pub(crate) struct Pipeline(Arc<Opened>);

enum Opened {
    Cpu(roformer::Pipeline<Cpu>),
    Cuda(roformer::Pipeline<Cuda>),
}

/// Evaluates an expression with a pipeline, wherever it runs.
macro_rules! on {
    ($opened:expr, |$pipeline:ident| $body:expr) => {
        match $opened {
            Opened::Cpu($pipeline) => $body,
            Opened::Cuda($pipeline) => $body,
        }
    };
}

/// Texts that are worked on together, as the command takes them: enough for batches of like length, few enough that progress is
/// told and Ctrl-C ends the work soon.
const WINDOW: usize = 512;

/// What stands before a text, and what is done with its vector.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Vectors {
    pooling: Option<String>,
    normalize: bool,
    prompt_name: Option<String>,
    prompt: Option<String>,
    dimensions: Option<i64>,
}

impl Vectors {
    fn embed(&self) -> roformer::Result<Embed<'_>> {
        let prompt = match (&self.prompt, &self.prompt_name) {
            (Some(text), _) => Prompt::Text(text),
            (None, Some(name)) => Prompt::Named(name),
            (None, None) => Prompt::Usual,
        };
        let pooling = self.pooling.as_deref().map(pooling).transpose()?;
        // One that is negative is refused in the library's words, as none is.
        let dimensions = self.dimensions.map(|dimensions| usize::try_from(dimensions).unwrap_or(0));
        Ok(Embed { pooling, normalize: self.normalize, prompt, dimensions })
    }
}

/// The poolings by the names that the command has for them.
fn pooling(name: &str) -> roformer::Result<Pooling> {
    Ok(match name {
        "cls" => Pooling::Cls,
        "mean" => Pooling::Mean,
        "max" => Pooling::Max,
        "mean-sqrt" => Pooling::MeanSqrt,
        "weighted" => Pooling::Weighted,
        "last" => Pooling::Last,
        "pooler" => Pooling::Pooler,
        _ => {
            let expected = "cls, mean, max, mean-sqrt, weighted, last or pooler";
            return Err(roformer::Error::input("pooling", format!("{name:?}"), expected));
        }
    })
}

/// The number of texts that are done.
type Done = usize;

impl Pipeline {
    /// Takes texts window by window through a task.
    fn each<T: Send + 'static, R: Send + 'static>(
        &self,
        py: Python<'_>,
        texts: Vec<T>,
        progress: Option<Bound<'_, PyAny>>,
        task: impl Fn(&Opened, &[T]) -> Vec<roformer::Result<R>> + Send + 'static,
    ) -> PyResult<Vec<R>> {
        let (opened, total) = (Arc::clone(&self.0), texts.len());
        let work = move |teller: &Teller<Done>| {
            let mut results = Vec::with_capacity(total);
            for window in texts.chunks(WINDOW) {
                for result in task(&opened, window) {
                    let place = results.len();
                    results.push(result.map_err(|error| match total {
                        1 => error.to_string(),
                        _ => format!("text {place}: {error}"),
                    })?);
                }
                if !teller.tell(results.len()) {
                    break;
                }
            }
            Ok(results)
        };
        let told = |done: Done| match &progress {
            Some(progress) => progress.call1((done, total)).map(drop),
            None => Ok(()),
        };
        finish(py, Leave::AtOnce, work, told)?.map_err(|error: String| raised(error))
    }
}

#[pymethods]
impl Pipeline {
    /// Loads a model from a folder, or by its name on the hub. `progress` is called with a file's name, its bytes that are here,
    /// and all of its bytes or None.
    #[new]
    fn new(
        py: Python<'_>,
        model: String,
        device: String,
        dtype: String,
        revision: Option<String>,
        max_tokens: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let load = move |teller: &Teller<(String, u64, Option<u64>)>| {
            let device = roformer_cli::library::device(&device, &dtype, false)?;
            let tell = |progress: hub::Progress<'_>| {
                teller.tell((progress.file.to_string(), progress.done, progress.total));
            };
            let options = hub::Options {
                revision: revision.as_deref(),
                progress: Some(&tell),
                ..hub::Options::default()
            };
            let folder = hub::find(&model, &options).map_err(|error| error.to_string())?;
            let opened = match device {
                Device::Cpu(cpu) => roformer::Pipeline::open_on(cpu, folder).map(|pipeline| {
                    Opened::Cpu(match max_tokens {
                        Some(tokens) => pipeline.max_tokens(tokens),
                        None => pipeline,
                    })
                }),
                Device::Cuda(gpu) => roformer::Pipeline::open_on(gpu, folder).map(|pipeline| {
                    Opened::Cuda(match max_tokens {
                        Some(tokens) => pipeline.max_tokens(tokens),
                        None => pipeline,
                    })
                }),
            };
            opened.map(|opened| Pipeline(Arc::new(opened))).map_err(|error| error.to_string())
        };
        let told = |came: (String, u64, Option<u64>)| match &progress {
            Some(progress) => progress.call1(came).map(drop),
            None => Ok(()),
        };
        finish(py, Leave::AtOnce, load, told)?.map_err(|error: String| raised(error))
    }

    /// The vectors of texts, an array `[texts, dimensions]` of float32.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        vectors: Vectors,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let count = texts.len();
        let width = on!(&*self.0, |pipeline| vectors.embed().and_then(|embed| pipeline.dimensions(&embed)));
        let width = width.map_err(raised)?;
        let task = move |opened: &Opened, texts: &[String]| match vectors.embed() {
            Ok(embed) => on!(opened, |pipeline| pipeline.embed_all(texts, embed)),
            Err(error) => vec![Err(error)],
        };
        let rows = self.each(py, texts, progress, task)?;
        array(py, Numbers::singles(rows.concat(), vec![count, width]))
    }
}

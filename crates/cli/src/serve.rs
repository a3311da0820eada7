//! `roformer serve`: models over HTTP.

use crate::device::{Choice, DeviceOptions, Dtype, on_device};
use crate::error::{Failure, Outcome};
use crate::model;
use crate::tasks::embed::How;
use clap::Args;
use roformer::{Device, Pipeline};
use roformer_serve::log::{self, Level};
use roformer_serve::{Model, Replica, Server, Settings};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Serve models over HTTP, with the routes of text-embeddings-inference, OpenAI, Jina and Cohere
///
/// Clients of those work as they are: /embed, /rerank, /predict, /similarity, /tokenize; /v1/embeddings, /v1/completions; /v1/rerank,
/// /v2/rerank; and /fill-mask, /classify-tokens, /answer. /docs lists them all, /metrics is for Prometheus. On the CPU a text has the
/// same vector to the bit whoever else asks.
///
/// It listens on this machine alone unless --listen says otherwise. Flags and environment variables of text-embeddings-inference are
/// read. SIGTERM and Ctrl-C end it once what was asked has been answered.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer serve --model junnyu/roformer_chinese_sim_char_base\n  \
    roformer serve --model embedder --model reranker --dtype bf16 --port 8080\n  \
    roformer serve --model DIR --listen 0.0.0.0 --api-key SECRET --device cuda:0,cuda:1\n  \
    curl 127.0.0.1:3000/embed -d '{\"inputs\": \"今天天气不错\"}'")]
pub struct Arguments {
    /// A model: a folder, or a name on the hub; more than one may be given
    #[arg(long, alias = "model-id", value_name = "MODEL", env = "MODEL_ID", required = true)]
    model: Vec<String>,
    /// A branch, a tag or a commit of the models on the hub [default: main]
    #[arg(long, value_name = "REV", env = "REVISION")]
    revision: Option<String>,
    /// What clients call the models, in their order [default: the name on the hub, or that of the folder]
    #[arg(long, value_name = "NAME", env = "SERVED_MODEL_NAME")]
    served_model_name: Vec<String>,
    /// Listen at this address [default: 127.0.0.1, or HOSTNAME where that is an address]
    #[arg(long, alias = "hostname", value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// The port; 0 for any that is free
    #[arg(long, short, value_name = "P", env = "PORT", default_value_t = 3000)]
    port: u16,
    /// Where to run: auto, cpu, cuda or cuda:N; several, separated by commas, share a model's queue
    #[arg(long, value_name = "DEVICES", default_value = "auto", value_delimiter = ',')]
    device: Vec<Choice>,
    /// What to compute in: f32; bf16, int8 (on the CPU), tf32 (on a GPU), or auto (bf16 where there are instructions for it, else f32)
    #[arg(long, value_enum, env = "DTYPE", default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Threads of the model on the CPU [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Threads that make tokens of texts [default: all]
    #[arg(long, value_name = "N", env = "TOKENIZATION_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    tokenization_workers: Option<u16>,
    /// How the vectors of a text's tokens become one [default: what the model's folder says]
    #[arg(long, value_name = "HOW", env = "POOLING")]
    pooling: Option<How>,
    /// Put this before texts that are embedded, unless the request names a prompt
    #[arg(long, value_name = "PROMPT", env = "DEFAULT_PROMPT", conflicts_with = "default_prompt_name")]
    default_prompt: Option<String>,
    /// The same, with the folder's prompt of this name
    #[arg(long, value_name = "NAME", env = "DEFAULT_PROMPT_NAME")]
    default_prompt_name: Option<String>,
    /// Cut texts that are too long, rather than refuse them, where the request does not say
    #[arg(long, value_name = "BOOL", env = "AUTO_TRUNCATE", default_value = "true", num_args = 0..=1, default_missing_value = "true",
        action = clap::ArgAction::Set)]
    auto_truncate: bool,
    /// Requests at a time; more are refused with status 429
    #[arg(long, value_name = "N", env = "MAX_CONCURRENT_REQUESTS", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrent_requests: u32,
    /// Tokens of a batch, and of one text
    #[arg(long, value_name = "N", env = "MAX_BATCH_TOKENS", default_value_t = 16384, value_parser = clap::value_parser!(u32).range(1..))]
    max_batch_tokens: u32,
    /// Texts of a batch [default: any number]
    #[arg(long, value_name = "N", env = "MAX_BATCH_REQUESTS", value_parser = clap::value_parser!(u32).range(1..))]
    max_batch_requests: Option<u32>,
    /// Texts of one request
    #[arg(long, value_name = "N", env = "MAX_CLIENT_BATCH_SIZE", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_client_batch_size: u32,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", env = "PAYLOAD_LIMIT", default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    payload_limit: u32,
    /// Seconds that a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// A key of which requests must have one, as `Authorization: Bearer KEY`; more than one may be given
    #[arg(long, value_name = "KEY", env = "API_KEY", hide_env_values = true)]
    api_key: Vec<String>,
    /// Let pages of this origin read answers; * for all, and more than one may be given
    #[arg(long, value_name = "ORIGIN", env = "CORS_ALLOW_ORIGIN", value_delimiter = ',')]
    cors_allow_origin: Vec<String>,
    /// Log one JSON object per line
    #[arg(long, env = "JSON_OUTPUT")]
    json_output: bool,
    /// What to log: off, error, warn, info (every request) or debug
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", default_value = "info")]
    log_level: Level,
}

/// Tokens of a batch on a GPU.
const GPU_BATCH_TOKENS: usize = 16384;
/// Tokens that a large GPU runs in the time of its launches.
const GPU_FREE_TOKENS: usize = 1024;

pub fn run(arguments: Arguments) -> Outcome {
    let names = &arguments.served_model_name;
    if !names.is_empty() && names.len() != arguments.model.len() {
        let (names, models) = (names.len(), arguments.model.len());
        return Err(Failure::Input(format!(
            "--served-model-name is given {names} times; expected {models}, once for each model"
        )));
    }
    if arguments.api_key.iter().any(String::is_empty) {
        return Err(Failure::Input("--api-key is empty; expected a key, or none at all".into()));
    }
    let names: Vec<String> = (0..arguments.model.len()).map(|index| name(&arguments, index)).collect();
    if let Some(twice) = (1..names.len()).find(|&index| names[..index].contains(&names[index])) {
        let message = "expected names that differ, which --served-model-name gives, once for each model";
        return Err(Failure::Input(format!("two models are called {}; {message}", names[twice])));
    }
    log::start(arguments.log_level, arguments.json_output);
    if let Some(threads) = arguments.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global();
        pool.map_err(|error| Failure::Other(format!("no threads: {error}")))?;
    }
    let models = names.into_iter().enumerate().map(|(index, name)| load(&arguments, index, name));
    let models = models.collect::<Result<Vec<_>, _>>()?;
    if let Some(name) = &arguments.default_prompt_name {
        let mut prompts = models.iter().map(|model| model.prompt(name));
        if let (Some(Err(error)), true) = (prompts.next(), prompts.all(|prompt| prompt.is_err())) {
            return Err(error.into());
        }
    }
    let settings = settings(&arguments);
    let address = settings.address;
    let is_open = !address.ip().is_loopback() && settings.api_keys.is_empty();
    let server = Server::bind(settings, models).map_err(|error| {
        let flag = match error.kind() {
            ErrorKind::AddrNotAvailable => "address with --listen",
            _ => "port with --port",
        };
        Failure::Input(format!("cannot listen at {address}: {error}; choose another {flag}"))
    })?;
    if is_open {
        crate::long::say("others on the network can ask, without a key; --api-key sets one");
    }
    let mut out = std::io::stdout();
    match writeln!(out, "http://{}  (Ctrl-C ends it)", server.address()).and_then(|()| out.flush()) {
        // Whoever started it does not read where it is.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written?,
    }
    server.run().map_err(|error| Failure::Other(error.to_string()))
}

fn settings(arguments: &Arguments) -> Settings {
    // Shells and containers set HOSTNAME to a name; where it is an address, somebody means it.
    let hostname = || std::env::var("HOSTNAME").ok()?.parse().ok();
    let host = arguments.listen.or_else(hostname).unwrap_or(Ipv4Addr::LOCALHOST.into());
    Settings {
        address: SocketAddr::new(host, arguments.port),
        max_concurrent_requests: arguments.max_concurrent_requests as usize,
        max_batch_tokens: arguments.max_batch_tokens as usize,
        max_batch_requests: arguments.max_batch_requests.map(|texts| texts as usize),
        max_client_batch_size: arguments.max_client_batch_size as usize,
        payload_limit: arguments.payload_limit as usize,
        auto_truncate: arguments.auto_truncate,
        default_prompt: arguments.default_prompt.clone(),
        default_prompt_name: arguments.default_prompt_name.clone(),
        api_keys: arguments.api_key.clone(),
        cors_allow_origin: arguments.cors_allow_origin.clone(),
        tokenization_workers: arguments.tokenization_workers.map(usize::from),
        deadline: Duration::from_secs(arguments.timeout.into()),
        ..Settings::default()
    }
}

/// What clients call one of the models.
fn name(arguments: &Arguments, index: usize) -> String {
    let folder = Path::new(&arguments.model[index]).canonicalize().ok().filter(|path| path.is_dir());
    let last = folder.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let own = last.unwrap_or_else(|| arguments.model[index].clone());
    arguments.served_model_name.get(index).cloned().unwrap_or(own)
}

/// One of the models, on each of the devices.
fn load(arguments: &Arguments, index: usize, name: String) -> Result<Model, Failure> {
    let id = &arguments.model[index];
    let revision = arguments.revision.as_deref().filter(|_| !Path::new(id).is_dir());
    let folder = model::find(id, revision)?;
    let devices = arguments.device.iter().map(|&choice| DeviceOptions::new(choice, arguments.dtype).find());
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let is_gpu = |device: &Device| !matches!(device, Device::Cpu(_));
    let (gpus, dtype) = (devices.iter().filter(|device| is_gpu(device)).count(), dtype(&devices[0]));
    let compute = match gpus {
        0 => "cpu",
        _ if gpus == devices.len() => "gpu",
        _ => "cpu+gpu",
    };
    let replica = |device: Device| -> Result<Vec<Arc<dyn Replica>>, Failure> {
        let is_gpu = is_gpu(&device);
        on_device!(device, |device| {
            let pipeline = Pipeline::open_on(device, &folder)?;
            Ok(match is_gpu {
                true => {
                    // Twice: while the answers of one batch are made, the GPU runs the next.
                    let pipeline: Arc<dyn Replica> = Arc::new(pipeline.batch_tokens(GPU_BATCH_TOKENS));
                    vec![pipeline.clone(), pipeline]
                }
                false => vec![Arc::new(pipeline)],
            })
        })
    };
    let replicas = devices.into_iter().map(replica).collect::<Result<Vec<_>, _>>()?.concat();
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let commit = folder.parent().and_then(last).filter(|parent| parent == "snapshots");
    let commit = commit.and_then(|_| last(&folder));
    let model = Model::new(name, replicas).from(id, commit).computed(dtype, compute);
    let model = model.pooled(arguments.pooling.map(Into::into));
    Ok(if compute == "gpu" { model.free_tokens(GPU_FREE_TOKENS) } else { model })
}

/// What a device computes in, as text-embeddings-inference calls it.
fn dtype(device: &Device) -> &'static str {
    let name = match device {
        Device::Cpu(cpu) => cpu.precision.name(),
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => gpu.arithmetic().name(),
    };
    match name {
        "f32" => "float32",
        "bf16" => "bfloat16",
        other => other,
    }
}

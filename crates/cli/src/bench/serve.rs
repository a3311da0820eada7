//! `roformer bench serve`: load for a server, from clients that check what they get.

use crate::error::{Failure, Outcome};
use crate::model;
use clap::Args;
use roformer::Pipeline;
use roformer::ops::{Cpu, Precision};
use roformer::pipeline::Embed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::Uri;

/// Ask a server for vectors from many clients at once, and say how fast it answers
///
/// Each client asks as soon as it has its answer; with --rate requests come at even times whether or not earlier ones have been
/// answered, and a request's time counts from when it was due. Texts have from 1 to --words words, short ones more often. The server is
/// any with /embed (text-embeddings-inference's form) or /v1/embeddings (OpenAI's): the end of the address says which.
///
/// With --check every vector is compared with what this program computes on the CPU from the same folder, bit by bit.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer bench serve http://127.0.0.1:3000/embed --clients 1,8,64\n  \
    roformer bench serve http://127.0.0.1:3000/embed --rate 50 --check MODEL\n  \
    roformer bench serve http://127.0.0.1:7997/embeddings --clients 8 --json")]
pub struct Arguments {
    /// The address, with its route
    #[arg(value_name = "URL", value_parser = address)]
    url: String,
    /// How many clients ask at a time; several numbers are measured one after the other
    #[arg(long, value_name = "N", default_value = "1,8,64", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients: Vec<u16>,
    /// Requests per second, however long they take [default: each client asks again when it has its answer]
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// Texts of a request
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    texts: u16,
    /// Words of the longest text
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    words: u32,
    /// Lines of this file in place of texts made up
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Send this key
    #[arg(long, value_name = "KEY", env = "API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Compare every vector with this model's: a folder, or a name on the hub
    #[arg(long, value_name = "MODEL")]
    check: Option<String>,
    /// What --check computes in: f32, bf16 or int8
    #[arg(long, value_enum, default_value_t = crate::device::Dtype::F32)]
    dtype: crate::device::Dtype,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// An address that can be asked.
fn address(text: &str) -> Result<String, String> {
    let expected = "expected http://HOST:PORT/ROUTE, such as http://127.0.0.1:3000/embed";
    let uri: Uri = text.parse().map_err(|error| format!("{error}; {expected}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(text.into()),
        _ => Err(expected.into()),
    }
}

/// Texts to choose from.
const TEXTS: usize = 512;

/// What texts are made of.
const WORDS: [&str; 16] = [
    "the", "river", "today", "weather", "is", "fine", "and", "a", "small", "house", "今天", "天气", "很好",
    "北京", "we", "walk",
];

pub fn run(arguments: Arguments) -> Outcome {
    let is_positive = |x: f64| x > 0.0 && x.is_finite();
    if !is_positive(arguments.seconds) || arguments.rate.is_some_and(|rate| !is_positive(rate)) {
        return Err(Failure::Input("--seconds and --rate are expected to be more than 0".into()));
    }
    let texts = texts(&arguments)?;
    let expected = arguments.check.as_ref().map(|model| vectors(model, &arguments, &texts)).transpose()?;
    let load = Load { arguments: &arguments, texts, expected };
    let mut out = std::io::stdout().lock();
    if !arguments.json {
        let titles = [
            "clients", "requests", "req/s", "texts/s", "tokens/s", "p50 ms", "p90 ms", "p99 ms", "max ms",
            "failed",
        ];
        let [a, b, c, d, e, f, g, h, i, j] = titles;
        writeln!(out, "{a:>7} {b:>8} {c:>8} {d:>8} {e:>9} {f:>8} {g:>8} {h:>8} {i:>8} {j:>6}")?;
    }
    for &clients in &arguments.clients {
        let seen = load.run(clients.into());
        seen.print(&mut out, clients, &arguments)?;
        if seen.times.is_empty() {
            let why = seen.failures.keys().next().cloned().unwrap_or_else(|| "no request was made".into());
            return Err(Failure::Other(format!("nothing was answered: {why}")));
        }
        if seen.wrong > 0 {
            return Err(Failure::Other(format!("{} vectors are not those of the model", seen.wrong)));
        }
    }
    Ok(())
}

/// Texts of all lengths, short ones more often; the same in every run.
fn texts(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    if let Some(path) = &arguments.input {
        let read = std::fs::read_to_string(path)
            .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
        let lines: Vec<String> = read.lines().filter(|line| !line.is_empty()).map(str::to_string).collect();
        return match lines.is_empty() {
            true => Err(Failure::Input(format!("{}: empty; expected a text on each line", path.display()))),
            false => Ok(lines),
        };
    }
    let mut random = Random(1);
    let text = |_| {
        let words = f64::from(arguments.words).powf(random.unit()).round().max(1.0) as usize;
        let words: Vec<&str> = (0..words).map(|_| WORDS[random.below(WORDS.len())]).collect();
        words.join(" ")
    };
    Ok((0..TEXTS).map(text).collect())
}

/// What a server has to give for the texts.
fn vectors(model: &str, arguments: &Arguments, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
    let precision: Precision = arguments.dtype.precision("no CPU has that type")?;
    let pipeline = Pipeline::open_on(Cpu { precision }, model::find(model, None)?)?;
    let options = Embed { normalize: true, ..Embed::default() };
    Ok(pipeline.embed_all(texts, options).into_iter().collect::<roformer::Result<_>>()?)
}

/// A small generator of numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 31) as f64
    }
}

struct Load<'a> {
    arguments: &'a Arguments,
    texts: Vec<String>,
    expected: Option<Vec<Vec<f32>>>,
}

/// What clients have seen.
#[derive(Default)]
struct Seen {
    /// Seconds of each request that was answered.
    times: Vec<f64>,
    tokens: usize,
    texts: usize,
    /// Vectors with other bits than expected.
    wrong: usize,
    /// Why requests were not answered, and how often.
    failures: BTreeMap<String, usize>,
    /// Seconds in all.
    elapsed: f64,
}

impl Load<'_> {
    fn run(&self, clients: usize) -> Seen {
        let (seen, next) = (Mutex::new(Seen::default()), AtomicUsize::new(0));
        let began = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..clients {
                let (seen, next) = (&seen, &next);
                scope.spawn(move || {
                    let own = self.ask(client, began, next);
                    let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    seen.times.extend(own.times);
                    seen.tokens += own.tokens;
                    seen.texts += own.texts;
                    seen.wrong += own.wrong;
                    for (why, count) in own.failures {
                        *seen.failures.entry(why).or_default() += count;
                    }
                });
            }
        });
        let mut seen = seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.elapsed = began.elapsed().as_secs_f64();
        seen.times.sort_by(f64::total_cmp);
        seen
    }

    /// One client, until the time is over.
    fn ask(&self, client: usize, began: Instant, next: &AtomicUsize) -> Seen {
        let limit = Duration::from_secs_f64(self.arguments.seconds);
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build()
            .into();
        let (mut random, mut seen) = (Random(client as u64 + 7), Seen::default());
        loop {
            let mut due = Instant::now();
            if let Some(rate) = self.arguments.rate {
                let number = next.fetch_add(1, Ordering::Relaxed);
                due = began + Duration::from_secs_f64(number as f64 / rate);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            if due.duration_since(began) >= limit {
                return seen;
            }
            let chosen: Vec<usize> =
                (0..self.arguments.texts).map(|_| random.below(self.texts.len())).collect();
            match self.request(&agent, &chosen) {
                Ok((vectors, tokens)) => {
                    seen.times.push(due.elapsed().as_secs_f64());
                    seen.tokens += tokens;
                    seen.texts += chosen.len();
                    if let Some(expected) = &self.expected {
                        let is_wrong = |(at, vector): (&usize, &Vec<f32>)| expected[*at] != *vector;
                        seen.wrong += chosen.iter().zip(&vectors).filter(|pair| is_wrong(*pair)).count();
                        seen.wrong += chosen.len().abs_diff(vectors.len());
                    }
                }
                Err(why) => {
                    *seen.failures.entry(why).or_default() += 1;
                    // A server that refuses at once is not to be flooded.
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// The vectors of some texts, where they are to be checked, and how many tokens they have.
    fn request(&self, agent: &Agent, chosen: &[usize]) -> Result<(Vec<Vec<f32>>, usize), String> {
        let Arguments { url, api_key, .. } = self.arguments;
        let texts: Vec<&str> = chosen.iter().map(|&at| self.texts[at].as_str()).collect();
        let is_tei = url.trim_end_matches('/').ends_with("/embed");
        let body = match is_tei {
            true => json!({ "inputs": texts }),
            false => json!({"model": "model", "input": texts}),
        };
        let mut request = agent.post(url).header("content-type", "application/json");
        if let Some(key) = api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut answer = request.send(body.to_string()).map_err(|error| error.to_string())?;
        let tokens =
            answer.headers().get("x-compute-tokens").and_then(|tokens| tokens.to_str().ok()?.parse().ok());
        let status = answer.status().as_u16();
        let limit = answer.body_mut().with_config().limit(1 << 30).read_to_vec();
        let bytes = limit.map_err(|error| error.to_string())?;
        if status != 200 {
            return Err(format!("status {status}"));
        }
        // What is neither counted nor checked need not be parsed: the client is on the same machine.
        if let (Some(tokens), None) = (tokens, &self.expected) {
            return Ok((Vec::new(), tokens));
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let tokens =
            tokens.or_else(|| value["usage"]["prompt_tokens"].as_u64().map(|tokens| tokens as usize));
        let lists = if is_tei { value.as_array() } else { value["data"].as_array() };
        let numbers = |list: &Value| -> Vec<f32> {
            let list = if is_tei { list } else { &list["embedding"] };
            list.as_array().into_iter().flatten().map(|x| x.as_f64().unwrap_or(f64::NAN) as f32).collect()
        };
        Ok((lists.into_iter().flatten().map(numbers).collect(), tokens.unwrap_or(0)))
    }
}

impl Seen {
    /// The time that this share of requests took at most, in milliseconds.
    fn quantile(&self, share: f64) -> f64 {
        let place = (share * self.times.len() as f64).ceil() as usize;
        self.times.get(place.saturating_sub(1)).map_or(f64::NAN, |seconds| 1e3 * seconds)
    }

    fn print(&self, out: &mut impl Write, clients: u16, arguments: &Arguments) -> Outcome {
        let Seen { times, tokens, texts, elapsed, .. } = self;
        let [p50, p90, p99, most] = [0.5, 0.9, 0.99, 1.0].map(|share| self.quantile(share));
        let per_second = |count: usize| count as f64 / elapsed;
        let (requests, failed) = (times.len(), self.failures.values().sum::<usize>());
        if arguments.json {
            let line = json!({
                "what": "serve", "clients": clients, "rate": arguments.rate, "requests": requests, "requests_s": per_second(requests),
                "texts_s": per_second(*texts), "tokens_s": per_second(*tokens), "p50_ms": p50, "p90_ms": p90, "p99_ms": p99,
                "max_ms": most, "failed": failed, "failures": self.failures, "checked": arguments.check.is_some(), "wrong": self.wrong,
            });
            writeln!(out, "{line}")?;
        } else {
            let [a, b, c] = [requests, *texts, *tokens].map(per_second);
            writeln!(
                out,
                "{clients:>7} {requests:>8} {a:>8.1} {b:>8.1} {c:>9.0} {p50:>8.2} {p90:>8.2} {p99:>8.2} {most:>8.2} {failed:>6}"
            )?;
        }
        for (why, count) in self.failures.iter().filter(|_| !arguments.json) {
            writeln!(out, "        {count} times: {why}")?;
        }
        Ok(out.flush()?)
    }
}

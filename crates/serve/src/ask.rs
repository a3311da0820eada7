//! One request's way: its texts are read, wait, are run, and are answered; within its deadline, or not at all.

use crate::metrics::{Group, Metrics, Times};
use crate::models::{Model, Models};
use crate::queue::Job;
use crate::refusal::{Kind, Refusal};
use crate::replica::Answer;
use crate::settings::Settings;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use roformer::pipeline::{Pending, Reader};
use roformer_http::Peer;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// What all requests share.
pub struct State {
    pub settings: Settings,
    pub models: Models,
    pub metrics: Arc<Metrics>,
    /// One for each request that is let in.
    pub places: Arc<Semaphore>,
    /// Threads that make tokens of texts.
    pub readers: rayon::ThreadPool,
    pub requests: AtomicU64,
    pub is_ending: AtomicBool,
}

/// Characters of a single text that is read where it was asked for: to wake another thread, which then looks for more, would take longer.
const READ_HERE: usize = 2048;

/// As handlers have it.
pub type Shared = Arc<State>;

/// Who asks, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    pub client: IpAddr,
    pub began: Instant,
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let client = parts.extensions.get::<Peer>().map_or(Ipv4Addr::LOCALHOST.into(), |peer| peer.0);
        let began = parts.extensions.get::<Instant>().copied().unwrap_or_else(Instant::now);
        Ok(Asker { client, began })
    }
}

/// How texts that are too long are cut; where `truncate` is not said, as the settings say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cut {
    pub truncate: Option<bool>,
    pub in_front: bool,
}

/// What is asked.
pub struct Ask {
    pub asker: Asker,
    pub model: Arc<Model>,
    pub group: Group,
    pub cut: Cut,
    /// How many texts there are, and how many characters they have.
    pub texts: usize,
    pub characters: usize,
}

/// Answers to the texts of a request, and what they cost.
pub struct Answers<T> {
    pub items: Vec<T>,
    pub cost: Cost,
}

/// What answers cost.
pub struct Cost {
    pub characters: usize,
    pub tokens: usize,
    pub times: Times,
    pub compute: String,
}

impl Cost {
    /// The headers of an answer: those of text-embeddings-inference, times in milliseconds.
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let ms = |seconds: f64| HeaderValue::from((seconds * 1e3) as u64);
        let compute = HeaderValue::from_str(&self.compute).unwrap_or(HeaderValue::from_static("cpu"));
        [
            ("x-compute-type", compute),
            ("x-compute-time", ms(self.times.total)),
            ("x-compute-characters", self.characters.into()),
            ("x-compute-tokens", self.tokens.into()),
            ("x-total-time", ms(self.times.total)),
            ("x-tokenization-time", ms(self.times.tokenization)),
            ("x-queue-time", ms(self.times.queue)),
            ("x-inference-time", ms(self.times.inference)),
        ]
        .map(|(name, value)| (HeaderName::from_static(name), value))
        .into()
    }
}

impl State {
    /// A place among the requests that are let in.
    pub fn enter(&self, model: &Model) -> Result<OwnedSemaphorePermit, Refusal> {
        if self.is_ending.load(Ordering::Relaxed) {
            return Err(Refusal::new(Kind::Unhealthy, "the server is ending"));
        }
        self.places.clone().try_acquire_owned().map_err(|_| {
            let most = self.settings.max_concurrent_requests;
            let message = format!("there are {most} requests already, which is the most; ask again later");
            let seconds = model.speed.seconds(model.queue.size().1);
            Refusal { retry_after: Some(seconds), ..Refusal::new(Kind::Overloaded, message) }
        })
    }

    /// Refuses none and too many texts.
    pub fn check_count(&self, texts: usize) -> Result<(), Refusal> {
        let most = self.settings.max_client_batch_size;
        match texts {
            0 => Err(Refusal::new(Kind::Empty, "no texts were sent; expected one at least")),
            _ if texts > most => Err(Refusal::new(
                Kind::Validation,
                format!("{texts} texts were sent; expected {most} at most (--max-client-batch-size)"),
            )),
            _ => Ok(()),
        }
    }

    /// Does something on the threads that read texts.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, receiver) = oneshot::channel();
        self.readers.spawn(move || {
            if !sender.is_closed() {
                let _ = sender.send(work());
            }
        });
        receiver.await.map_err(|_| Refusal::new(Kind::Backend, "the texts could not be read"))
    }

    /// Answers the texts of a request, which `read` makes what waits for the model.
    pub async fn answer<T: Send + 'static>(
        &self,
        ask: Ask,
        read: impl FnOnce(Reader<'_>) -> Vec<roformer::Result<Pending<T>>> + Send + 'static,
    ) -> Result<Answers<T>, Refusal> {
        self.check_count(ask.texts)?;
        self.metrics.asked(ask.group, ask.texts);
        let _place = self.enter(&ask.model)?;
        let (began, limit) = (ask.asker.began, self.settings.deadline);
        let deadline = tokio::time::Instant::from_std(began + limit);
        tokio::time::timeout_at(deadline, self.answer_at_last(ask, read)).await.unwrap_or_else(|_| {
            let message = format!("no answer within {} s, which is the deadline", limit.as_secs_f64());
            Err(Refusal::new(Kind::Timeout, message))
        })
    }

    async fn answer_at_last<T: Send + 'static>(
        &self,
        ask: Ask,
        read: impl FnOnce(Reader<'_>) -> Vec<roformer::Result<Pending<T>>> + Send + 'static,
    ) -> Result<Answers<T>, Refusal> {
        let Ask { asker, model, group, cut, texts, characters } = ask;
        let most = model.max_input_length(self.settings.max_batch_tokens);
        let cuts = cut.truncate.unwrap_or(self.settings.auto_truncate);
        let (reading, own) = (Instant::now(), model.clone());
        let work = move || {
            // Of a text that may not be cut, a token more than it may have tells that it is too long.
            let reader = own.reader().cut_to(if cuts { most } else { most + 1 });
            read(if cut.in_front { reader.cut_in_front() } else { reader })
        };
        let pending = match texts == 1 && characters <= READ_HERE {
            true => work(),
            false => self.read(work).await?,
        };
        let tokenization = reading.elapsed().as_secs_f64();
        let pending = pending.into_iter().collect::<roformer::Result<Vec<_>>>();
        let pending = pending.map_err(|error| Refusal::of_text(&error))?;
        let lengths: Vec<usize> = pending.iter().map(Pending::tokens).collect();
        if !cuts && lengths.iter().any(|&length| length > most) {
            let message = format!(
                "a text has more than {most} tokens, which is the most; send a shorter one, or truncate: true"
            );
            return Err(Refusal::new(Kind::Validation, message));
        }
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let entered = Instant::now();
        let (jobs, replies): (Vec<_>, Vec<_>) = pending
            .into_iter()
            .map(|pending| {
                let (reply, receiver) = oneshot::channel();
                let pending = pending.map(|answer| Box::new(answer) as Answer);
                (Job { pending, client: asker.client, request, entered, reply }, receiver)
            })
            .unzip();
        let mut ticket = Ticket { model: &model, request, client: asker.client, is_due: true };
        model.queue.push(jobs).map_err(|_| Refusal::new(Kind::Unhealthy, "the server is ending"))?;
        let failed = || Refusal::new(Kind::Backend, "the model failed on this batch; see the server's log");
        let (mut items, mut queued, mut ran) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        for reply in replies {
            let done = reply.await.map_err(|_| failed())?;
            let answer = done.answer.map_err(|error| Refusal::of_text(&error))?;
            items.push(*answer.downcast::<T>().map_err(|_| failed())?);
            queued = queued.max(done.queued);
            ran = ran.max(done.ran);
        }
        ticket.is_due = false;
        let times = Times {
            total: asker.began.elapsed().as_secs_f64(),
            tokenization,
            queue: queued.as_secs_f64(),
            inference: ran.as_secs_f64(),
        };
        self.metrics.answered(group, &lengths, &times);
        let cost = Cost { characters, tokens: lengths.iter().sum(), times, compute: model.compute.clone() };
        Ok(Answers { items, cost })
    }
}

/// Texts of a request in a queue. Where the request ends before they are answered, because whoever asked has gone or the deadline
/// has passed, they leave the queue.
struct Ticket<'a> {
    model: &'a Model,
    request: u64,
    client: IpAddr,
    is_due: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.model.queue.leave(self.request, self.client);
        }
    }
}

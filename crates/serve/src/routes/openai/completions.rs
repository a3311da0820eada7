//! `/v1/completions`: what a causal model writes behind a text, at once or piece by piece.

use super::super::texts::Texts;
use crate::ask::{Asker, Shared};
use crate::body::{Json, answer};
use crate::models::{Model, Task};
use crate::refusal::{Kind, Refusal};
use crate::stream::{Events, events};
use axum::extract::State;
use axum::response::Response;
use roformer::pipeline::{Completion, Generate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

#[derive(Deserialize, JsonSchema)]
pub struct CompletionsRequest {
    model: Option<String>,
    prompt: Texts,
    /// Tokens at most; 16 where nothing is said.
    max_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    /// Only so many of the likeliest tokens.
    top_k: Option<usize>,
    /// The same seed gives the same text.
    seed: Option<u64>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    /// Texts that end what is written, and are left out.
    stop: Option<Texts>,
    /// How many answers; only one.
    n: Option<usize>,
    /// Whether the prompt comes first.
    #[serde(default)]
    echo: bool,
    /// None: an answer has no probabilities, nor is any of the following done.
    logprobs: Option<Value>,
    best_of: Option<Value>,
    suffix: Option<Value>,
    logit_bias: Option<Value>,
    presence_penalty: Option<Value>,
    frequency_penalty: Option<Value>,
}

impl CompletionsRequest {
    /// The name of something that is asked for and would not be done.
    fn undone(&self) -> Option<&'static str> {
        let CompletionsRequest {
            logprobs,
            best_of,
            suffix,
            logit_bias,
            presence_penalty,
            frequency_penalty,
            ..
        } = self;
        // What clients send that ask for nothing.
        let asks = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(true) | Value::Array(_) => true,
        };
        let given = [
            (
                "logprobs",
                logprobs.as_ref().is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false))),
            ),
            ("best_of", best_of.as_ref().is_some_and(|value| asks(value) && value.as_f64() != Some(1.0))),
            ("suffix", suffix.as_ref().is_some_and(asks)),
            ("logit_bias", logit_bias.as_ref().is_some_and(asks)),
            ("presence_penalty", presence_penalty.as_ref().is_some_and(asks)),
            ("frequency_penalty", frequency_penalty.as_ref().is_some_and(asks)),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(name, _)| *name)
    }
}

#[derive(Deserialize, JsonSchema)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Clone, Serialize, JsonSchema)]
pub struct Completions {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Clone, Serialize, JsonSchema)]
struct Choice {
    index: usize,
    text: String,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
}

/// The most tokens that are written.
const MOST: usize = 1 << 16;

pub async fn completions(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<CompletionsRequest>,
) -> Result<Response, Refusal> {
    let model = state.models.find(request.model.as_deref(), Task::Complete)?.clone();
    if !model.can(Task::Complete) {
        let message = format!("{} does not continue texts; expected a causal language model", model.name);
        return Err(Refusal::new(Kind::Backend, message));
    }
    if request.n.is_some_and(|n| n != 1) {
        return Err(Refusal::new(Kind::Data, "n is not 1; expected one answer for each prompt"));
    }
    if let Some(name) = request.undone() {
        return Err(Refusal::new(Kind::Data, format!("{name} is given; expected none: it is not done here")));
    }
    let max_tokens = request.max_tokens.unwrap_or(16);
    if max_tokens > MOST {
        return Err(Refusal::new(
            Kind::Validation,
            format!("max_tokens is {max_tokens}; expected {MOST} at most"),
        ));
    }
    let options = Generate {
        max_tokens,
        temperature: request.temperature.unwrap_or(1.0),
        top_k: request.top_k.unwrap_or(0),
        top_p: request.top_p.unwrap_or(1.0),
        seed: request.seed.unwrap_or_else(|| asker.began.elapsed().as_nanos() as u64),
    };
    let (prompts, _) = request.prompt.list();
    state.check_count(prompts.len())?;
    let stops: Vec<String> = request.stop.map(|stop| stop.list().0).unwrap_or_default();
    let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
    let place = state.enter(&model)?;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let frame = Completions {
        id: format!("cmpl-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
        object: "text_completion",
        created: std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
        model: model.name.clone(),
        choices: Vec::new(),
        usage: None,
    };
    let deadline = asker.began + state.settings.deadline;
    // One text at a time is written on each device: whoever comes later waits here, in order.
    let writer = model.writers.clone().acquire_owned();
    let writer = tokio::time::timeout_at(deadline.into(), writer).await;
    let Ok(Ok(writer)) = writer else {
        return Err(Refusal::new(Kind::Timeout, "no device was free within the deadline"));
    };
    let writing = Writing {
        model,
        prompts,
        options,
        stops,
        echo: request.echo,
        deadline,
        _place: place,
        _writer: writer,
    };
    if request.stream {
        let (events, response) = events();
        let with_usage = request.stream_options.is_some_and(|options| options.include_usage);
        tokio::task::spawn_blocking(move || writing.stream(&frame, &events, with_usage));
        return Ok(response);
    }
    // Whoever goes away drops this, and the writing ends with its next piece.
    let (waiting, mut gone) = oneshot::channel::<()>();
    let written = tokio::task::spawn_blocking(move || {
        writing.write(|_, _| match gone.try_recv() {
            Err(oneshot::error::TryRecvError::Closed) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    });
    let written = written.await;
    drop(waiting);
    let failed = |_| Refusal::new(Kind::Backend, "the model failed; see the server's log");
    let (choices, usage) = written.map_err(failed)?.map_err(|error| Refusal::of_text(&error))?;
    answer(&Completions { choices, usage: Some(usage), ..frame }, None)
}

/// Prompts that are being continued, with the places that they hold.
struct Writing {
    model: Arc<Model>,
    prompts: Vec<String>,
    options: Generate,
    stops: Vec<String>,
    echo: bool,
    deadline: Instant,
    _place: OwnedSemaphorePermit,
    _writer: OwnedSemaphorePermit,
}

impl Writing {
    /// Continues one prompt after the other, and hands over what is new piece by piece.
    fn write(
        &self,
        mut on_text: impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> roformer::Result<(Vec<Choice>, Usage)> {
        let (mut choices, mut usage) = (Vec::new(), Usage::default());
        for (index, prompt) in self.prompts.iter().enumerate() {
            let mut shown = Shown::new(&self.stops);
            if self.echo {
                let _ = on_text(index, prompt);
            }
            let replica = self.model.next_writer();
            let done: Completion = replica.complete(prompt, &self.options, &mut |piece| {
                let (piece, is_over) = shown.push(piece);
                let flow = if piece.is_empty() { ControlFlow::Continue(()) } else { on_text(index, &piece) };
                if is_over || Instant::now() >= self.deadline { ControlFlow::Break(()) } else { flow }
            })?;
            let rest = shown.rest();
            if !rest.is_empty() {
                let _ = on_text(index, &rest);
            }
            let is_stopped = done.has_ended || shown.is_over;
            let before = if self.echo { prompt.as_str() } else { "" };
            choices.push(Choice {
                index,
                text: format!("{before}{}", shown.text),
                logprobs: None,
                finish_reason: Some(if is_stopped { "stop" } else { "length" }),
            });
            usage.prompt_tokens += done.prompt_tokens;
            usage.completion_tokens += done.tokens;
        }
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
        Ok((choices, usage))
    }

    fn stream(self, frame: &Completions, events: &Events, with_usage: bool) {
        let send = |index: usize, text: &str, finish_reason: Option<&'static str>| {
            let choice = Choice { index, text: text.to_string(), logprobs: None, finish_reason };
            events.send(&Completions { choices: vec![choice], ..frame.clone() })
        };
        let written = self.write(|index, piece| match send(index, piece, None) {
            Ok(()) => ControlFlow::Continue(()),
            Err(()) => ControlFlow::Break(()),
        });
        match written {
            Ok((choices, usage)) => {
                for choice in choices {
                    let _ = send(choice.index, "", choice.finish_reason);
                }
                if with_usage {
                    let _ = events.send(&Completions { usage: Some(usage), ..frame.clone() });
                }
            }
            Err(error) => {
                let message = error.to_string();
                let _ = events.send(&serde_json::json!({"error": {"message": message, "type": "Backend"}}));
            }
        }
        events.finish();
    }
}

/// What has been written and shown, up to the first text that ends it.
struct Shown<'a> {
    stops: &'a [String],
    text: String,
    /// What may be the beginning of such a text.
    held: String,
    is_over: bool,
}

impl<'a> Shown<'a> {
    fn new(stops: &'a [String]) -> Self {
        Shown { stops, text: String::new(), held: String::new(), is_over: false }
    }

    /// What of a piece, and of what was held back before it, can be shown; and whether that was all.
    fn push(&mut self, piece: &str) -> (String, bool) {
        if self.is_over {
            return (String::new(), true);
        }
        self.held += piece;
        let end = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        self.is_over = end.is_some();
        let end = end.unwrap_or_else(|| {
            let may_begin =
                |place: &usize| self.stops.iter().any(|stop| stop.starts_with(&self.held[*place..]));
            let mut places = self.held.char_indices().map(|(place, _)| place);
            places.find(may_begin).unwrap_or(self.held.len())
        });
        let rest = self.held.split_off(end);
        let shown = std::mem::replace(&mut self.held, if self.is_over { String::new() } else { rest });
        self.text += &shown;
        (shown, self.is_over)
    }

    /// What was held back and ended nothing.
    fn rest(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.text += &rest;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(stops: &[&str], pieces: &[&str]) -> (Vec<String>, String, bool) {
        let stops: Vec<String> = stops.iter().map(|stop| stop.to_string()).collect();
        let mut shown = Shown::new(&stops);
        let mut parts: Vec<String> = pieces.iter().map(|piece| shown.push(piece).0).collect();
        parts.push(shown.rest());
        (parts, shown.text.clone(), shown.is_over)
    }

    #[test]
    fn what_ends_a_text_is_never_shown() {
        let parts = |list: &[&str]| list.iter().map(|part| part.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(&[], &["a", "b"]), (parts(&["a", "b", ""]), "ab".into(), false));
        assert_eq!(shown(&["bc"], &["ab", "cd", "e"]), (parts(&["a", "", "", ""]), "a".into(), true));
        assert_eq!(shown(&["bc"], &["ab", "d"]), (parts(&["a", "bd", ""]), "abd".into(), false));
        assert_eq!(shown(&["bc"], &["ab"]), (parts(&["a", "b"]), "ab".into(), false));
        assert_eq!(
            shown(&["。"], &["今天", "好。", "我"]),
            (parts(&["今天", "好", "", ""]), "今天好".into(), true)
        );
        assert_eq!(shown(&["cd", "b"], &["abcd"]), (parts(&["a", ""]), "a".into(), true));
    }
}

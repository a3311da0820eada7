//! Counts and times, in the text that Prometheus reads. The names are those of text-embeddings-inference.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// All of them.
pub struct Metrics {
    /// By name and labels.
    counters: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    request: Stages,
    embed: Stages,
    predict: Stages,
    input_length: Histogram,
    batch_size: Histogram,
    batch_tokens: Histogram,
    tokens: AtomicU64,
}

/// What a request is counted as, beside a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Embed,
    Predict,
}

/// Seconds of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub total: f64,
    pub tokenization: f64,
    pub queue: f64,
    pub inference: f64,
}

struct Stages {
    total: Histogram,
    tokenization: Histogram,
    queue: Histogram,
    inference: Histogram,
}

impl Stages {
    fn new() -> Self {
        let seconds = || Histogram::new((1..=35).map(|power| 1e-5 * 1.5f64.powi(power)).collect());
        Stages { total: seconds(), tokenization: seconds(), queue: seconds(), inference: seconds() }
    }

    fn record(&self, times: &Times) {
        self.total.record(times.total);
        self.tokenization.record(times.tokenization);
        self.queue.record(times.queue);
        self.inference.record(times.inference);
    }

    fn write(&self, out: &mut String, name: &str) {
        self.total.write(out, &format!("te_{name}_duration"));
        self.tokenization.write(out, &format!("te_{name}_tokenization_duration"));
        self.queue.write(out, &format!("te_{name}_queue_duration"));
        self.inference.write(out, &format!("te_{name}_inference_duration"));
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let powers = |count: i32| Histogram::new((0..count).map(|power| 2f64.powi(power)).collect());
        Metrics {
            counters: Mutex::default(),
            request: Stages::new(),
            embed: Stages::new(),
            predict: Stages::new(),
            input_length: powers(20),
            batch_size: powers(13),
            batch_tokens: powers(21),
            tokens: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// A request that has come, of one text or of several.
    pub fn asked(&self, group: Group, texts: usize) {
        self.count("te_request_count", "method", method(texts), 1);
        self.count(of_group(group, "te_embed_count", "te_predict_count"), "", "", texts as u64);
    }

    /// A request that has been answered.
    pub fn answered(&self, group: Group, lengths: &[usize], times: &Times) {
        self.count("te_request_success", "method", method(lengths.len()), 1);
        self.count(of_group(group, "te_embed_success", "te_predict_success"), "", "", lengths.len() as u64);
        self.request.record(times);
        of_group(group, &self.embed, &self.predict).record(times);
        lengths.iter().for_each(|&length| self.input_length.record(length as f64));
        self.tokens.fetch_add(lengths.iter().sum::<usize>() as u64, Ordering::Relaxed);
    }

    /// A request that was refused.
    pub fn refused(&self, why: &'static str) {
        self.count("te_request_failure", "err", why, 1);
    }

    /// A batch that runs.
    pub fn batch(&self, texts: usize, tokens: usize) {
        self.batch_size.record(texts as f64);
        self.batch_tokens.record(tokens as f64);
    }

    fn count(&self, name: &'static str, label: &'static str, value: &'static str, by: u64) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        *counters.entry((name, label, value)).or_default() += by;
    }

    /// The text, with how many texts wait for each model.
    pub fn text(&self, queues: &[(&str, usize)]) -> String {
        let mut out = String::new();
        let mut last = "";
        for (&(name, label, value), count) in &*self.counters.lock().unwrap_or_else(PoisonError::into_inner) {
            if name != last {
                let _ = writeln!(out, "# TYPE {name} counter");
                last = name;
            }
            let _ = match label {
                "" => writeln!(out, "{name} {count}"),
                _ => writeln!(out, "{name}{{{label}=\"{value}\"}} {count}"),
            };
        }
        let _ = writeln!(out, "# TYPE te_request_tokens counter");
        let _ = writeln!(out, "te_request_tokens {}", self.tokens.load(Ordering::Relaxed));
        let _ = writeln!(out, "# TYPE te_queue_size gauge");
        for (model, size) in queues {
            let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(out, "te_queue_size{{model=\"{model}\"}} {size}");
        }
        self.request.write(&mut out, "request");
        self.embed.write(&mut out, "embed");
        self.predict.write(&mut out, "predict");
        self.input_length.write(&mut out, "te_request_input_length");
        self.batch_size.write(&mut out, "te_batch_next_size");
        self.batch_tokens.write(&mut out, "te_batch_next_tokens");
        out
    }
}

fn method(texts: usize) -> &'static str {
    if texts == 1 { "single" } else { "batch" }
}

fn of_group<T>(group: Group, embed: T, predict: T) -> T {
    if group == Group::Embed { embed } else { predict }
}

/// How often a number was at most each of some bounds.
struct Histogram {
    bounds: Vec<f64>,
    /// One more than bounds: the last is for what is above all of them.
    counts: Vec<AtomicU64>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: Vec<f64>) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    fn record(&self, number: f64) {
        let place = self.bounds.partition_point(|&bound| bound < number);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + number).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn write(&self, out: &mut String, name: &str) {
        let _ = writeln!(out, "# TYPE {name} histogram");
        let mut total = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        total += self.counts[self.bounds.len()].load(Ordering::Relaxed);
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {total}\n{name}_sum {sum}\n{name}_count {total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_to_each_bound() {
        let histogram = Histogram::new(vec![1.0, 2.0, 4.0]);
        [0.5, 1.0, 1.5, 4.0, 9.0].iter().for_each(|&number| histogram.record(number));
        let mut out = String::new();
        histogram.write(&mut out, "x");
        let expected = "# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"2\"} 3\nx_bucket{le=\"4\"} 4\n\
            x_bucket{le=\"+Inf\"} 5\nx_sum 16\nx_count 5\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn requests_are_counted_by_what_became_of_them() {
        let metrics = Metrics::default();
        metrics.asked(Group::Embed, 1);
        metrics.asked(Group::Embed, 3);
        metrics.answered(Group::Embed, &[5, 6, 7], &Times::default());
        metrics.refused("overloaded");
        let text = metrics.text(&[("a\"b", 2)]);
        for line in [
            "te_request_count{method=\"single\"} 1",
            "te_request_count{method=\"batch\"} 1",
            "te_request_success{method=\"batch\"} 1",
            "te_request_failure{err=\"overloaded\"} 1",
            "te_embed_count 4",
            "te_embed_success 3",
            "te_request_tokens 18",
            "te_queue_size{model=\"a\\\"b\"} 2",
            "te_request_input_length_bucket{le=\"4\"} 0",
            "te_request_input_length_bucket{le=\"8\"} 3",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
    }
}

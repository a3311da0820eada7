//! What is told of a plan: in results, where two plans differ, and as one number.

use super::super::results::{self, EncodingPlan};
use super::super::run::Purpose;
use super::super::seeds::Seeds;
use super::super::size::Sizes;
use super::{Plan, RATES, hash};
use roformer::blueprint::Features;
use roformer::encoding::Encoding;
use std::collections::BTreeMap;

/// The rate of the settings that the hash of a plan is made of. Its own rates are beside them.
const HASHED_RATE: f64 = RATES[0];

impl Plan {
    /// The plan as results show it.
    pub fn shown(&self) -> results::Plan {
        let first = self.sizes.first();
        let show = |(label, encoding): &(String, Encoding)| EncodingPlan {
            label: label.clone(),
            name: encoding.name().into(),
        };
        results::Plan {
            preset: self.preset.name().into(),
            attention: match (self.is_linear, self.features) {
                (false, _) => "softmax".into(),
                (true, Features::Elu) => "linear".into(),
                (true, features) => format!("linear ({})", features.name()),
            },
            encodings: self.encodings.iter().map(show).collect(),
            seeds: match self.seeds {
                Seeds::Fixed(count) => (1..=count as u64).collect(),
                Seeds::Added { .. } => Vec::new(),
            },
            budget: match self.seeds {
                Seeds::Fixed(_) => None,
                Seeds::Added { budget } => Some(budget),
            },
            rates: self.rates.of(first),
            width: first.width(),
            layers: first.layers(),
            heads: first.heads(),
            sizes: match self.sizes {
                Sizes::One(_) => Vec::new(),
                Sizes::Pilot => self.sizes.all(&self.device),
            },
            batch: self.batch,
            source: self.preset.named().map(|named| named.source.into()),
            training: self.training,
            left_out: self.left_out.clone(),
        }
    }

    /// What was asked for by name, to tell two plans apart in words.
    pub(crate) fn asked(&self) -> BTreeMap<String, String> {
        let labels: Vec<&str> = self.encodings.iter().map(|(label, _)| &label[..]).collect();
        let names: Vec<&str> = self.tasks.iter().map(|planned| planned.task.name()).collect();
        let mut all = BTreeMap::from(
            [
                ("version", env!("CARGO_PKG_VERSION").to_string()),
                ("preset", self.preset.name().into()),
                ("attention", if self.is_linear { "linear" } else { "softmax" }.into()),
                ("encodings", labels.join(" ")),
                ("tasks", names.join(" ")),
                (
                    "seeds",
                    match self.seeds {
                        Seeds::Fixed(count) => count.to_string(),
                        Seeds::Added { budget } => format!("added to the work of {budget} of each"),
                    },
                ),
                ("size", self.sizes.to_string()),
                ("texts of a step", self.batch.to_string()),
                ("sweep", self.is_sweep.to_string()),
                ("device", self.device.name()),
            ]
            .map(|(name, value)| (name.to_string(), value)),
        );
        for (label, _) in self.encodings.iter().filter(|(_, own)| matches!(own, Encoding::Given(_))) {
            all.insert(format!("file of {label}"), self.content(label));
        }
        for planned in &self.tasks {
            let name = planned.task.name();
            let lengths: Vec<String> = planned.test_lengths.iter().map(usize::to_string).collect();
            all.insert(format!("steps of {name}"), planned.steps.to_string());
            all.insert(format!("train length of {name}"), planned.train_length.to_string());
            all.insert(format!("test lengths of {name}"), lengths.join(" "));
            all.insert(format!("data of {name}"), format!("{:016x}", planned.task.fingerprint()));
        }
        all
    }

    /// A number that is another for another plan or version, in hexadecimal; the same before a pilot and after it.
    pub fn hash(&self) -> String {
        let label = &self.encodings[0].0;
        let tasks = self.tasks.iter();
        let first = self.sizes.first();
        let tasks = tasks.map(|task| self.settings(task, label, HASHED_RATE, 1, Purpose::Run).of(first));
        let tasks = tasks.collect::<Vec<_>>();
        let files: String = self.encodings.iter().map(|(label, _)| self.content(label)).collect();
        match files.is_empty() {
            true => hash(&(self.shown(), self.is_sweep, tasks)),
            false => hash(&(self.shown(), self.is_sweep, tasks, files)),
        }
    }
}

//! From the verdicts of single answers to what is wrong with an implementation: the fewest mistakes that explain them all.

use crate::judge::{Explanation, Outcome, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;

/// One thing that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is. Where there are several, these answers cannot tell them apart. Empty: no known mistake.
    pub explanations: Vec<Explanation>,
    /// The answers that it explains, as `case.dtype`.
    pub answers: Vec<String>,
    /// Answers that were right although it would have shown in them.
    pub contradicted: usize,
}

/// Explains the wrong answers, the mistake that explains most of them first.
pub(crate) fn diagnose(
    verdicts: &[Verdict],
    would_show: impl Fn(&Explanation, &Verdict) -> bool,
) -> Vec<Finding> {
    let mut left: Vec<(&Verdict, &[Explanation])> = verdicts
        .iter()
        .filter_map(|verdict| match &verdict.outcome {
            Outcome::Wrong { fits, .. } => Some((verdict, fits.as_slice())),
            _ => None,
        })
        .collect();
    let right: Vec<&Verdict> =
        verdicts.iter().filter(|verdict| matches!(verdict.outcome, Outcome::Right { .. })).collect();
    let contradicted =
        |explanation: &Explanation| right.iter().filter(|verdict| would_show(explanation, verdict)).count();
    let mut findings = Vec::new();
    loop {
        let candidates: BTreeSet<&Explanation> = left.iter().flat_map(|(_, fits)| fits.iter()).collect();
        let explained = |explanation: &Explanation| -> Vec<usize> {
            let fits = |(index, (_, fits)): (usize, &(&Verdict, &[Explanation]))| {
                fits.contains(explanation).then_some(index)
            };
            left.iter().enumerate().filter_map(fits).collect()
        };
        let Some(most) = candidates.iter().map(|candidate| explained(candidate).len()).max() else { break };
        // Of those that explain most, those made of the fewest mistakes and with the fewest right answers against them.
        let ranked: Vec<(usize, usize, &Explanation, Vec<usize>)> = candidates
            .into_iter()
            .map(|candidate| (candidate, explained(candidate)))
            .filter(|(_, list)| list.len() == most)
            .map(|(candidate, list)| (candidate.0.len(), contradicted(candidate), candidate, list))
            .collect();
        let Some((size, against, answers)) = ranked
            .iter()
            .map(|(size, against, _, list)| (*size, *against, list.clone()))
            .min_by_key(|(size, against, _)| (*size, *against))
        else {
            break;
        };
        let explanations = ranked
            .into_iter()
            .filter(|(s, a, _, list)| *s == size && *a == against && *list == answers)
            .map(|(_, _, explanation, _)| explanation.clone())
            .collect();
        findings.push(Finding {
            explanations,
            answers: answers.iter().map(|&index| answer(left[index].0)).collect(),
            contradicted: against,
        });
        let mut index = 0;
        left.retain(|_| {
            index += 1;
            !answers.contains(&(index - 1))
        });
    }
    if !left.is_empty() {
        let answers = left.iter().map(|(verdict, _)| answer(verdict)).collect();
        findings.push(Finding { explanations: Vec::new(), answers, contradicted: 0 });
    }
    findings
}

fn answer(verdict: &Verdict) -> String {
    match verdict.dtype {
        Some(dtype) => format!("{}.{dtype}", verdict.case),
        None => verdict.case.clone(),
    }
}

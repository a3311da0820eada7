//! What was found: as lines of text, as JSON, as one page.

mod page;

use crate::diagnosis::Finding;
use crate::dtype::Dtype;
use crate::judge::{Angles, Level, Outcome, Rounding, Verdict};
use crate::mistakes;
use serde::Serialize;
use std::fmt::{self, Write};

/// Every verdict, and what is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What this file is.
    pub format: &'static str,
    /// The version of its form.
    pub version: u32,
    /// Whether nothing that was answered is wrong, and something was answered.
    pub ok: bool,
    /// Right answers.
    pub right: usize,
    /// Wrong answers, and those that cannot be judged.
    pub wrong: usize,
    /// Cases without an answer.
    pub missing: usize,
    /// What is wrong, the largest part first.
    pub findings: Vec<Finding>,
    /// The known mistakes that are named among the findings: what each does, and what to do.
    pub named: Vec<Named>,
    /// Every verdict, in the order of the cases.
    pub verdicts: Vec<Verdict>,
}

/// A mistake in words.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// What the implementation does.
    pub does: &'static str,
    /// What to do instead.
    pub cure: &'static str,
}

impl Report {
    pub(crate) fn new(verdicts: Vec<Verdict>, findings: Vec<Finding>) -> Report {
        let count = |is: fn(&Outcome) -> bool| verdicts.iter().filter(|verdict| is(&verdict.outcome)).count();
        let right = count(|outcome| matches!(outcome, Outcome::Right { .. }));
        let wrong = count(|outcome| matches!(outcome, Outcome::Wrong { .. } | Outcome::Unusable { .. }));
        let missing = count(|outcome| matches!(outcome, Outcome::Missing));
        let is_named = |name: &str| {
            findings.iter().any(|finding| finding.explanations.iter().any(|names| names.0.contains(&name)))
        };
        let named = mistakes::all()
            .filter(|mistake| is_named(mistake.name))
            .map(|mistake| Named { name: mistake.name, does: mistake.does, cure: mistake.cure })
            .collect();
        Report {
            format: "rope-conformance report",
            version: 1,
            ok: wrong == 0 && right > 0,
            right,
            wrong,
            missing,
            findings,
            named,
            verdicts,
        }
    }

    /// Whether nothing that was answered is wrong, and something was answered.
    pub fn is_right(&self) -> bool {
        self.ok
    }

    /// The names of the mistakes that explain the wrong answers, the largest part first; `a or b` where these answers cannot
    /// tell them apart.
    pub fn mistakes(&self) -> Vec<String> {
        let list = self.findings.iter().filter(|finding| !finding.explanations.is_empty());
        list.map(|finding| joined(finding, " or ")).collect()
    }

    /// As a JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As one page that needs nothing else.
    pub fn to_page(&self, title: &str) -> String {
        page::page(self, title)
    }

    /// The counts in a line.
    pub fn summary(&self) -> String {
        let mut line = format!("{} right, {} wrong", self.right, self.wrong);
        if self.missing > 0 {
            let _ = write!(line, ", {} not answered", self.missing);
        }
        line
    }
}

/// The explanations of a finding.
fn joined(finding: &Finding, word: &str) -> String {
    finding.explanations.iter().map(ToString::to_string).collect::<Vec<_>>().join(word)
}

/// The precision of a right answer in words.
pub(crate) fn precision(level: Level, dtype: Option<Dtype>) -> String {
    let angles = match level.angles {
        Angles::Exact => "exact angles",
        Angles::F32 => "angles in f32",
    };
    match (dtype, level.rounding) {
        (Some(Dtype::F16 | Dtype::Bf16), Rounding::Once) => format!("{angles}, rounded once"),
        (Some(dtype @ (Dtype::F16 | Dtype::Bf16)), Rounding::Each) => {
            format!("{angles}, arithmetic in {dtype}")
        }
        _ => angles.to_string(),
    }
}

/// What there is to say of an answer, after its verdict.
fn words(verdict: &Verdict) -> String {
    match &verdict.outcome {
        Outcome::Right { level } => precision(*level, verdict.dtype),
        Outcome::Wrong { worst, off, of, fits } => {
            let mut line = format!(
                "{off} of {of} elements off; {} head {} position {} feature {}: got {:.6}, expected {:.6}",
                worst.of, worst.head, worst.position, worst.feature, worst.got, worst.expected
            );
            if let [first, ..] = &fits[..] {
                let _ = write!(line, " ({first}{})", if fits.len() > 1 { ", …" } else { "" });
            }
            line
        }
        Outcome::Unusable { why } => why.clone(),
        Outcome::Missing => String::new(),
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Right { .. } => "right",
        Outcome::Wrong { .. } | Outcome::Unusable { .. } => "WRONG",
        Outcome::Missing => "no answer",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.verdicts.iter().map(|verdict| verdict.case.len()).max().unwrap_or(0);
        for verdict in &self.verdicts {
            let dtype = verdict.dtype.map_or("", Dtype::name);
            let line = format!(
                "{:9}  {:width$}  {dtype:4}  {}",
                word(&verdict.outcome),
                verdict.case,
                words(verdict)
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "\n{}", self.summary())?;
        for finding in &self.findings {
            let (count, s) = (finding.answers.len(), if finding.answers.len() == 1 { "" } else { "s" });
            let answers = finding.answers.join(", ");
            if finding.explanations.is_empty() {
                writeln!(f, "\nNo known mistake explains {count} answer{s}: {answers}")?;
                continue;
            }
            writeln!(f, "\n{}: explains {count} answer{s}: {answers}", joined(finding, " or "))?;
            if finding.contradicted > 0 {
                let right = finding.contradicted;
                writeln!(f, "  (not everywhere: {right} answers are right in which it would have shown)")?;
            }
            for named in &self.named {
                if finding.explanations.iter().any(|names| names.0.contains(&named.name)) {
                    writeln!(f, "  {}: the implementation {}", named.name, named.does)?;
                    writeln!(f, "    do: {}", named.cure)?;
                }
            }
        }
        Ok(())
    }
}

//! The report as one page: no scripts, no other files.

use super::{Report, joined, word, words};
use crate::dtype::Dtype;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(report: &Report, title: &str) -> String {
    let mut out = String::new();
    let title = escape(title);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title>\n<style>{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
    );
    let mood = if report.ok { "good" } else { "bad" };
    let _ = writeln!(out, "<p class=\"summary {mood}\">{}</p>", escape(&report.summary()));
    for finding in &report.findings {
        let heading = match finding.explanations.is_empty() {
            true => "No known mistake".to_string(),
            false => joined(finding, " or "),
        };
        let _ = writeln!(out, "<section><h2>{}</h2>", escape(&heading));
        for named in &report.named {
            if finding.explanations.iter().any(|names| names.0.contains(&named.name)) {
                let _ = writeln!(
                    out,
                    "<p><code>{}</code>: the implementation {}.<br><b>Do:</b> {}.</p>",
                    named.name,
                    escape(named.does),
                    escape(named.cure)
                );
            }
        }
        if finding.contradicted > 0 {
            let right = finding.contradicted;
            let _ = writeln!(
                out,
                "<p>Not everywhere: {right} answers are right in which it would have shown.</p>"
            );
        }
        let answers: Vec<String> =
            finding.answers.iter().map(|name| format!("<code>{}</code>", escape(name))).collect();
        let _ = writeln!(out, "<p>Answers: {}</p></section>", answers.join(" "));
    }
    out.push_str("<h2>Every answer</h2>\n<table><thead><tr><th>case<th>type<th>verdict<th>precision, or what is off</tr></thead><tbody>\n");
    for verdict in &report.verdicts {
        let _ = writeln!(
            out,
            "<tr class=\"{}\"><td>{}<td>{}<td>{}<td>{}</tr>",
            word(&verdict.outcome).replace(' ', "-").to_lowercase(),
            escape(&verdict.case),
            verdict.dtype.map_or("", Dtype::name),
            word(&verdict.outcome).to_lowercase(),
            escape(&words(verdict))
        );
    }
    out.push_str("</tbody></table>\n</main></body></html>\n");
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

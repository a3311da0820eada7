//! The page: parts in the order they are read.

use super::digest::{self, groups, labels};
use super::figures::{self, Against};
use super::{description, notes, tables, verdict};
use crate::chart::{self, Figure, escape};
use crate::results::{Results, TaskResult, Timings};
use std::fmt::Write;

/// Pixels of a plot in the text, on a phone, and as a file.
const WIDE: f64 = 736.0;
const NARROW: f64 = 360.0;
const FILE: f64 = 800.0;

/// A report: the page, and the names and texts of the figures beside it.
pub(super) struct Page<'a> {
    results: &'a Results,
    timings: &'a Timings,
    header: String,
    body: String,
    contents: Vec<(String, String)>,
    pub files: Vec<(String, String)>,
}

impl<'a> Page<'a> {
    pub fn new(results: &'a Results, timings: &'a Timings) -> Self {
        let mut page = Page {
            results,
            timings,
            header: String::new(),
            body: String::new(),
            contents: Vec::new(),
            files: Vec::new(),
        };
        page.opening();
        for (index, task) in results.tasks.iter().enumerate() {
            page.task(index, task);
        }
        page.learned();
        page.end();
        page
    }

    /// The whole file.
    pub fn html(&self) -> String {
        let links: String = self
            .contents
            .iter()
            .map(|(id, title)| format!("<li><a href=\"#{id}\">{}</a></li>", escape(title)))
            .collect();
        let (style, page_style, script) = (chart::STYLE, include_str!("page.css"), include_str!("page.js"));
        let header = &self.header;
        let (chips, body) = (self.chips(labels(self.results).into_iter().enumerate()), &self.body);
        format!(
            "<!DOCTYPE html>
<html lang=\"en\" class=\"no-script\" data-against=\"steps\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>Position encodings compared</title>
<link rel=\"icon\" href=\"data:,\">
<style>
{style}
{page_style}</style>
</head>
<body>
<div class=\"page\">
{header}<nav aria-label=\"Contents\">
<h2>Contents</h2>
<ul>{links}</ul>
<h2 class=\"encodings\">Encodings</h2>
{chips}</nav>
<main>
{body}</main>
</div>
<div id=\"tip\" aria-hidden=\"true\"></div>
<script>
{script}</script>
</body>
</html>
"
        )
    }

    /// Buttons that light an encoding in all plots.
    fn chips<'b>(&self, encodings: impl Iterator<Item = (usize, &'b str)>) -> String {
        let chip = |(look, label): (usize, &str)| {
            let (key, name) = (escape(label), tables::named(label, Some(look)));
            format!(
                "<button class=\"chip\" type=\"button\" data-key=\"{key}\" aria-pressed=\"false\">{name}</button>"
            )
        };
        format!("<div class=\"chips\">{}</div>\n", encodings.map(chip).collect::<String>())
    }

    fn say(&mut self, text: impl AsRef<str>) {
        self.body.push_str(text.as_ref());
        self.body.push('\n');
    }

    /// A paragraph, if there is something in it.
    fn paragraph(&mut self, class: &str, text: &str) {
        if !text.is_empty() {
            self.say(format!("<p class=\"{class}\">{}</p>", prose(text)));
        }
    }

    fn heading(&mut self, id: &str, title: &str, tag: &str) {
        self.contents.push((id.into(), title.into()));
        self.say(format!("<h2 id=\"{id}\">{}{tag}</h2>", escape(title)));
    }

    fn opening(&mut self) {
        let results = self.results;
        self.say("<h1>Position encodings compared</h1>");
        let lead = notes::lead(results);
        self.paragraph("lead", &lead);
        self.say("<ol class=\"findings\">");
        for sentence in verdict::opening(results) {
            let link = match sentence.task {
                Some(index) => format!(" <a href=\"#task-{index}-comparisons\">See the table</a>"),
                None => String::new(),
            };
            self.say(format!("<li>{}{link}</li>", prose(&sentence.text)));
        }
        self.say("</ol>");
        self.header = format!("<header>\n{}</header>\n", std::mem::take(&mut self.body));
        if results.tasks.iter().any(|task| !task.runs.is_empty()) {
            self.heading("glance", "At a glance", "");
            let table = tables::glance(results);
            self.say(format!("<div class=\"glance\">{table}</div>"));
            let baseline = escape(digest::baseline(results));
            self.say(format!(
                "<p class=\"soft\">Against {baseline}: ▲ better, ▼ worse, = tie by an equivalence test, ? not enough seeds to say. Without a sign it was not judged. Grey bars: the encoding did not learn the task.</p>"
            ));
        }
    }

    fn task(&mut self, index: usize, task: &TaskResult) {
        let results = self.results;
        let tag = if task.is_control { "<span class=\"tag\">control</span>" } else { "" };
        let id = format!("task-{index}");
        self.heading(&id, &task.name, tag);
        self.paragraph("isolates", &task.isolates);
        if task.runs.is_empty() {
            self.paragraph("soft", "No runs.");
        }
        let file = |what: &str| format!("{}-{}-{what}.svg", index + 1, file_name(&task.name));
        if let Some(figure) = figures::by_length(results, task) {
            let title = if task.is_language { "Loss by length" } else { "Accuracy by length" };
            self.say(format!("<h3>{title}</h3>"));
            self.paragraph("verdict", &verdict::by_length(results, task));
            let caption = notes::by_length(results, task);
            let drawn = self.lines(task, &figure);
            self.figure(file("length"), figure.file(FILE), &drawn, &caption);
        }
        self.loss(task, &file("loss"));
        if !task.comparisons.is_empty() {
            self.say(format!("<h3 id=\"{id}-comparisons\">Comparisons</h3>"));
            let table = tables::comparisons(results, task);
            self.say(format!("<div class=\"comparisons wide-table\">{table}</div>"));
        } else {
            // The opening sentences lead here.
            self.say(format!(
                "<p id=\"{id}-comparisons\" class=\"soft\">Nothing was compared on this task.</p>"
            ));
        }
        if let Some(figure) = figures::by_context(results, task) {
            self.say("<h3>The same targets with more context</h3>");
            self.paragraph("verdict", &description::of_context(task, &groups(results, task)));
            let drawn = self.lines(task, &figure);
            let caption = "The loss of the same tokens, by how many tokens before them the model sees: what more context is worth, without the easier targets that a longer text brings.";
            self.figure(file("context"), figure.file(FILE), &drawn, caption);
        }
        if let Some(map) = figures::attention(results, task) {
            self.say("<h3>Attention by distance</h3>");
            self.paragraph("verdict", &description::of_attention(&groups(results, task)));
            let drawn = format!(
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"attention by distance\"><div class=\"heat\">{}</div></div>",
                map.inline(WIDE)
            );
            let caption = "Mean attention to the token so many places back, over heads, texts and seeds, at the longest trained length. Shades are even steps of the square root.";
            self.figure(file("attention"), map.file(FILE), &drawn, caption);
        }
        for (title, said, table) in [
            (
                "Trained with one rule, tested with another",
                description::of_swaps(task),
                tables::swaps(results, task),
            ),
            ("Settings that were tried", String::new(), tables::sweep(results, task)),
        ] {
            if !table.is_empty() {
                self.say(format!("<h3>{title}</h3>"));
                self.paragraph("verdict", &said);
                self.say(table);
            }
        }
    }

    /// The loss, against steps, tokens and seconds.
    fn loss(&mut self, task: &TaskResult, file: &str) {
        let draw = |against| figures::by_step(self.results, task, self.timings, against);
        let Some(by_steps) = draw(Against::Steps) else { return };
        let drawn = [
            (Against::Steps, Some(by_steps.clone())),
            (Against::Tokens, draw(Against::Tokens)),
            (Against::Seconds, draw(Against::Seconds)),
        ];
        let mut inner = String::from("<div class=\"switch\" role=\"group\" aria-label=\"Loss against\">");
        for (against, figure) in &drawn {
            if figure.is_some() {
                let (name, pressed) = (against.name(), *against == Against::Steps);
                let _ = write!(
                    inner,
                    "<button type=\"button\" value=\"{name}\" aria-pressed=\"{pressed}\">{name}</button>"
                );
            }
        }
        inner.push_str("</div>\n");
        for (against, figure) in &drawn {
            let shown = match figure {
                Some(figure) => self.lines(task, figure),
                None => "<p class=\"soft\">No times were measured for this task.</p>".into(),
            };
            let _ = write!(inner, "<div data-against=\"{}\">{shown}</div>", against.name());
        }
        self.say("<h3>Loss as it fell</h3>");
        self.paragraph("verdict", &verdict::by_step(self.results, task));
        let caption = "Mean training loss since the point before; thin lines are single seeds. Seconds are measured on this machine, a run's spread evenly over its steps; they are shown and never judged.";
        self.figure(file.into(), by_steps.file(FILE), &inner, caption);
    }

    /// A figure of lines for wide and narrow windows; the narrow one has a legend above it.
    fn lines(&self, task: &TaskResult, figure: &Figure) -> String {
        let groups = groups(self.results, task);
        let chips = self.chips(groups.iter().map(|group| (group.look, group.label)));
        let narrow = Figure { columns: 1, ..figure.clone() };
        format!(
            "<div class=\"wide\">{}</div>\n<div class=\"narrow\">{chips}{}</div>\n",
            figure.inline(WIDE),
            narrow.inline(NARROW)
        )
    }

    fn figure(&mut self, file: String, alone: String, drawn: &str, caption: &str) {
        let caption = prose(caption);
        self.say(format!("<figure>\n{drawn}<figcaption>{caption} <a href=\"figures/{file}\">As a file</a></figcaption>\n</figure>"));
        self.files.push((file, alone));
    }

    /// What encodings learned, over all tasks.
    fn learned(&mut self) {
        let results = self.results;
        let Some(figure) = figures::learned(results) else { return };
        self.heading("learned", "What the encodings learned of themselves", "");
        self.paragraph("verdict", &description::of_learned(results));
        let narrow = Figure { columns: 1, ..figure.clone() };
        let drawn = format!(
            "<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n",
            figure.inline(WIDE),
            narrow.inline(NARROW)
        );
        let caption = "Parameters of the encodings themselves after training, by layer; thin lines are single seeds. Shown, not tested.";
        self.figure("learned.svg".into(), figure.file(FILE), &drawn, caption);
    }

    /// Fairness, settings, what was not tested, and where the numbers are.
    fn end(&mut self) {
        let (results, timings) = (self.results, self.timings);
        let ledger = tables::ledger(results, timings);
        if !ledger.is_empty() {
            self.heading("fairness", "The fairness ledger", "");
            self.say("<p>Every encoding has the same model, the same initial values of all that it shares with the others, the same batches in the same order and the same number of steps, and chose its learning rate from the same values on a seed of its own. What differs is here.</p>");
            self.say(ledger);
        }
        for (id, title, content) in [
            ("method", "How it was judged", notes::method(results)),
            ("settings", "Settings", notes::settings(results, timings)),
            ("untested", "What was not tested", notes::untested(results)),
            ("trace", "Where every number is from", notes::trace(results)),
        ] {
            self.heading(id, title, "");
            self.say(content);
        }
    }
}

/// Text as HTML, with what stands in backticks set apart: the names of encodings and tasks.
fn prose(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { format!("<b>{part}</b>") } else { part.into() }).collect()
}

/// A name that is safe as a part of a file's: letters, digits and hyphens.
fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(40).map(safe).collect();
    if name.is_empty() { "task".into() } else { name }
}

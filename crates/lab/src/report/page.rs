//! The page: parts in the order they are read.

use super::digest::{self, groups, labels};
use super::figures::{self, Against};
use super::words::stored;
use super::{description, notes, sizes, tables, verdict};
use crate::chart::{self, Figure, escape};
use crate::results::{Results, TaskResult, Timings};
use roformer::language::Language;
use std::fmt::Write;

/// Pixels of a plot in the text, on a phone, and as a file.
const WIDE: f64 = 736.0;
const NARROW: f64 = 360.0;
const FILE: f64 = 800.0;

/// From so many encodings on, pictures on the page have less detail than the files beside it: with all of it a page of twenty
/// encodings and ten tasks would have more than ten megabytes, most of them points of single seeds.
const CROWDED: usize = 9;
/// The points of a picture, and the columns of a heat map, of such a page.
const POINTS: usize = 260;
const COLUMNS: usize = 8;

/// A report: the page, and the names and texts of the figures beside it.
pub(super) struct Page<'a> {
    language: Language,
    results: &'a Results,
    timings: &'a Timings,
    header: String,
    body: String,
    contents: Vec<(String, String)>,
    pub files: Vec<(String, String)>,
}

impl<'a> Page<'a> {
    pub fn new(language: Language, results: &'a Results, timings: &'a Timings) -> Self {
        let mut page = Page {
            language,
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
        let (tag, title) = (self.language.tag(), self.title());
        let [contents, encodings] = self.language.of(["Contents", "Encodings"], ["目录", "位置编码"]);
        let (chips, body) = (self.chips(labels(self.results).into_iter().enumerate()), &self.body);
        format!(
            "<!DOCTYPE html>
<html lang=\"{tag}\" class=\"no-script\" data-against=\"steps\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>{title}</title>
<link rel=\"icon\" href=\"data:,\">
<style>
{style}
{page_style}</style>
</head>
<body>
<div class=\"page\">
{header}<nav aria-label=\"{contents}\">
<h2>{contents}</h2>
<ul>{links}</ul>
<h2 class=\"encodings\">{encodings}</h2>
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

    /// Whether there are so many encodings that pictures have less detail.
    fn is_crowded(&self) -> bool {
        labels(self.results).len() >= CROWDED
    }

    fn title(&self) -> &'static str {
        self.language.of("Position encodings compared", "位置编码的比较")
    }

    /// A heading within a part.
    fn subheading(&mut self, english: &str, chinese: &str) {
        self.say(format!("<h3>{}</h3>", self.language.of(english, chinese)));
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
        let language = self.language;
        self.say(format!("<h1>{}</h1>", self.title()));
        let lead = notes::lead(language, results);
        self.paragraph("lead", &lead);
        self.say("<ol class=\"findings\">");
        for sentence in verdict::opening(language, results) {
            let link = match sentence.task {
                Some(index) => {
                    let see = language.of("See the table", "见表");
                    format!(" <a href=\"#task-{index}-comparisons\">{see}</a>")
                }
                None => String::new(),
            };
            self.say(format!("<li>{}{link}</li>", prose(&sentence.text)));
        }
        self.say("</ol>");
        self.header = format!("<header>\n{}</header>\n", std::mem::take(&mut self.body));
        if results.tasks.iter().any(|task| !task.runs.is_empty()) {
            self.heading("glance", language.of("At a glance", "总览"), "");
            self.say(tables::filter(language));
            let table = tables::glance(language, results);
            self.say(format!("<div class=\"glance\">{table}</div>"));
            let baseline = escape(digest::baseline(language, results));
            let signs = language.of(
                format!("Against {baseline}: ▲ better, ▼ worse, = tie by an equivalence test, ? not enough seeds to say. Without a sign it was not judged. Grey bars: the encoding did not learn the task."),
                format!("与 {baseline} 相比：▲ 更好，▼ 更差，= 经等价检验持平，? 种子太少，无法判断。没有符号的未作判断。灰色条：该位置编码没有学会这个任务。"),
            );
            self.say(format!("<p class=\"soft\">{signs}</p>"));
        }
    }

    fn task(&mut self, index: usize, task: &TaskResult) {
        let (language, results) = (self.language, self.results);
        let tag = match task.is_control {
            true => format!("<span class=\"tag\">{}</span>", language.of("control", "对照")),
            false => String::new(),
        };
        let id = format!("task-{index}");
        self.heading(&id, &task.name, &tag);
        self.paragraph("isolates", &stored(language, &task.isolates));
        if task.runs.is_empty() {
            self.paragraph("soft", language.of("No runs.", "没有训练结果。"));
        }
        let file = |what: &str| format!("{}-{}-{what}.svg", index + 1, file_name(&task.name));
        if let Some(figure) = figures::by_length(language, results, task) {
            match task.is_language {
                true => self.subheading("Loss by length", "损失与长度"),
                false => self.subheading("Accuracy by length", "正确率与长度"),
            }
            self.paragraph("verdict", &verdict::by_length(language, results, task));
            let caption = notes::by_length(language, results, task);
            let drawn = self.lines(task, &figure);
            self.figure(file("length"), figure.file(FILE), &drawn, &caption);
        }
        self.loss(task, &file("loss"));
        if !task.comparisons.is_empty() {
            self.say(format!("<h3 id=\"{id}-comparisons\">{}</h3>", language.of("Comparisons", "比较")));
            let table = tables::comparisons(language, results, task);
            self.say(format!("<div class=\"comparisons wide-table\">{table}</div>"));
        } else {
            // The opening sentences lead here.
            let nothing = language.of("Nothing was compared on this task.", "这个任务上没有作比较。");
            self.say(format!("<p id=\"{id}-comparisons\" class=\"soft\">{nothing}</p>"));
        }
        let ranking = tables::ranking(language, results, task);
        if !ranking.is_empty() {
            self.subheading("Places", "名次");
            let what = language.of(
                "Every two encodings are compared, with Holm's correction over all pairs: 2–4 means that one is surely better, and so many surely worse that place 4 is its last. Where places overlap, the seeds do not tell those encodings apart.",
                "所有位置编码两两比较，对全部组合作 Holm 校正：2–4 表示确有一种更好，并且有足够多的确实更差，至多排到第 4 名。名次有重叠之处，现有种子无法把它们区分开。",
            );
            self.say(format!("<p class=\"soft\">{what}</p>"));
            self.say(ranking);
        }
        if let Some(figure) = figures::by_context(language, results, task) {
            self.subheading("The same targets with more context", "同样的目标，更长的上下文");
            self.paragraph("verdict", &description::of_context(language, task, &groups(results, task)));
            let drawn = self.lines(task, &figure);
            let caption = language.of(
                "The loss of the same tokens, by how many tokens before them the model sees: what more context is worth, without the easier targets that a longer text brings.",
                "同样一些 token 的损失，随模型在它们之前能看到多少 token 而变：这是更长上下文本身的价值，排除了更长的文本带来更容易的目标。",
            );
            self.figure(file("context"), figure.file(FILE), &drawn, caption);
        }
        if let Some(map) = figures::attention(language, results, task) {
            self.subheading("Attention by distance", "注意力与相对距离");
            self.paragraph("verdict", &description::of_attention(language, &groups(results, task)));
            let label = language.of("attention by distance", "注意力与相对距离");
            let drawn = format!(
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><div class=\"heat\">{}</div></div>",
                if self.is_crowded() { map.lighter(COLUMNS) } else { map.clone() }.inline(WIDE)
            );
            let caption = language.of(
                "Mean attention to the token so many places back, over heads, texts and seeds, at the longest trained length. Shades are even steps of the square root.",
                "对往回若干位置的 token 的平均注意力，对头、文本和种子取平均，取训练过的最长长度。颜色深浅按平方根等分。",
            );
            self.figure(file("attention"), map.file(FILE), &drawn, caption);
        }
        for (english, chinese, said, table) in [
            (
                "Trained with one rule, tested with another",
                "用一种规则训练，换一种规则测试",
                description::of_swaps(language, task),
                tables::swaps(language, results, task),
            ),
            ("Settings that were tried", "试过的设置", String::new(), tables::sweep(language, results, task)),
        ] {
            if !table.is_empty() {
                self.subheading(english, chinese);
                self.paragraph("verdict", &said);
                self.say(table);
            }
        }
    }

    /// The loss, against steps, tokens and seconds.
    fn loss(&mut self, task: &TaskResult, file: &str) {
        let language = self.language;
        let draw = |against| figures::by_step(language, self.results, task, self.timings, against);
        let Some(by_steps) = draw(Against::Steps) else { return };
        let drawn = [
            (Against::Steps, Some(by_steps.clone())),
            (Against::Tokens, draw(Against::Tokens)),
            (Against::Seconds, draw(Against::Seconds)),
        ];
        let label = language.of("Loss against", "横轴");
        let mut inner = format!("<div class=\"switch\" role=\"group\" aria-label=\"{label}\">");
        for (against, figure) in &drawn {
            if figure.is_some() {
                let (name, pressed) = (against.name(), *against == Against::Steps);
                let shown = against.shown(language);
                let _ = write!(
                    inner,
                    "<button type=\"button\" value=\"{name}\" aria-pressed=\"{pressed}\">{shown}</button>"
                );
            }
        }
        inner.push_str("</div>\n");
        for (against, figure) in &drawn {
            let shown = match figure {
                // The same lines over another axis: without the seeds, which the first shows.
                Some(figure) if self.is_crowded() && *against != Against::Steps => {
                    figure.lighter(POINTS).plain().inline(WIDE)
                }
                Some(figure) => self.lines(task, figure),
                None => format!(
                    "<p class=\"soft\">{}</p>",
                    language.of("No times were measured for this task.", "这个任务没有测量时间。")
                ),
            };
            let _ = write!(inner, "<div data-against=\"{}\">{shown}</div>", against.name());
        }
        self.subheading("Loss as it fell", "损失的下降");
        self.paragraph("verdict", &verdict::by_step(language, self.results, task));
        let caption = language.of(
            "Mean training loss since the point before; thin lines are single seeds. Seconds are measured on this machine, a run's spread evenly over its steps; they are shown and never judged.",
            "自上一点以来的平均训练损失；细线是单个种子。秒数在本机测得，一次训练的用时平均分到每一步；只展示，不评判。",
        );
        self.figure(file.into(), by_steps.file(FILE), &inner, caption);
    }

    /// A figure of lines for wide and narrow windows; the narrow one has a legend above it.
    fn lines(&self, task: &TaskResult, figure: &Figure) -> String {
        let groups = groups(self.results, task);
        let chips = self.chips(groups.iter().map(|group| (group.look, group.label)));
        let (mut wide, mut narrow) = (figure.clone(), Figure { columns: 1, ..figure.clone() });
        if self.is_crowded() {
            (wide, narrow) = (figure.lighter(POINTS), narrow.lighter(POINTS).plain());
        }
        format!(
            "<div class=\"wide\">{}</div>\n<div class=\"narrow\">{chips}{}</div>\n",
            wide.inline(WIDE),
            narrow.inline(NARROW)
        )
    }

    fn figure(&mut self, file: String, alone: String, drawn: &str, caption: &str) {
        let (caption, alone_name) = (prose(caption), self.language.of("As a file", "单独的文件"));
        self.say(format!("<figure>\n{drawn}<figcaption>{caption} <a href=\"figures/{file}\">{alone_name}</a></figcaption>\n</figure>"));
        self.files.push((file, alone));
    }

    /// What encodings learned, over all tasks.
    fn learned(&mut self) {
        let (language, results) = (self.language, self.results);
        let Some(figure) = figures::learned(language, results) else { return };
        let title = language.of("What the encodings learned of themselves", "位置编码自身学到了什么");
        self.heading("learned", title, "");
        self.paragraph("verdict", &description::of_learned(language, results));
        let narrow = Figure { columns: 1, ..figure.clone() };
        let drawn = format!(
            "<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n",
            figure.inline(WIDE),
            narrow.inline(NARROW)
        );
        let caption = language.of(
            "Parameters of the encodings themselves after training, by layer; thin lines are single seeds. Shown, not tested.",
            "训练之后位置编码自身的参数，按层；细线是单个种子。仅供观察，未作检验。",
        );
        self.figure("learned.svg".into(), figure.file(FILE), &drawn, caption);
    }

    /// Fairness, settings, what was not tested, and where the numbers are.
    fn end(&mut self) {
        let (language, results, timings) = (self.language, self.results, self.timings);
        let pilots = sizes::pilots(language, results);
        if !pilots.is_empty() {
            self.heading("sizes", language.of("How large the models are", "模型的规模"), "");
            self.say(pilots);
        }
        let ledger = tables::ledger(language, results, timings);
        if !ledger.is_empty() {
            self.heading("fairness", language.of("The fairness ledger", "公平性账目"), "");
            let same = language.of(
                "Every encoding has the same model, the same initial values of all that it shares with the others, the same batches in the same order and the same number of steps",
                "每种位置编码用同样的模型，凡与其他编码共有的参数初始值都相同，批次及其次序相同，步数相同",
            );
            let rate = match results.plan.rates.len() {
                1 => language.of(" and the same learning rate. What differs is here.", "，学习率也相同。不同之处都列在这里。"),
                _ => language.of(
                    ", and chose its learning rate from the same values on a seed of its own. What differs is here.",
                    "，并且都在一个单独的种子上从同样的几个值里选出学习率。不同之处都列在这里。",
                ),
            };
            self.say(format!("<p>{same}{rate}</p>"));
            self.say(ledger);
        }
        for (id, title, content) in [
            ("method", language.of("How it was judged", "怎样评判"), notes::method(language, results)),
            ("settings", language.of("Settings", "设置"), notes::settings(language, results, timings)),
            (
                "untested",
                language.of("What was not tested", "没有测试的内容"),
                notes::untested(language, results),
            ),
            (
                "trace",
                language.of("Where every number is from", "每个数字的出处"),
                notes::trace(language, results),
            ),
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

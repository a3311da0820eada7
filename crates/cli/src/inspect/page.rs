//! The page that `roformer inspect` prints for people.

use crate::tasks::show::{pad, pad_left};
use roformer::advice::Advice;
use roformer::inspect::{Band, Report, Training, Turning, brief};
use roformer::language::Language;
use std::fmt::Display;
use std::io::{Result, Write};

/// Prints the page. The language is that of the report's own sentences.
pub fn print(out: &mut impl Write, report: &Report, language: Language) -> Result<()> {
    Page { out, language }.report(report)
}

struct Page<'a, W: Write> {
    out: &'a mut W,
    language: Language,
}

impl<W: Write> Page<'_, W> {
    /// A fact with its name before it.
    fn fact(&mut self, english: &str, chinese: &str, fact: impl Display) -> Result<()> {
        writeln!(self.out, "{} {fact}", pad(self.language.of(english, chinese), 12))
    }

    fn report(&mut self, report: &Report) -> Result<()> {
        let language = self.language;
        // Names come from the file: control characters are shown, not sent to the terminal.
        let model = report.model_type.as_deref().unwrap_or(language.of("unknown", "未知")).escape_debug();
        self.fact("model type", "模型类型", model)?;
        match &report.other_encoding {
            Some(encoding) => self.fact("positions", "位置编码", encoding.escape_debug())?,
            None => self.fact("pairing", "配对方式", report.pairing)?,
        }
        if let Some(longest) = report.max_position_embeddings {
            let takes = language.of(format!("{longest} tokens"), format!("{longest} 个 token"));
            let from = language.of(" (max_position_embeddings)", "（max_position_embeddings）");
            self.fact("takes", "最大长度", takes + from)?;
        }
        for warning in &report.warnings {
            self.fact("note", "注意", warning)?;
        }
        if report.other_encoding.is_some() {
            let nothing = language.of(
                "This model is not read as a rotary one: there is nothing to turn.",
                "这个模型不按旋转位置编码读取：没有可旋转的东西。",
            );
            return writeln!(self.out, "\n{nothing}");
        }
        for layer in &report.layers {
            writeln!(self.out)?;
            if let Some(name) = &layer.layer_type {
                writeln!(self.out, "== {}", name.escape_debug())?;
            }
            match &layer.turning {
                Some(turning) => self.turning(turning)?,
                None => writeln!(self.out, "{}", language.of("no rotary embedding", "没有旋转位置编码"))?,
            }
        }
        Ok(())
    }

    fn turning(&mut self, turning: &Turning) -> Result<()> {
        self.fact("rule", "规则", &turning.rule)?;
        self.fact("base", "底数", turning.base)?;
        self.fact("head", "注意力头", &turning.head)?;
        let factor = turning.attention_factor;
        if factor != 1.0 {
            let scaled = self.language.of(
                format!("rotated vectors are scaled by {factor:.6}, scores by its square"),
                format!("旋转后的向量乘以 {factor:.6}，注意力分数乘以它的平方"),
            );
            self.fact("attention", "注意力系数", scaled)?;
        }
        writeln!(self.out)?;
        self.bands(&turning.bands, turning.length)?;
        writeln!(self.out)?;
        if let (Some(training), Some(length)) = (&turning.training, turning.length) {
            self.pairs(turning, training, length)?;
            writeln!(self.out)?;
            for finding in &training.findings {
                writeln!(self.out, "- {finding}")?;
            }
        }
        if let Some(advice) = &turning.advice {
            self.advice(advice)?;
        }
        Ok(())
    }

    fn bands(&mut self, bands: &[Band], length: Option<u64>) -> Result<()> {
        let language = self.language;
        let turns = length.map_or(String::new(), |length| {
            language.of(format!("turns in {length}"), format!("{length} 内的圈数"))
        });
        let pairs = pad(language.of("pairs", "维度对"), 9);
        let waves = pad_left(language.of("wavelength, tokens", "波长（token）"), 21);
        let does = language.of("what the rule does", "规则的作用");
        writeln!(self.out, "{pairs} {waves} {}   {does}", pad_left(&turns, 23))?;
        for Band { pairs: [first, last], wavelengths, turns, change } in bands {
            let range = |a: String, b: String| if first == last { a } else { format!("{a} – {b}") };
            let numbers = |[a, b]: [f64; 2]| range(brief(a), brief(b));
            let which = range(first.to_string(), last.to_string());
            let (waves, turned) = (numbers(*wavelengths), turns.map_or(String::new(), numbers));
            writeln!(self.out, "{which:<9} {waves:>21} {turned:>23}   {change}")?;
        }
        Ok(())
    }

    /// A few pairs from fast to slow: how much of the circle each saw in training.
    fn pairs(&mut self, turning: &Turning, training: &Training, length: u64) -> Result<()> {
        let (language, pairs, trained) = (self.language, &turning.pairs, training.length);
        let pair = pad(language.of("pair", "第几对"), 6);
        let wave = pad_left(language.of("wavelength", "波长"), 12);
        let turns = language.of(format!("turns in {length}"), format!("{length} 内的圈数"));
        let seen = language
            .of(format!("circle seen in training at {trained}"), format!("训练长度 {trained} 内见过的圆周"));
        writeln!(self.out, "{pair}{:>12}  {wave}  {}  {seen}", "θ", pad_left(&turns, 20))?;
        let rows = 9.min(pairs.len());
        for row in 0..rows {
            let index = if rows > 1 { row * (pairs.len() - 1) / (rows - 1) } else { 0 };
            let pair = &pairs[index];
            let (theta, wavelength) = (pair.theta, brief(pair.wavelength));
            let (turns, covered) = (pair.turns.map_or(String::new(), brief), pair.seen.unwrap_or(0.0));
            let bar: String =
                (0..20).map(|i| if f64::from(i) < covered * 20.0 { '█' } else { '·' }).collect();
            let percent = format!("{:>3.0} %", covered * 100.0);
            // Fonts with Chinese characters may draw the bar wider: there it stands last.
            let seen = language.of(format!("{bar} {percent}"), format!("{percent}  {bar}"));
            writeln!(self.out, "{index:>4}  {theta:>12.6e}  {wavelength:>12}  {turns:>20}  {seen}")?;
        }
        Ok(())
    }

    fn advice(&mut self, advice: &Advice) -> Result<()> {
        let language = self.language;
        let Advice { trained, context, candidates, verdict, settings } = advice;
        let times = brief(*context as f64 / *trained as f64);
        let at = language.of(
            format!("at {context} tokens, {times} times the {trained} of training:"),
            format!("在 {context} 个 token 时，即训练长度 {trained} 的 {times} 倍："),
        );
        writeln!(self.out, "\n{at}")?;
        let heads = language.of(
            [
                ["", "unseen", "unchanged", "neighbours", "attention"],
                ["rule", "pairs", "pairs", "closer by", "factor"],
            ],
            [
                ["", "转到没见过", "保持不变", "相邻 token", "注意力"],
                ["规则", "的角度的对", "的对", "角度差除以", "系数"],
            ],
        );
        for [name, unseen, kept, crowding, factor] in heads {
            writeln!(
                self.out,
                "{} {} {} {} {}",
                pad(name, 21),
                pad_left(unseen, 12),
                pad_left(kept, 11),
                pad_left(crowding, 17),
                pad_left(factor, 10)
            )?;
        }
        for rule in candidates {
            writeln!(
                self.out,
                "{} {:>12} {:>11} {:>17} {:>10.4}",
                pad(rule.name, 21),
                rule.unseen,
                rule.kept,
                brief(rule.crowding),
                rule.attention_factor
            )?;
        }
        writeln!(self.out, "\n{}{verdict}", language.of("advice: ", "建议："))?;
        for setting in settings {
            let (open, close) = language.of((" (", ")"), ("（", "）"));
            writeln!(self.out, "\n{}{open}{}{close}", setting.tool, setting.reason)?;
            for line in setting.text.lines() {
                writeln!(self.out, "    {line}")?;
            }
        }
        Ok(())
    }
}

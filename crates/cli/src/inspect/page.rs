//! The page that `roformer inspect` prints for people.

use roformer::advice::Advice;
use roformer::inspect::{Band, Report, Training, Turning, brief};
use std::io::{Result, Write};

/// Prints the page.
pub fn print(out: &mut impl Write, report: &Report) -> Result<()> {
    // Names come from the file: control characters are shown, not sent to the terminal.
    let model = report.model_type.as_deref().unwrap_or("unknown").escape_debug();
    writeln!(out, "model type   {model}")?;
    match &report.other_encoding {
        Some(encoding) => writeln!(out, "positions    {}", encoding.escape_debug())?,
        None => writeln!(out, "pairing      {}", report.pairing)?,
    }
    if let Some(longest) = report.max_position_embeddings {
        writeln!(out, "takes        {longest} tokens (max_position_embeddings)")?;
    }
    for warning in &report.warnings {
        writeln!(out, "note         {warning}")?;
    }
    if report.other_encoding.is_some() {
        return writeln!(out, "\nThis model is not read as a rotary one: there is nothing to turn.");
    }
    for layer in &report.layers {
        writeln!(out)?;
        if let Some(name) = &layer.layer_type {
            writeln!(out, "== {}", name.escape_debug())?;
        }
        match &layer.turning {
            Some(turning) => self::turning(out, turning)?,
            None => writeln!(out, "no rotary embedding")?,
        }
    }
    Ok(())
}

fn turning(out: &mut impl Write, turning: &Turning) -> Result<()> {
    writeln!(out, "rule         {}", turning.rule)?;
    writeln!(out, "base         {}", turning.base)?;
    writeln!(out, "head         {}", turning.head)?;
    let factor = turning.attention_factor;
    if factor != 1.0 {
        writeln!(out, "attention    rotated vectors are scaled by {factor:.6}, scores by its square")?;
    }
    writeln!(out)?;
    bands_table(out, &turning.bands, turning.length)?;
    writeln!(out)?;
    if let (Some(training), Some(length)) = (&turning.training, turning.length) {
        pairs_table(out, turning, training, length)?;
        writeln!(out)?;
        for finding in &training.findings {
            writeln!(out, "- {finding}")?;
        }
    }
    if let Some(advice) = &turning.advice {
        advice_table(out, advice)?;
    }
    Ok(())
}

fn bands_table(out: &mut impl Write, bands: &[Band], length: Option<u64>) -> Result<()> {
    let heading = length.map_or(String::new(), |length| format!("turns in {length}"));
    writeln!(out, "{:<9} {:>21} {:>23}   what the rule does", "pairs", "wavelength, tokens", heading)?;
    for Band { pairs: [first, last], wavelengths, turns, change } in bands {
        let range = |a: String, b: String| if first == last { a } else { format!("{a} – {b}") };
        let numbers = |[a, b]: [f64; 2]| range(brief(a), brief(b));
        let which = range(first.to_string(), last.to_string());
        let (waves, turned) = (numbers(*wavelengths), turns.map_or(String::new(), numbers));
        writeln!(out, "{which:<9} {waves:>21} {turned:>23}   {change}")?;
    }
    Ok(())
}

/// A few pairs from fast to slow: how much of the circle each saw in training.
fn pairs_table(out: &mut impl Write, turning: &Turning, training: &Training, length: u64) -> Result<()> {
    let pairs = &turning.pairs;
    let turns = format!("turns in {length}");
    let trained = training.length;
    writeln!(out, "pair             θ    wavelength  {turns:>20}  circle seen in training at {trained}")?;
    let rows = 9.min(pairs.len());
    for row in 0..rows {
        let index = if rows > 1 { row * (pairs.len() - 1) / (rows - 1) } else { 0 };
        let pair = &pairs[index];
        let (theta, wavelength) = (pair.theta, brief(pair.wavelength));
        let (turns, covered) = (pair.turns.map_or(String::new(), brief), pair.seen.unwrap_or(0.0));
        let bar: String = (0..20).map(|i| if f64::from(i) < covered * 20.0 { '█' } else { '·' }).collect();
        let percent = covered * 100.0;
        writeln!(out, "{index:>4}  {theta:>12.6e}  {wavelength:>12}  {turns:>20}  {bar} {percent:>3.0} %")?;
    }
    Ok(())
}

fn advice_table(out: &mut impl Write, advice: &Advice) -> Result<()> {
    let Advice { trained, context, candidates, verdict, settings } = advice;
    writeln!(out)?;
    writeln!(
        out,
        "at {context} tokens, {} times the {trained} of training:",
        brief(*context as f64 / *trained as f64)
    )?;
    writeln!(
        out,
        "{:<21} {:>12} {:>11} {:>17} {:>10}",
        "", "unseen", "unchanged", "neighbours", "attention"
    )?;
    writeln!(out, "{:<21} {:>12} {:>11} {:>17} {:>10}", "rule", "pairs", "pairs", "closer by", "factor")?;
    for rule in candidates {
        writeln!(
            out,
            "{:<21} {:>12} {:>11} {:>17} {:>10.4}",
            rule.name,
            rule.unseen,
            rule.kept,
            brief(rule.crowding),
            rule.attention_factor
        )?;
    }
    writeln!(out)?;
    writeln!(out, "advice: {verdict}")?;
    for setting in settings {
        writeln!(out)?;
        writeln!(out, "{} ({})", setting.tool, setting.reason)?;
        for line in setting.text.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

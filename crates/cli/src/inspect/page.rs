//! The page that `roformer inspect` prints for people.

use roformer::advice::{Advice, advise};
use roformer::bands::{Band, Change, Seen, bands, single_precision_error, slowdown};
use rope::analysis::{PairReport, first_negative, pairs};
use rope::{Axes, HfConfig, HfLayer, Pairing, Rope, Schedule};
use std::io::{Result, Write};

/// Prints the page.
pub fn print(out: &mut impl Write, config: &HfConfig, context: Option<u64>) -> Result<()> {
    // Names come from the file: control characters are shown, not sent to the terminal.
    let model = config.model_type.as_deref().unwrap_or("unknown").escape_debug();
    writeln!(out, "model type   {model}")?;
    writeln!(out, "pairing      {}", pairing(config.pairing))?;
    if let Some(longest) = config.max_position_embeddings {
        writeln!(out, "takes        {longest} tokens (max_position_embeddings)")?;
    }
    for warning in &config.warnings {
        writeln!(out, "note         {warning}")?;
    }
    for layer in &config.layers {
        writeln!(out)?;
        if let Some(name) = &layer.layer_type {
            writeln!(out, "== {}", name.escape_debug())?;
        }
        match &layer.rope {
            Some(rope) => self::layer(out, config, layer, rope, context)?,
            None => writeln!(out, "no rotary embedding")?,
        }
    }
    Ok(())
}

fn layer(
    out: &mut impl Write,
    config: &HfConfig,
    layer: &HfLayer,
    rope: &Rope,
    context: Option<u64>,
) -> Result<()> {
    let longest = config.max_position_embeddings;
    let seen = Seen::new(rope, layer.original_length, longest);
    let length = context.or(longest).or(layer.original_length);
    writeln!(out, "rule         {}", describe(rope.schedule()))?;
    writeln!(out, "base         {}", rope.base())?;
    writeln!(out, "head         {}", head(rope))?;
    let factor = rope.frequencies(length).attention_factor();
    if factor != 1.0 {
        writeln!(out, "attention    rotated vectors are scaled by {factor:.6}, scores by its square")?;
    }
    writeln!(out)?;
    bands_table(out, rope, length)?;
    writeln!(out)?;
    if let (Some(seen), Some(length)) = (&seen, length) {
        pairs_table(out, rope, seen, length)?;
        writeln!(out)?;
        findings(out, rope, seen, length)?;
    }
    if let (Some(context), Some(seen)) = (context, &seen) {
        advice_table(out, &advise(rope, layer.layer_type.as_deref(), seen, longest, context))?;
    }
    Ok(())
}

fn pairing(pairing: Option<Pairing>) -> &'static str {
    match pairing {
        Some(Pairing::Interleaved) => "interleaved: features 2j and 2j+1 turn together",
        Some(Pairing::Half) => "half: features j and j + d/2 turn together",
        Some(Pairing::InterleavedToHalf) => "interleaved_to_half: reads 2j and 2j+1, writes j and j + d/2",
        None => "unknown",
    }
}

fn head(rope: &Rope) -> String {
    let (dim, rotary) = (rope.head_dim(), rope.rotary_dim());
    let part =
        if dim == rotary { "all of them turn".to_string() } else { format!("the first {rotary} turn") };
    let axes = match rope.axes() {
        Axes::One => String::new(),
        Axes::Sections(sections) => format!("; axes of a position in sections {sections:?}"),
        Axes::Interleaved(sections) => format!("; axes of a position interleaved, {sections:?}"),
        Axes::Axial { axes } => format!("; {axes} axes with frequencies of their own"),
    };
    format!("{dim} features, {part}: {} pairs{axes}", rope.pairs())
}

/// What a rule does, in words.
fn describe(schedule: &Schedule) -> String {
    let words = match schedule {
        Schedule::Default => "θ_j = base^(−2j/d), at every length".to_string(),
        Schedule::Linear { factor } => format!("every position divided by {factor}"),
        Schedule::NtkAware { factor } => format!("a larger base: the slowest pair {factor} times slower"),
        Schedule::DynamicNtk { factor, trained_length } => {
            format!("beyond {trained_length} tokens the base grows with the length (factor {factor})")
        }
        Schedule::Yarn(yarn) => format!(
            "pairs with {} turns or more within {} kept, with {} or fewer divided by {}",
            yarn.beta_fast, yarn.original_length, yarn.beta_slow, yarn.factor
        ),
        Schedule::LongRope(long) => {
            format!("a divisor of its own for each pair; another list beyond {} tokens", long.original_length)
        }
        Schedule::Llama3(llama) => format!(
            "pairs with {} turns or more within {} kept, with {} or fewer divided by {}",
            llama.high_freq_factor, llama.original_length, llama.low_freq_factor, llama.factor
        ),
        Schedule::Proportional { fraction, factor } => {
            format!(
                "the fastest {:.0} % of the pairs turn, divided by {factor}; the others stand still",
                fraction * 100.0
            )
        }
        other => other.to_string(),
    };
    format!("{}: {words}", schedule.name())
}

fn bands_table(out: &mut impl Write, rope: &Rope, length: Option<u64>) -> Result<()> {
    // Without a length the turns mean nothing and are not shown.
    let reports = pairs(rope.frequencies(length).inv_freq(), length.unwrap_or(0));
    let heading = length.map_or(String::new(), |length| format!("turns in {length}"));
    writeln!(out, "{:<9} {:>21} {:>23}   what the rule does", "pairs", "wavelength, tokens", heading)?;
    for Band { first, last, change } in bands(&slowdown(rope, length)) {
        let range = |a: String, b: String| if first == last { a } else { format!("{a} – {b}") };
        let which = range(first.to_string(), last.to_string());
        let ends = (&reports[first], &reports[last]);
        let waves = range(brief(ends.0.wavelength), brief(ends.1.wavelength));
        let turned = length.map_or(String::new(), |_| range(brief(ends.0.turns), brief(ends.1.turns)));
        let words = match change {
            Change::Kept => "nothing".to_string(),
            Change::Slowed(factor) if factor < 1.0 => format!("{} times faster", brief(1.0 / factor)),
            Change::Slowed(factor) => format!("{} times slower", brief(factor)),
            Change::Blended { from, to } => format!("{} to {} times slower", brief(from), brief(to)),
            Change::Still => "stand still".to_string(),
        };
        writeln!(out, "{which:<9} {waves:>21} {turned:>23}   {words}")?;
    }
    Ok(())
}

/// A few pairs from fast to slow: how much of the circle each saw in training.
fn pairs_table(out: &mut impl Write, rope: &Rope, seen: &Seen, length: u64) -> Result<()> {
    let reports = pairs(rope.frequencies(length).inv_freq(), length);
    let turns = format!("turns in {length}");
    let trained = seen.length;
    writeln!(out, "pair             θ    wavelength  {turns:>20}  circle seen in training at {trained}")?;
    let rows = 9.min(reports.len());
    for row in 0..rows {
        let report = &reports[if rows > 1 { row * (reports.len() - 1) / (rows - 1) } else { 0 }];
        let PairReport { pair, theta, .. } = *report;
        let (wavelength, turns) = (brief(report.wavelength), brief(report.turns));
        let covered = seen.coverage(pair);
        let bar: String = (0..20).map(|i| if f64::from(i) < covered * 20.0 { '█' } else { '·' }).collect();
        let percent = covered * 100.0;
        writeln!(out, "{pair:>4}  {theta:>12.6e}  {wavelength:>12}  {turns:>20}  {bar} {percent:>3.0} %")?;
    }
    Ok(())
}

fn findings(out: &mut impl Write, rope: &Rope, seen: &Seen, length: u64) -> Result<()> {
    let frequencies = rope.frequencies(length);
    let theta = frequencies.inv_freq();
    writeln!(
        out,
        "- {} of {} pairs never completed a turn within the {} tokens of training: beyond it they would reach angles the model has not seen",
        seen.never_turned(),
        theta.len(),
        seen.length
    )?;
    // A longer search than a person waits for is not made.
    let limit = length.min(1 << 22);
    match first_negative(theta, limit) {
        Some(distance) => writeln!(
            out,
            "- the sum of all cosines turns negative at distance {distance}: beyond it like can \
            score below unlike"
        )?,
        None => writeln!(out, "- the sum of all cosines stays positive up to distance {limit}")?,
    }
    let error = single_precision_error(rope, length);
    writeln!(
        out,
        "- angles formed in f32, as transformers forms them, are off by up to {error:.1e} rad at position {}; the \
        tables here by 3e-8 at every position",
        length - 1
    )?;
    if length > 256 {
        writeln!(out, "- positions kept in bf16 cannot tell 256 from 257")?;
    }
    match rope.schedule() {
        Schedule::DynamicNtk { trained_length, .. } => writeln!(
            out,
            "- beyond {trained_length} tokens every new token \
            changes all frequencies: cached keys must be moved along (`Rope::rerotation`) or kept unrotated"
        )?,
        Schedule::LongRope(long) => writeln!(
            out,
            "- crossing {} tokens changes all frequencies at once: cached keys must be \
            moved along (`Rope::rerotation`) or computed again",
            long.original_length
        )?,
        _ => {}
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

/// A number in at most seven characters.
fn brief(value: f64) -> String {
    match value.abs() {
        size if size.is_infinite() => "∞".to_string(),
        size if size >= 1e7 || (size < 1e-3 && size > 0.0) => format!("{value:.1e}"),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

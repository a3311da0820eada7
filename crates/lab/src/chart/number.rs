//! Numbers as people read them.

/// A number in at most four digits that matter: `0.9532`, `1,250`, `1.2e−7`. What is not finite is a dash.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".into();
    }
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return scientific(value, 2);
    }
    let first = if size == 0.0 { 0 } else { size.log10().floor() as i32 };
    let decimals = (3 - first).max(0) as usize;
    fixed(value, decimals, true)
}

/// The same with a sign, as differences are written: `+0.12`, `−0.03`, `0`.
pub fn signed(value: f64) -> String {
    let text = number(value);
    if value > 0.0 && value.is_finite() { format!("+{text}") } else { text }
}

/// A number in three digits that matter and a unit: `920M`, `1.2G`. What is not finite is a dash.
pub fn compact(value: f64) -> String {
    let size = value.abs();
    let unit = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(unit, _)| size >= *unit);
    match unit {
        Some((unit, suffix)) if size < 1e15 => {
            let scaled = value / unit;
            let decimals = if scaled.abs() >= 100.0 {
                0
            } else if scaled.abs() >= 10.0 {
                1
            } else {
                2
            };
            format!("{}{suffix}", fixed(scaled, decimals, true))
        }
        _ => number(value),
    }
}

/// A number with so many decimals, thousands apart and a real minus; zeros at the end go if `is_short`. What is not
/// finite is a dash.
pub fn fixed(value: f64, decimals: usize, is_short: bool) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = if is_short { fraction.trim_end_matches('0') } else { fraction };
    let mut out = String::new();
    // Without a sign where all that is left is zeros.
    if value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        out.push('−');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A number with its power of ten, such as `1.2e−7`.
pub(super) fn scientific(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}e{power}").replace('-', "−")
}

/// The labels of ticks that are `step` apart, all in one unit.
pub(super) fn ticks(values: &[f64], step: f64) -> Vec<String> {
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let (unit, suffix) = match largest {
        size if !(1e-5..1e15).contains(&size) && size != 0.0 || step < 1e-5 => {
            return values
                .iter()
                .map(|&value| if value == 0.0 { "0".into() } else { scientific(value, 3) })
                .collect();
        }
        size if size >= 1e12 => (1e12, "T"),
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    // As many decimals as the step has.
    let decimals = (0..8).find(|&decimals| {
        let scaled = step / unit * 10f64.powi(decimals);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    });
    let decimals = decimals.unwrap_or(8) as usize;
    let label = |value: f64| match value == 0.0 {
        true => "0".into(),
        false => format!("{}{suffix}", fixed(value / unit, decimals, false)),
    };
    values.iter().map(|&value| label(value)).collect()
}

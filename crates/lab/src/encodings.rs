//! Encodings as a comparison takes them: lists, and the settings that a sweep tries.

/// Encodings listed with commas, which also stand between parameters: what has a `=` and no `:` belongs to what is before it.
///
/// ```
/// let list = lab::encodings::split("rotary,receptive:alpha=0.3,rho=0.5,none");
/// assert_eq!(list, ["rotary", "receptive:alpha=0.3,rho=0.5", "none"]);
/// ```
pub fn split(list: &str) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for part in list.split(',') {
        match labels.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => *last += &format!(",{part}"),
            _ => labels.push(part.into()),
        }
    }
    labels
}

/// The settings that a sweep tries for an encoding that was asked for without parameters: what the parameter decides, over
/// the range that small models care about. The first is the default.
pub fn grid(name: &str) -> &'static [&'static str] {
    match name {
        "rotary" => {
            &["rotary", "rotary:base=10", "rotary:base=100", "rotary:base=1000", "rotary:fraction=0.5"]
        }
        "receptive" => &[
            "receptive",
            "receptive:alpha=0.3,rho=0.25",
            "receptive:alpha=0.3,rho=0.5",
            "receptive:alpha=0.6,rho=0.25",
            "receptive:alpha=0.6,rho=0.5",
        ],
        "t5" => {
            &["t5", "t5:buckets=8,furthest=32", "t5:buckets=16,furthest=64", "t5:buckets=64,furthest=128"]
        }
        "kerple" => &["kerple", "kerple:strength=0.3", "kerple:strength=3", "kerple:rate=0.1"],
        "shaw" => &["shaw", "shaw:reach=4", "shaw:reach=8", "shaw:reach=32"],
        "deberta" => &["deberta", "deberta:reach=8", "deberta:reach=16"],
        "xpos" => &["xpos", "xpos:base=100", "xpos:base=1000"],
        "hierarchical" => &["hierarchical", "hierarchical:alpha=0.2", "hierarchical:positions=64"],
        "randomised" => &["randomised", "randomised:range=512", "randomised:base=100"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::encoding::Encoding;

    #[test]
    fn a_sweep_tries_the_default_first() {
        for name in Encoding::all().iter().map(Encoding::name) {
            assert!(grid(name).iter().all(|label| Encoding::parse(label).is_ok()), "{name}");
            assert!(grid(name).first().is_none_or(|first| *first == name), "{name}");
        }
    }
}

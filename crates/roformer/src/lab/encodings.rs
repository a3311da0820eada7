//! Encodings as they are asked for: a name, and perhaps parameters: `rotary`, `rotary:base=500`,
//! `receptive:alpha=0.3,rho=0.5`.

use crate::encoding::{Encoding, Merge, ShawTables};
use crate::error::{Error, Result};
use crate::weights::brief;
use rope::{Pairing, Schedule};

/// The longest that is read as an encoding.
const LONGEST: usize = 256;

/// What each encoding takes, and for what: shown where something else was given.
const ALLOWED: [(&str, &str); 14] = [
    ("none", ""),
    ("sinusoidal", "merge=add|concatenate"),
    ("learned", "merge=add|concatenate"),
    ("hierarchical", "positions=N, alpha=X, merge=add|concatenate"),
    ("shaw", "reach=N, tables=learned|sinusoidal, values=true|false"),
    ("xlnet", ""),
    ("t5", "buckets=N, furthest=N, scaled=true|false"),
    ("deberta", "reach=N"),
    ("alibi", ""),
    ("kerple", "strength=X, rate=X"),
    ("rotary", "base=X, dim=N, pairing=interleaved|half, fraction=X, values=true|false, learned=true|false"),
    ("receptive", "alpha=X, rho=X, base=X"),
    ("xpos", "base=X"),
    ("randomised", "range=N, base=X"),
];

/// The names of all encodings.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALLOWED.iter().map(|(name, _)| *name)
}

/// Encodings listed with commas, which also stand between parameters: what has a `=` and no `:` belongs to what is before it.
///
/// ```
/// let list = roformer::lab::encodings::split("rotary,receptive:alpha=0.3,rho=0.5,none");
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

/// Reads an encoding as it was asked for.
pub fn parse(label: &str) -> Result<Encoding> {
    let wrong = |expected: String| Error::input("an encoding", format!("`{}`", brief(label)), expected);
    let (name, given) = label.split_once(':').unwrap_or((label, ""));
    let allowed = ALLOWED.iter().find(|(known, _)| *known == name && label.len() <= LONGEST);
    let encoding = Encoding::all().into_iter().find(|encoding| encoding.name() == name);
    let (Some((_, allowed)), Some(mut encoding)) = (allowed, encoding) else {
        return Err(wrong(format!("one of {}", names().collect::<Vec<_>>().join(", "))));
    };
    let takes = match allowed.is_empty() {
        true => format!("`{name}` alone, which has no parameters"),
        false => format!("`{name}` or `{name}:` with some of {allowed}"),
    };
    if label.contains(':') && given.is_empty() {
        return Err(wrong(takes));
    }
    let mut seen = Vec::new();
    for part in given.split(',').filter(|_| !given.is_empty()) {
        let known = part.split_once('=').filter(|(key, _)| !seen.contains(key));
        let is_set = known.is_some_and(|(key, value)| {
            seen.push(key);
            set(&mut encoding, key, value).is_some()
        });
        if !is_set {
            return Err(wrong(format!("{takes}; `{}` is none of them", brief(part))));
        }
    }
    Ok(encoding)
}

/// Sets a parameter; `None` where there is no such parameter, or its value cannot be read.
fn set(encoding: &mut Encoding, key: &str, value: &str) -> Option<()> {
    let number = || value.parse::<f64>().ok().filter(|number| number.is_finite());
    let count = || value.parse::<usize>().ok().filter(|&count| count <= 1 << 20);
    let flag = || value.parse::<bool>().ok();
    let merge = || match value {
        "add" => Some(Merge::Add),
        "concatenate" => Some(Merge::Concatenate),
        _ => None,
    };
    match (encoding, key) {
        (Encoding::Sinusoidal(it), "merge") => it.merge = merge()?,
        (Encoding::Learned(it), "merge") => it.merge = merge()?,
        (Encoding::Hierarchical(it), "merge") => it.merge = merge()?,
        (Encoding::Hierarchical(it), "positions") => it.positions = count()?,
        (Encoding::Hierarchical(it), "alpha") => it.alpha = number()?,
        (Encoding::Shaw(it), "reach") => (it.left, it.right) = (count()?, count()?),
        (Encoding::Shaw(it), "values") => it.values = flag()?,
        (Encoding::Shaw(it), "tables") => {
            it.tables = match value {
                "learned" => ShawTables::Learned,
                "sinusoidal" => ShawTables::Sinusoidal,
                _ => return None,
            };
        }
        (Encoding::T5(it), "buckets") => it.buckets = count()?,
        (Encoding::T5(it), "furthest") => it.furthest = count()?,
        (Encoding::T5(it), "scaled") => it.is_scaled = flag()?,
        (Encoding::Deberta(it), "reach") => it.reach = count()?,
        (Encoding::Kerple(it), "strength") => it.strength = number()?,
        (Encoding::Kerple(it), "rate") => it.rate = number()?,
        (Encoding::Rotary(it), "base") => it.base = number()?,
        (Encoding::Rotary(it), "dim") => it.rotary_dim = Some(count()?),
        (Encoding::Rotary(it), "values") => it.values = flag()?,
        (Encoding::Rotary(it), "learned") => it.is_learned = flag()?,
        (Encoding::Rotary(it), "fraction") => {
            it.schedule = Schedule::Proportional { fraction: number()?, factor: 1.0 };
        }
        (Encoding::Rotary(it), "pairing") => {
            it.pairing = match value {
                "interleaved" => Pairing::Interleaved,
                "half" => Pairing::Half,
                _ => return None,
            };
        }
        (Encoding::ReceptiveField(it), "alpha") => it.alpha = number()?,
        (Encoding::ReceptiveField(it), "rho") => it.rho = number()?,
        (Encoding::ReceptiveField(it), "base") => it.rotary.base = number()?,
        (Encoding::Xpos(it), "base") => it.base = number()?,
        (Encoding::Randomised(it), "range") => it.range = count()?,
        (Encoding::Randomised(it), "base") => it.rotary.base = number()?,
        _ => return None,
    }
    Some(())
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
        "hierarchical" => &["hierarchical", "hierarchical:alpha=0.2", "hierarchical:positions=16"],
        "randomised" => &["randomised", "randomised:range=512", "randomised:base=100"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_read() {
        for encoding in Encoding::all() {
            assert_eq!(parse(encoding.name()).unwrap(), encoding, "as it is by default");
        }
        assert_eq!(names().count(), Encoding::all().len());
        assert!(names().flat_map(grid).all(|label| parse(label).is_ok()));
        assert!(
            names().filter_map(|name| Some((name, grid(name).first()?))).all(|(name, first)| name == *first)
        );
        let Encoding::Rotary(rotary) = parse("rotary:base=500,pairing=half,dim=8").unwrap() else { panic!() };
        assert_eq!((rotary.base, rotary.pairing, rotary.rotary_dim), (500.0, Pairing::Half, Some(8)));
        let Encoding::ReceptiveField(field) = parse("receptive:alpha=0.3,rho=0.5").unwrap() else { panic!() };
        assert_eq!((field.alpha, field.rho), (0.3, 0.5));
    }

    /// Every parameter that is said to be allowed is, and changes something.
    #[test]
    fn what_is_allowed_is_taken() {
        for (name, allowed) in ALLOWED {
            for part in allowed.split(", ").filter(|part| !part.is_empty()) {
                let (key, kind) = part.split_once('=').unwrap();
                let values = match kind {
                    "N" => vec!["12"],
                    "X" => vec!["0.7"],
                    kind => kind.split('|').collect(),
                };
                let read: Vec<Encoding> =
                    values.iter().map(|value| parse(&format!("{name}:{key}={value}")).unwrap()).collect();
                assert!(read.iter().any(|read| *read != parse(name).unwrap()), "{name}:{part}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let many = format!("rotary:base={}", "9".repeat(400));
        for (label, says) in [
            ("", "one of none"),
            ("rotory", "one of none"),
            ("rotary:", "with some of base=X"),
            ("rotary:bass=3", "`bass=3` is none of them"),
            ("rotary:base", "`base` is none of them"),
            ("rotary:base=", "`base=` is none of them"),
            ("rotary:base=nan", "`base=nan`"),
            ("rotary:base=inf", "`base=inf`"),
            ("rotary:base=1,base=2", "`base=2`"),
            ("rotary:base=1,", "`` is none of them"),
            ("rotary,base=1", "one of none"),
            ("alibi:slope=2", "which has no parameters"),
            ("shaw:reach=-1", "`reach=-1`"),
            ("shaw:reach=99999999999999999999", "`reach=9999"),
            ("t5:scaled=yes", "`scaled=yes`"),
            (&many, "one of none"),
        ] {
            let error = parse(label).unwrap_err().to_string();
            assert!(error.contains(says), "{label}: {error}");
        }
    }
}

//! Encodings as they are written: a name, and perhaps settings: `rotary`, `rotary:base=500`, `receptive:alpha=0.3,rho=0.5`.
//! So they are asked for, and so a `config.json` keeps what transformers has no field for.

use super::abacus::MOST_DIGITS;
use super::{Coupled, DebertaTerms, Encoding, Gate, Kernel, Merge, Projections, ShawTables};
use crate::error::{Error, Result};
use crate::weights::brief;
use rope::{Pairing, Schedule};

/// The longest that is read as an encoding.
const LONGEST: usize = 256;

/// What encodings by the places of digits take.
const NUMBERS: &str = "digits=N-N, places=N, shift=N, rotary=true|false";

/// What each encoding takes, and for what: shown where something else was given.
const ALLOWED: [(&str, &str); 30] = [
    ("none", ""),
    ("sinusoidal", "merge=add|concatenate"),
    ("learned", "offset=N, merge=add|concatenate"),
    ("hierarchical", "positions=N, alpha=X, merge=add|concatenate"),
    ("abacus", NUMBERS),
    ("coupled", NUMBERS),
    ("shaw", "reach=N, tables=learned|sinusoidal, values=true|false"),
    ("xlnet", "clamp=N"),
    ("t5", "buckets=N, furthest=N, scaled=true|false"),
    (
        "deberta",
        "reach=N, furthest=N, terms=both|queries|keys, mirrored=true|false, projections=own|biased|shared, norm=X, \
         absolute=true|false",
    ),
    ("alibi", ""),
    ("kerple", "strength=X, rate=X, kernel=log|power"),
    ("sandwich", "dim=N"),
    ("fire", "hidden=N, rate=X, threshold=X"),
    ("forget", "gate=sigmoid|relu, bias=X, rotary=true|false"),
    ("contextual", "positions=N"),
    ("path", "rank=N"),
    (
        "rotary",
        "base=X, dim=N, part=X, pairing=interleaved|half, fraction=X, values=true|false, learned=true|false|heads",
    ),
    ("axial", "side=N, base=X"),
    ("receptive", "alpha=X, rho=X, base=X"),
    ("xpos", "base=X"),
    ("high", "part=X, period=X"),
    ("clipped", "base=X, period=X, width=X"),
    ("fope", "base=X, period=X, gain=X, seed=N"),
    ("pope", "base=X, phases=true|false"),
    ("selective", "base=X, bias=X"),
    ("extend", "window=N, group=N, base=X, dim=N, pairing=interleaved|half"),
    ("randomised", "range=N, base=X"),
    ("pose", "range=N, pieces=N, base=X"),
    ("layers", "every=N, window=N, base=X, far=X"),
];

impl Encoding {
    /// Reads an encoding as it is written.
    ///
    /// ```
    /// use roformer::encoding::Encoding;
    /// let encoding = Encoding::parse("rotary:pairing=half,base=500")?;
    /// assert_eq!(encoding.label(), "rotary:base=500,pairing=half");
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn parse(label: &str) -> Result<Encoding> {
        let wrong = |expected: String| Error::input("an encoding", format!("`{}`", brief(label)), expected);
        let (name, given) = label.split_once(':').unwrap_or((label, ""));
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name && label.len() <= LONGEST);
        let encoding = Encoding::all().into_iter().find(|encoding| encoding.name() == name);
        let (Some((_, allowed)), Some(mut encoding)) = (allowed, encoding) else {
            return Err(wrong(format!("one of {}", ALLOWED.map(|(name, _)| name).join(", "))));
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
                return Err(wrong(format!("{takes}; `{}` is invalid", brief(part))));
            }
        }
        Ok(encoding)
    }

    /// As it is written, with the settings that are not the default. [`parse`](Encoding::parse) reads it back, unless it has a
    /// setting that cannot be written, such as a list of frequencies.
    pub fn label(&self) -> String {
        if let Encoding::Given(own) = self {
            return own.name.clone();
        }
        let default = Encoding::all().into_iter().find(|default| default.name() == self.name());
        let default = default.map(|default| settings(&default)).unwrap_or_default();
        let own = settings(self).into_iter().filter(|setting| !default.contains(setting));
        let own: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
        match own.is_empty() {
            true => self.name().into(),
            false => format!("{}:{}", self.name(), own.join(",")),
        }
    }
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
    let pairing = || match value {
        "interleaved" => Some(Pairing::Interleaved),
        "half" => Some(Pairing::Half),
        _ => None,
    };
    match (encoding, key) {
        (Encoding::Sinusoidal(it), "merge") => it.merge = merge()?,
        (Encoding::Learned(it), "merge") => it.merge = merge()?,
        (Encoding::Learned(it), "offset") => it.offset = count()?,
        (Encoding::Hierarchical(it), "merge") => it.merge = merge()?,
        (Encoding::Hierarchical(it), "positions") => it.positions = Some(count()?),
        (Encoding::Hierarchical(it), "alpha") => it.alpha = number()?,
        (Encoding::Abacus(it) | Encoding::Coupled(Coupled { numbers: it }), key) => match key {
            "digits" => it.digits = ids(value)?,
            "places" => it.places = count()?,
            "shift" => it.shift = count()?,
            "rotary" => it.is_rotary = flag()?,
            _ => return None,
        },
        (Encoding::Shaw(it), "reach") => (it.left, it.right) = (count()?, count()?),
        (Encoding::Shaw(it), "values") => it.values = flag()?,
        (Encoding::Shaw(it), "tables") => {
            it.tables = match value {
                "learned" => ShawTables::Learned,
                "sinusoidal" => ShawTables::Sinusoidal,
                _ => return None,
            };
        }
        (Encoding::XlNet(it), "clamp") => it.clamp = Some(count()?),
        (Encoding::T5(it), "buckets") => it.buckets = count()?,
        (Encoding::T5(it), "furthest") => it.furthest = count()?,
        (Encoding::T5(it), "scaled") => it.is_scaled = flag()?,
        (Encoding::Deberta(it), "reach") => it.reach = count()?,
        (Encoding::Deberta(it), "furthest") => it.furthest = Some(count()?),
        (Encoding::Deberta(it), "mirrored") => it.is_mirrored = flag()?,
        (Encoding::Deberta(it), "norm") => it.norm = Some(number()?),
        (Encoding::Deberta(it), "absolute") => it.is_absolute = flag()?,
        (Encoding::Deberta(it), "terms") => {
            it.terms = match value {
                "both" => DebertaTerms::Both,
                "queries" => DebertaTerms::Queries,
                "keys" => DebertaTerms::Keys,
                _ => return None,
            };
        }
        (Encoding::Deberta(it), "projections") => {
            it.projections = match value {
                "own" => Projections::Own,
                "biased" => Projections::Biased,
                "shared" => Projections::Shared,
                _ => return None,
            };
        }
        (Encoding::Kerple(it), "strength") => it.strength = number()?,
        (Encoding::Kerple(it), "rate") => it.rate = number()?,
        (Encoding::Kerple(it), "kernel") => {
            it.kernel = match value {
                "log" => Kernel::Log,
                "power" => Kernel::Power,
                _ => return None,
            };
        }
        (Encoding::Sandwich(it), "dim") => it.dim = count()?,
        (Encoding::Fire(it), "hidden") => it.hidden = count()?,
        (Encoding::Fire(it), "rate") => it.rate = number()?,
        (Encoding::Fire(it), "threshold") => it.threshold = number()?,
        (Encoding::Forget(it), "bias") => it.bias = number()?,
        (Encoding::Forget(it), "rotary") => it.is_rotary = flag()?,
        (Encoding::Forget(it), "gate") => {
            it.gate = match value {
                "sigmoid" => Gate::Sigmoid,
                "relu" => Gate::Relu,
                _ => return None,
            };
        }
        (Encoding::Extend(it), "window") => it.far.window = count()?,
        // Of no token is no group.
        (Encoding::Extend(it), "group") => it.far.group = Some(count()?).filter(|&group| group > 0),
        (Encoding::Extend(it), "base") => it.rotary.base = number()?,
        (Encoding::Extend(it), "dim") => it.rotary.rotary_dim = Some(count()?),
        (Encoding::Extend(it), "pairing") => it.rotary.pairing = pairing()?,
        (Encoding::Contextual(it), "positions") => it.positions = count()?,
        (Encoding::Path(it), "rank") => it.rank = count()?,
        (Encoding::Rotary(it), "part") => it.part = Some(number()?),
        (Encoding::Rotary(it), "base") => it.base = number()?,
        (Encoding::Rotary(it), "dim") => it.rotary_dim = Some(count()?),
        (Encoding::Rotary(it), "values") => it.values = flag()?,
        (Encoding::Rotary(it), "learned") => {
            it.is_by_head = value == "heads";
            it.is_learned = it.is_by_head || flag()?;
        }
        (Encoding::Rotary(it), "fraction") => {
            it.schedule = Schedule::Proportional { fraction: number()?, factor: 1.0 };
        }
        (Encoding::Rotary(it), "pairing") => it.pairing = pairing()?,
        (Encoding::Axial(it), "side") => it.side = count()?,
        (Encoding::Axial(it), "base") => it.base = number()?,
        (Encoding::ReceptiveField(it), "alpha") => it.alpha = number()?,
        (Encoding::ReceptiveField(it), "rho") => it.rho = number()?,
        (Encoding::ReceptiveField(it), "base") => it.rotary.base = number()?,
        (Encoding::Xpos(it), "base") => it.base = number()?,
        (Encoding::High(it), "part") => it.part = number()?,
        (Encoding::High(it), "period") => it.period = number()?,
        (Encoding::Clipped(it), "base") => it.base = number()?,
        (Encoding::Clipped(it), "period") => it.period = number()?,
        (Encoding::Clipped(it), "width") => it.width = Some(number()?),
        (Encoding::Pope(it), "base") => it.base = number()?,
        (Encoding::Pope(it), "phases") => it.has_phases = flag()?,
        (Encoding::Fope(it), "base") => it.base = number()?,
        (Encoding::Fope(it), "period") => it.period = number()?,
        (Encoding::Fope(it), "gain") => it.gain = number()?,
        (Encoding::Fope(it), "seed") => it.seed = count()?,
        (Encoding::Selective(it), "base") => it.base = number()?,
        (Encoding::Selective(it), "bias") => it.bias = number()?,
        (Encoding::Pose(it), "range") => it.range = count()?,
        (Encoding::Pose(it), "pieces") => it.pieces = count()?,
        (Encoding::Pose(it), "base") => it.rotary.base = number()?,
        (Encoding::Layers(it), "every") => it.every = count()?,
        // Of no token is no window.
        (Encoding::Layers(it), "window") => it.window = Some(count()?).filter(|&window| window > 0),
        (Encoding::Layers(it), "base") => it.base = number()?,
        (Encoding::Layers(it), "far") => it.far = Some(number()?),
        (Encoding::Randomised(it), "range") => it.range = count()?,
        (Encoding::Randomised(it), "base") => it.rotary.base = number()?,
        _ => return None,
    }
    Some(())
}

/// The settings of an encoding as [`set`] takes them, in the order in which they are listed.
fn settings(encoding: &Encoding) -> Vec<(&'static str, String)> {
    let merge = |merge: Merge| match merge {
        Merge::Add => "add",
        Merge::Concatenate => "concatenate",
    };
    match encoding {
        Encoding::None(_) | Encoding::Alibi(_) | Encoding::Given(_) => Vec::new(),
        Encoding::Sinusoidal(it) => vec![("merge", merge(it.merge).into())],
        Encoding::Learned(it) => {
            vec![("offset", it.offset.to_string()), ("merge", merge(it.merge).into())]
        }
        Encoding::Hierarchical(it) => {
            let mut all: Vec<_> = it.positions.iter().map(|n| ("positions", n.to_string())).collect();
            all.extend([("alpha", it.alpha.to_string()), ("merge", merge(it.merge).into())]);
            all
        }
        Encoding::Abacus(it) | Encoding::Coupled(Coupled { numbers: it }) => {
            let mut all = vec![
                ("places", it.places.to_string()),
                ("shift", it.shift.to_string()),
                ("rotary", it.is_rotary.to_string()),
            ];
            if !it.digits.is_empty() {
                all.insert(0, ("digits", written(&it.digits)));
            }
            all
        }
        Encoding::Shaw(it) => {
            let tables = match it.tables {
                ShawTables::Learned => "learned",
                ShawTables::Sinusoidal => "sinusoidal",
            };
            vec![("reach", it.left.to_string()), ("tables", tables.into()), ("values", it.values.to_string())]
        }
        Encoding::XlNet(it) => it.clamp.iter().map(|clamp| ("clamp", clamp.to_string())).collect(),
        Encoding::T5(it) => vec![
            ("buckets", it.buckets.to_string()),
            ("furthest", it.furthest.to_string()),
            ("scaled", it.is_scaled.to_string()),
        ],
        Encoding::Deberta(it) => {
            let terms = match it.terms {
                DebertaTerms::Both => "both",
                DebertaTerms::Queries => "queries",
                DebertaTerms::Keys => "keys",
            };
            let projections = match it.projections {
                Projections::Own => "own",
                Projections::Biased => "biased",
                Projections::Shared => "shared",
            };
            let mut all = vec![("reach", it.reach.to_string())];
            all.extend(it.furthest.map(|furthest| ("furthest", furthest.to_string())));
            all.extend([("terms", terms.into()), ("mirrored", it.is_mirrored.to_string())]);
            all.push(("projections", projections.into()));
            all.extend(it.norm.map(|epsilon| ("norm", epsilon.to_string())));
            all.push(("absolute", it.is_absolute.to_string()));
            all
        }
        Encoding::Kerple(it) => {
            let kernel = match it.kernel {
                Kernel::Log => "log",
                Kernel::Power => "power",
            };
            vec![
                ("strength", it.strength.to_string()),
                ("rate", it.rate.to_string()),
                ("kernel", kernel.into()),
            ]
        }
        Encoding::Sandwich(it) => vec![("dim", it.dim.to_string())],
        Encoding::Fire(it) => vec![
            ("hidden", it.hidden.to_string()),
            ("rate", it.rate.to_string()),
            ("threshold", it.threshold.to_string()),
        ],
        Encoding::Forget(it) => {
            let gate = match it.gate {
                Gate::Sigmoid => "sigmoid",
                Gate::Relu => "relu",
            };
            vec![("gate", gate.into()), ("bias", it.bias.to_string()), ("rotary", it.is_rotary.to_string())]
        }
        Encoding::Contextual(it) => vec![("positions", it.positions.to_string())],
        Encoding::Path(it) => vec![("rank", it.rank.to_string())],
        Encoding::Rotary(it) => {
            let mut all = vec![("base", it.base.to_string())];
            all.extend(it.rotary_dim.map(|dim| ("dim", dim.to_string())));
            all.extend(it.part.map(|part| ("part", part.to_string())));
            all.push(("pairing", it.pairing.name().into()));
            if let Schedule::Proportional { fraction, .. } = it.schedule {
                all.push(("fraction", fraction.to_string()));
            }
            let learned = if it.is_by_head { "heads".into() } else { it.is_learned.to_string() };
            all.extend([("values", it.values.to_string()), ("learned", learned)]);
            all
        }
        Encoding::ReceptiveField(it) => vec![
            ("alpha", it.alpha.to_string()),
            ("rho", it.rho.to_string()),
            ("base", it.rotary.base.to_string()),
        ],
        Encoding::Xpos(it) => vec![("base", it.base.to_string())],
        Encoding::High(it) => vec![("part", it.part.to_string()), ("period", it.period.to_string())],
        Encoding::Clipped(it) => {
            let mut all = vec![("base", it.base.to_string()), ("period", it.period.to_string())];
            all.extend(it.width.map(|width| ("width", width.to_string())));
            all
        }
        Encoding::Pope(it) => {
            vec![("base", it.base.to_string()), ("phases", it.has_phases.to_string())]
        }
        Encoding::Fope(it) => vec![
            ("base", it.base.to_string()),
            ("period", it.period.to_string()),
            ("gain", it.gain.to_string()),
            ("seed", it.seed.to_string()),
        ],
        Encoding::Selective(it) => {
            vec![("base", it.base.to_string()), ("bias", it.bias.to_string())]
        }
        Encoding::Pose(it) => vec![
            ("range", it.range.to_string()),
            ("pieces", it.pieces.to_string()),
            ("base", it.rotary.base.to_string()),
        ],
        Encoding::Layers(it) => {
            let mut all = vec![
                ("every", it.every.to_string()),
                ("window", it.window.unwrap_or(0).to_string()),
                ("base", it.base.to_string()),
            ];
            all.extend(it.far.map(|far| ("far", far.to_string())));
            all
        }
        Encoding::Axial(it) => vec![("side", it.side.to_string()), ("base", it.base.to_string())],
        Encoding::Extend(it) => {
            let mut all = vec![
                ("window", it.far.window.to_string()),
                ("group", it.far.group.unwrap_or(0).to_string()),
                ("base", it.rotary.base.to_string()),
            ];
            all.extend(it.rotary.rotary_dim.map(|dim| ("dim", dim.to_string())));
            all.push(("pairing", it.rotary.pairing.name().into()));
            all
        }
        Encoding::Randomised(it) => {
            vec![("range", it.range.to_string()), ("base", it.rotary.base.to_string())]
        }
    }
}

/// Ids as they are listed, ranges of them and single ones: `4-13`, `7+20-28`.
fn ids(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split('+') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || (last - first) as usize >= MOST_DIGITS {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    (all.len() == count && count <= MOST_DIGITS).then_some(all)
}

/// Ids as [`ids`] reads them.
fn written(ids: &[u32]) -> String {
    let runs = ids.chunk_by(|before, after| before.checked_add(1) == Some(*after));
    let run = |run: &[u32]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_read() {
        for encoding in Encoding::all() {
            assert_eq!(Encoding::parse(encoding.name()).unwrap(), encoding, "as it is by default");
        }
        assert!(Encoding::all().iter().map(Encoding::name).eq(ALLOWED.map(|(name, _)| name)));
        let Encoding::Rotary(rotary) = Encoding::parse("rotary:base=500,pairing=half,dim=8").unwrap() else {
            panic!()
        };
        assert_eq!((rotary.base, rotary.pairing, rotary.rotary_dim), (500.0, Pairing::Half, Some(8)));
        let Encoding::ReceptiveField(field) = Encoding::parse("receptive:alpha=0.3,rho=0.5").unwrap() else {
            panic!()
        };
        assert_eq!((field.alpha, field.rho), (0.3, 0.5));
    }

    /// Every setting that is said to be allowed is, changes something, and is written as it was read.
    #[test]
    fn what_is_allowed_is_taken() {
        for (name, allowed) in ALLOWED {
            for part in allowed.split(", ").filter(|part| !part.is_empty()) {
                let (key, kind) = part.split_once('=').unwrap();
                let values = match kind {
                    "N" => vec!["12"],
                    "X" => vec!["0.7"],
                    "N-N" => vec!["4-13", "3+5+9-11"],
                    kind => kind.split('|').collect(),
                };
                let read: Vec<Encoding> = values
                    .iter()
                    .map(|value| Encoding::parse(&format!("{name}:{key}={value}")).unwrap())
                    .collect();
                assert!(read.iter().any(|read| *read != Encoding::parse(name).unwrap()), "{name}:{part}");
                for read in read {
                    assert_eq!(Encoding::parse(&read.label()).unwrap(), read, "{}", read.label());
                }
            }
        }
    }

    #[test]
    fn labels_have_what_is_not_the_default() {
        for label in [
            "none",
            "rotary",
            "rotary:base=500",
            "rotary:base=500,dim=8,pairing=half,fraction=0.25,values=true,learned=true",
            "receptive:alpha=0.3,rho=0.25",
            "hierarchical:positions=9,alpha=0.2,merge=concatenate",
            "shaw:reach=3,tables=sinusoidal,values=false",
            "xlnet:clamp=7",
            "kerple:strength=2,rate=0.25,kernel=power",
            "rotary:part=0.25,learned=heads",
            "forget:gate=relu,bias=-1,rotary=true",
            "clipped:base=500,period=9,width=3",
            "fope:base=500,period=9,gain=0.1,seed=3",
            "selective:base=500,bias=0",
            "axial:side=9,base=500",
            "extend:window=300,group=4,base=500,dim=8,pairing=half",
            "contextual:positions=9",
            "path:rank=9",
            "abacus:digits=4-13",
            "coupled:digits=1+3-5+9,places=7,shift=0,rotary=true",
            "pose:range=300,pieces=3,base=500",
            "layers:every=3,window=0,base=500,far=1000000",
            "deberta:reach=8,furthest=40,terms=keys,mirrored=false,projections=shared,norm=0.0000001,absolute=true",
        ] {
            assert_eq!(Encoding::parse(label).unwrap().label(), label);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let many = format!("rotary:base={}", "9".repeat(400));
        for (label, says) in [
            ("", "one of none"),
            ("rotory", "one of none"),
            ("rotary:", "with some of base=X"),
            ("rotary:bass=3", "`bass=3` is invalid"),
            ("rotary:base", "`base` is invalid"),
            ("rotary:base=", "`base=` is invalid"),
            ("rotary:base=nan", "`base=nan`"),
            ("rotary:base=inf", "`base=inf`"),
            ("rotary:base=1,base=2", "`base=2`"),
            ("rotary:base=1,", "`` is invalid"),
            ("rotary,base=1", "one of none"),
            ("alibi:slope=2", "which has no parameters"),
            ("shaw:reach=-1", "`reach=-1`"),
            ("shaw:reach=99999999999999999999", "`reach=9999"),
            ("t5:scaled=yes", "`scaled=yes`"),
            ("abacus:digits=", "`digits=`"),
            ("abacus:digits=9-4", "`digits=9-4`"),
            ("abacus:digits=4+4", "`digits=4+4`"),
            ("abacus:digits=0-4294967295", "`digits=0-4294967295`"),
            ("coupled:digits=4-13-15", "`digits=4-13-15`"),
            (&many, "one of none"),
        ] {
            let error = Encoding::parse(label).unwrap_err().to_string();
            assert!(error.contains(says), "{label}: {error}");
        }
    }
}

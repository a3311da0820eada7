//! Settings and batches that cannot be: each an error that names the value, none a panic.

use super::net::{NONE, batch, lay, network};
use roformer::encoding::{
    Deberta, Encoding, Extend, Hierarchical, Randomised, ReceptiveField, Rotary, Shaw, T5, Xpos,
};
use roformer::graph::{Batch, Far, IGNORE};
use roformer::network::{Network, Task};
use rope::{Schedule, Yarn};

/// Builds for a batch of 2 texts of 5 tokens, and at most 20.
fn refused(network: &Network, value: &str) {
    match network.build::<f64>(2, 5, 20) {
        Ok(_) => panic!("built, with {value}: {network:?}"),
        Err(error) => assert!(error.to_string().contains(value), "{error}: no word of {value}"),
    }
}

#[test]
fn encodings_refuse_what_they_cannot_be() {
    let hierarchical = |positions: usize, alpha: f64| {
        Encoding::Hierarchical(Hierarchical { positions: Some(positions), alpha, ..Default::default() })
    };
    let receptive =
        |alpha: f64, rho: f64| Encoding::ReceptiveField(ReceptiveField { alpha, rho, ..Default::default() });
    let t5 = |buckets: usize, furthest: usize| Encoding::T5(T5 { buckets, furthest, is_scaled: true });
    let rotary =
        |rotary_dim: usize| Encoding::Rotary(Rotary { rotary_dim: Some(rotary_dim), ..Rotary::default() });
    let parsed = |label: &str| Encoding::parse(label).unwrap();
    let schedule = |schedule: Schedule| Encoding::Rotary(Rotary { schedule, ..Rotary::default() });
    for (encoding, value) in [
        (hierarchical(16, 0.5), "0.5"),
        (hierarchical(16, 0.0), "0"),
        (hierarchical(16, 1.0), "1"),
        (hierarchical(16, f64::NAN), "NaN"),
        (hierarchical(4, 0.4), "4"),
        (hierarchical(0, 0.4), "0"),
        (receptive(0.0, 0.5), "0"),
        (receptive(1.0, 0.5), "1"),
        (receptive(f64::NAN, 0.5), "NaN"),
        (receptive(0.1, f64::NAN), "NaN"),
        (receptive(0.1, 5.0), "5"),
        (t5(3, 128), "3"),
        (t5(0, 128), "0"),
        (t5(32, 8), "8"),
        (Encoding::Xpos(Xpos::default()), "without a causal mask"),
        (Encoding::Randomised(Randomised { range: 19, ..Randomised::default() }), "19"),
        (rotary(3), "3"),
        (rotary(10), "10"),
        (schedule(Schedule::Linear { factor: -2.0 }), "-2"),
        (schedule(Schedule::Given(vec![1.0; 3])), "3"),
        (schedule(Schedule::Yarn(Yarn::new(f64::NAN, 64))), "NaN"),
        (Encoding::Rotary(Rotary { base: -1.0, ..Rotary::default() }), "-1"),
        (parsed("rotary:part=0"), "0"),
        (parsed("rotary:part=1.5"), "1.5"),
        (parsed("rotary:part=0.1"), "0.1"),
        (parsed("rotary:part=0.5,dim=4"), "a dim and a part"),
        (parsed("kerple:kernel=power,rate=2"), "2"),
        (parsed("kerple:rate=-1"), "-1"),
        (parsed("sandwich:dim=0"), "0"),
        (parsed("sandwich:dim=7"), "7"),
        (parsed("sandwich:dim=1000000"), "1000000"),
        (parsed("high:part=2"), "2"),
        (parsed("high:period=6"), "6"),
        (parsed("high:period=1e300"), "1"),
        (parsed("clipped:period=0"), "0"),
        (parsed("clipped:width=0.5"), "0.5"),
        (parsed("clipped:base=-3"), "-3"),
        (parsed("pope:base=0"), "0"),
        (parsed("axial:side=0"), "0"),
        (parsed("axial:side=1024"), "1049600"),
        (parsed("axial:base=-1"), "-1"),
        (parsed("pose:range=19"), "19"),
        (parsed("pose:pieces=1"), "1"),
        (parsed("layers:every=0"), "0"),
        (parsed("layers:base=-1"), "-1"),
        (parsed("layers:far=0"), "0"),
        (parsed("fope:period=0"), "0"),
        (parsed("fope:gain=-1"), "-1"),
        (parsed("fope:gain=11"), "11"),
        (parsed("fope:base=0"), "0"),
        (parsed("forget"), "without a causal mask"),
        (parsed("fire"), "without a causal mask"),
        (parsed("selective"), "without a causal mask"),
        (parsed("extend"), "without a causal mask"),
        (parsed("abacus:places=0"), "0"),
        (parsed("coupled:places=1048576"), "1048593"),
        (parsed("contextual"), "without a causal mask"),
        (parsed("path"), "without a causal mask"),
    ] {
        refused(&network(encoding, false), value);
    }
    for (label, value) in [
        ("forget:bias=101", "101"),
        ("selective:bias=-101", "-101"),
        ("selective:base=0", "0"),
        ("extend:window=0", "0"),
        ("extend:group=1", "1"),
        ("extend:base=-2", "-2"),
        ("extend:dim=9", "9"),
        ("fire:hidden=0", "0"),
        ("fire:hidden=4096", "4096"),
        ("fire:rate=0", "0"),
        ("fire:threshold=-1", "-1"),
        ("contextual:positions=0", "0"),
        ("path:rank=0", "0"),
        ("path:rank=1000000", "1000000"),
        ("contextual:positions=1000000", "1000000"),
    ] {
        refused(&network(parsed(label), true), value);
    }
    let far = Far { window: 8, group: None };
    let learned = Rotary { is_learned: true, ..Rotary::default() };
    let dynamic = Schedule::DynamicNtk { factor: 2.0, trained_length: 8 };
    for (rotary, value) in [
        (learned, "learned"),
        (Rotary { schedule: dynamic, ..Rotary::default() }, "that does not change with the length"),
    ] {
        refused(&network(Encoding::Extend(Extend { far, rotary }), true), value);
    }
    for encoding in Encoding::all() {
        let odd = network(encoding.clone(), true).with(|own| own.head_dim = 7);
        match encoding.name() {
            "rotary" | "receptive" | "xpos" | "randomised" | "pose" | "clipped" | "layers" | "selective"
            | "extend" | "fope" | "axial" => refused(&odd, "7"),
            _ => drop(lay(&odd, 2, 5, 20)),
        }
    }
}

/// Sizes that no memory holds are refused before any is asked for.
#[test]
fn absurd_sizes_are_refused() {
    let plain = network(NONE, false);
    let most = 1usize << 24;
    for network in [
        plain.with(|own| (own.width, own.embedding) = (most, most)),
        plain.with(|own| {
            own.vocabulary = most;
            (own.width, own.embedding) = (most, most);
        }),
        plain.with(|own| {
            own.heads = most;
            own.head_dim = most;
            own.key_heads = 1;
        }),
    ] {
        assert!(network.build::<f32>(1, 4, most).is_err(), "{network:?}");
    }
    assert!(plain.build::<f32>(most, most, most).is_err());
    assert!(plain.build::<f32>(1, 1, usize::MAX).is_err());
    for encoding in [
        Encoding::Deberta(Deberta { reach: usize::MAX, ..Deberta::default() }),
        Encoding::Shaw(Shaw { left: usize::MAX, right: usize::MAX, ..Shaw::default() }),
        Encoding::T5(T5 { buckets: usize::MAX - 3, furthest: usize::MAX, is_scaled: true }),
        Encoding::Hierarchical(Hierarchical { positions: Some(usize::MAX), ..Hierarchical::default() }),
        Encoding::Randomised(Randomised { range: usize::MAX, ..Randomised::default() }),
    ] {
        assert!(network(encoding.clone(), false).build::<f32>(1, 4, 4).is_err(), "{encoding:?}");
    }
}

#[test]
fn networks_refuse_what_they_cannot_be() {
    let plain = network(NONE, false);
    for (network, value) in [
        (plain.with(|own| own.key_heads = 2), "2"),
        (plain.with(|own| own.key_heads = 0), "0"),
        (plain.with(|own| own.heads = 0), "0"),
        (Network { dropout: 1.0, ..plain.clone() }, "1"),
        (Network { dropout: -0.1, ..plain.clone() }, "-0.1"),
        (Network { dropout: f64::NAN, ..plain.clone() }, "NaN"),
        (plain.with(|own| own.vocabulary = 0), "0"),
        (plain.with(|own| (own.width, own.embedding) = (1 << 25, 1 << 25)), "33554432"),
        (Network { task: Task::Text(0), ..plain.clone() }, "0"),
        (Network { task: Task::Token(0), ..plain.clone() }, "0"),
    ] {
        refused(&network, value);
    }
    for (texts, length, longest, value) in [(2, 21, 20, "21"), (0, 5, 20, "0"), (2, 0, 20, "0")] {
        let error = plain.build::<f64>(texts, length, longest).err().expect(value).to_string();
        assert!(error.contains(value), "{error}");
    }
}

#[test]
fn batches_that_do_not_fit_are_refused() {
    let network = network(Encoding::Rotary(Rotary::default()), false);
    let mut laid = lay(&network, 2, 5, 20);
    let good = batch(&network, 10, 1);
    let with = |change: &dyn Fn(&mut Batch)| {
        let mut batch = good.clone();
        change(&mut batch);
        batch
    };
    for (batch, value) in [
        (with(&|batch| batch.ids = vec![1; 9]), "9"),
        (with(&|batch| batch.ids = Vec::new()), "0"),
        (with(&|batch| batch.ids[3] = 11), "11"),
        (with(&|batch| batch.ids[3] = IGNORE), "4294967295"),
        (with(&|batch| batch.targets = vec![1; 12]), "12"),
        (with(&|batch| batch.targets[0] = 14), "14"),
        (with(&|batch| batch.mask = vec![true; 5]), "5"),
        (with(&|batch| batch.types = vec![0; 3]), "3"),
        (with(&|batch| batch.types = vec![7; 10]), "7"),
        (with(&|batch| batch.positions = (0..10).collect()), "10"),
        (with(&|batch| batch.positions = vec![0, 1, 2, 3, 20]), "20"),
    ] {
        let error = laid.set(batch).expect_err(value).to_string();
        assert!(error.contains(value), "{error}: no word of {value}");
    }
    // The edges are allowed, and no refusal left anything behind.
    laid.set(with(&|batch| batch.positions = vec![0, 1, 2, 3, 19])).unwrap();
    laid.set(with(&|batch| batch.targets[4] = IGNORE)).unwrap();
    assert!(laid.graph.forward().is_finite());
    let randomised = Encoding::Randomised(Randomised { range: 40, ..Randomised::default() });
    let mut laid = lay(&super::net::network(randomised, false), 2, 5, 20);
    laid.set(with(&|batch| batch.positions = vec![0, 1, 2, 3, 39])).unwrap();
    assert!(laid.set(with(&|batch| batch.positions = vec![0, 1, 2, 3, 40])).is_err());
}

/// Tables by distance know places in the text alone: positions given to them would be passed over in silence.
#[test]
fn positions_are_refused_where_they_are_not_read() {
    for name in [
        "shaw",
        "xlnet",
        "t5",
        "deberta",
        "alibi",
        "sandwich",
        "fire",
        "forget",
        "contextual",
        "path",
        "abacus",
        "coupled",
        "selective",
        "extend",
        "fope",
    ] {
        let encoding = Encoding::all().into_iter().find(|encoding| encoding.name() == name).unwrap();
        let network = network(encoding, true);
        let mut laid = lay(&network, 2, 5, 20);
        let batch = Batch { positions: vec![0, 3, 5, 7, 9], ..batch(&network, 10, 1) };
        assert!(laid.set(batch).is_err(), "{name}");
    }
}

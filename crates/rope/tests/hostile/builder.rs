//! Builders and the rules that make frequencies.

use crate::common::*;
use proptest::prelude::*;
use rope::{AnglePrecision, Axes, Llama3, LongRope, Ramp, Rope, Schedule, XPos, Yarn};

/// Numbers that no base, factor or length can be.
const IMPOSSIBLE: [f64; 7] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.0, -1e308];
/// Numbers at the edges of what they might be.
const EXTREME: [f64; 12] = [
    f64::MAX,
    1e308,
    1e200,
    1e39,
    1e20,
    1.0,
    1.0 - f64::EPSILON,
    1e-20,
    1e-39,
    1e-300,
    f64::MIN_POSITIVE,
    5e-324,
];

#[test]
fn sizes_that_do_not_fit_are_refused_by_name() {
    for head_dim in [0, 1, 7, HUGE, HUGE - 1, 8194] {
        refused(Rope::builder(head_dim).build(), &["head_dim"], head_dim);
    }
    for rotary_dim in [0, 1, 3, 7, 10, 8194, HUGE, HUGE - 1] {
        refused(Rope::builder(8).rotary_dim(rotary_dim).build(), &["rotary_dim"], rotary_dim);
    }
    for offset in [1, 8, HUGE, HUGE - 7] {
        refused(Rope::builder(8).rotary_offset(offset).build(), &["rotary_offset"], offset);
        let part = Rope::builder(8).rotary_dim(4).rotary_offset(offset.saturating_add(4));
        refused(part.build(), &["rotary_offset"], offset);
    }
}

#[test]
fn axes_that_do_not_fit_are_refused_by_name() {
    let lists: [&[usize]; 7] =
        [&[], &[3], &[5], &[0, 0, 0], &[HUGE, 5], &[HUGE, HUGE, 6], &[1, 1, 1, 1, HUGE, 1]];
    for list in lists {
        refused(Rope::builder(8).axes(Axes::Sections(list.into())).build(), &["sections"], list);
        refused(Rope::builder(8).axes(Axes::Interleaved(list.into())).build(), &["sections"], list);
    }
    let mut many = vec![0; 100_000];
    many.push(4);
    refused(Rope::builder(8).axes(Axes::Sections(many)).build(), &["sections"], "100,001 sections");
    for axes in [0, 3, 5, 8, HUGE] {
        refused(Rope::builder(8).axes(Axes::Axial { axes }).build(), &["axes"], axes);
    }
    for list in [vec![4], vec![4, 0], vec![0, 4], vec![0, 0, 4], vec![1, 3]] {
        works(&Rope::builder(8).axes(Axes::Sections(list.clone())).build().unwrap()).unwrap();
        works(&Rope::builder(8).axes(Axes::Interleaved(list)).build().unwrap()).unwrap();
    }
}

#[test]
fn a_base_is_refused_by_name_or_works() {
    for base in IMPOSSIBLE {
        refused(Rope::builder(8).base(base).build(), &["base"], base);
    }
    for base in EXTREME {
        refused_or_works(Rope::builder(8).base(base));
        refused_or_works(Rope::builder(128).base(base).angle_precision(AnglePrecision::F32));
    }
}

fn llama() -> Llama3 {
    Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: 8192 }
}

/// Every rule with `x` in the place of one setting, and what that setting is called.
fn schedules_with(x: f64) -> Vec<(Schedule, &'static str)> {
    let divisors = vec![1.0, 1.0, x, 1.0];
    vec![
        (Schedule::Linear { factor: x }, "factor"),
        (Schedule::NtkAware { factor: x }, "factor"),
        (Schedule::DynamicNtk { factor: x, trained_length: 2048 }, "factor"),
        (Schedule::Yarn(Yarn { factor: x, ..yarn() }), "factor"),
        (Schedule::Yarn(Yarn { beta_fast: x, ..yarn() }), "beta_fast"),
        (Schedule::Yarn(Yarn { beta_slow: x, ..yarn() }), "beta_slow"),
        (Schedule::Yarn(Yarn { attention_factor: Some(x), ..yarn() }), "attention_factor"),
        (Schedule::LongRope(LongRope { short: divisors.clone(), ..long_rope() }), "short_factor"),
        (Schedule::LongRope(LongRope { long: divisors, ..long_rope() }), "long_factor"),
        (Schedule::LongRope(LongRope { factor: x, ..long_rope() }), "factor"),
        (Schedule::LongRope(LongRope { attention_factor: Some(x), ..long_rope() }), "attention_factor"),
        (Schedule::Llama3(Llama3 { factor: x, ..llama() }), "factor"),
        (Schedule::Llama3(Llama3 { low_freq_factor: x, ..llama() }), "low_freq_factor"),
        (Schedule::Llama3(Llama3 { high_freq_factor: x, ..llama() }), "high_freq_factor"),
        (Schedule::Proportional { fraction: 0.5, factor: x }, "factor"),
    ]
}

/// The same for settings that may be zero or negative, but not NaN or infinite.
fn signed_schedules_with(x: f64) -> Vec<(Schedule, &'static str)> {
    let scales = |one, all| Schedule::Yarn(Yarn { mscale: Some(one), mscale_all_dim: Some(all), ..yarn() });
    vec![
        (scales(x, 1.0), "mscale"),
        (scales(1.0, x), "mscale_all_dim"),
        (Schedule::ReceptiveField { alpha: x, rho: 1.0 }, "alpha"),
        (Schedule::ReceptiveField { alpha: 0.5, rho: x }, "rho"),
        (Schedule::Given(vec![1.0, x, 0.1, 0.0]), "frequencies"),
    ]
}

#[test]
fn impossible_settings_of_a_rule_are_refused_by_name() {
    for x in IMPOSSIBLE {
        for (schedule, name) in schedules_with(x) {
            refused(Rope::builder(8).schedule(schedule.clone()).build(), &[name], schedule);
        }
        let fraction = Schedule::Proportional { fraction: x, factor: 1.0 };
        if x != 0.0 {
            refused(Rope::builder(8).schedule(fraction.clone()).build(), &["fraction"], fraction);
        }
    }
    for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for (schedule, name) in signed_schedules_with(x) {
            refused(Rope::builder(8).schedule(schedule.clone()).build(), &[name], schedule);
        }
    }
    for (schedule, name) in [
        (Schedule::Proportional { fraction: 1.0 + f64::EPSILON, factor: 1.0 }, "fraction"),
        (Schedule::DynamicNtk { factor: 2.0, trained_length: 0 }, "trained_length"),
        (Schedule::Yarn(Yarn { original_length: 0, ..yarn() }), "original_length"),
        (Schedule::Yarn(Yarn { beta_fast: 0.5, ramp: Ramp::Rotations, ..yarn() }), "beta_fast"),
        (Schedule::LongRope(LongRope { original_length: 0, ..long_rope() }), "original_length"),
        // ln 1 = 0 divides in the attention factor.
        (Schedule::LongRope(LongRope { original_length: 1, ..long_rope() }), "original_length"),
        (Schedule::LongRope(LongRope { short: vec![], ..long_rope() }), "short_factor"),
        (Schedule::LongRope(LongRope { short: vec![1.0; 3], ..long_rope() }), "short_factor"),
        (Schedule::LongRope(LongRope { long: vec![1.0; 5], ..long_rope() }), "long_factor"),
        (Schedule::Llama3(Llama3 { original_length: 0, ..llama() }), "original_length"),
        (Schedule::Llama3(Llama3 { high_freq_factor: 0.5, ..llama() }), "high_freq_factor"),
        (Schedule::Given(vec![]), "frequencies"),
        (Schedule::Given(vec![1.0; 5]), "frequencies"),
    ] {
        refused(Rope::builder(8).schedule(schedule.clone()).build(), &[name], schedule);
    }
    // d/(d−2) has no value for d = 2; an axial rope has a d of its own for every axis.
    for schedule in
        [Schedule::NtkAware { factor: 2.0 }, Schedule::DynamicNtk { factor: 2.0, trained_length: 8 }]
    {
        refused(Rope::builder(2).schedule(schedule.clone()).build(), &["rotary_dim"], &schedule);
        let axial = Rope::builder(8).axes(Axes::Axial { axes: 4 }).schedule(schedule.clone());
        refused(axial.build(), &["rotary_dim"], schedule);
    }
    for xpos in [
        XPos { reference: f64::NAN, scale_base: 512.0 },
        XPos { reference: f64::INFINITY, scale_base: 512.0 },
        XPos { reference: 0.0, scale_base: 0.0 },
        XPos { reference: 0.0, scale_base: -512.0 },
        XPos { reference: 0.0, scale_base: f64::NAN },
        XPos { reference: 0.0, scale_base: f64::INFINITY },
    ] {
        refused(Rope::builder(8).xpos(xpos).build(), &["xpos"], xpos);
    }
}

#[test]
fn extreme_settings_of_a_rule_are_refused_or_work() {
    let mut failures = Vec::new();
    for x in EXTREME {
        let signed = signed_schedules_with(x).into_iter().chain(signed_schedules_with(-x));
        for (schedule, name) in schedules_with(x).into_iter().chain(signed) {
            if let Ok(rope) = Rope::builder(8).schedule(schedule.clone()).build()
                && let Err(error) = works(&rope)
            {
                failures.push(format!("{name} {x:e}: {error}"));
            }
        }
    }
    assert!(failures.is_empty(), "accepted, but:\n{}", failures.join("\n"));
}

#[test]
fn extreme_lengths_of_a_rule_are_refused_or_work() {
    for length in [1, 2, 1 << 53, u64::MAX] {
        refused_or_works(
            Rope::builder(8).schedule(Schedule::DynamicNtk { factor: 2.0, trained_length: length }),
        );
        refused_or_works(
            Rope::builder(8).schedule(Schedule::Yarn(Yarn { original_length: length, ..yarn() })),
        );
        let rotations = Yarn { original_length: length, ramp: Ramp::Rotations, ..yarn() };
        refused_or_works(Rope::builder(8).schedule(Schedule::Yarn(rotations)));
        refused_or_works(
            Rope::builder(8)
                .schedule(Schedule::LongRope(LongRope { original_length: length, ..long_rope() })),
        );
        refused_or_works(
            Rope::builder(8).schedule(Schedule::Llama3(Llama3 { original_length: length, ..llama() })),
        );
    }
}

/// Any number, the hostile ones often.
fn number() -> impl Strategy<Value = f64> {
    let hostile: Vec<f64> = IMPOSSIBLE.into_iter().chain(EXTREME).collect();
    prop_oneof![prop::sample::select(hostile), -2.0..100.0f64, any::<f64>()]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![0..10u64, Just(4096), Just(u64::MAX), any::<u64>()]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let list = || prop::collection::vec(number(), 3..6);
    let option = || prop::option::of(number());
    let ramp =
        prop_oneof![any::<bool>().prop_map(|truncate| Ramp::Index { truncate }), Just(Ramp::Rotations)];
    let yarn = (number(), length(), number(), number(), ramp, [option(), option(), option()]).prop_map(
        |(
            factor,
            original_length,
            beta_fast,
            beta_slow,
            ramp,
            [attention_factor, mscale, mscale_all_dim],
        )| {
            Schedule::Yarn(Yarn {
                factor,
                original_length,
                beta_fast,
                beta_slow,
                ramp,
                attention_factor,
                mscale,
                mscale_all_dim,
            })
        },
    );
    let long = (list(), list(), length(), number(), option()).prop_map(
        |(short, long, original_length, factor, attention_factor)| {
            Schedule::LongRope(LongRope { short, long, original_length, factor, attention_factor })
        },
    );
    let llama = (number(), number(), number(), length()).prop_map(
        |(factor, low_freq_factor, high_freq_factor, original_length)| {
            Schedule::Llama3(Llama3 { factor, low_freq_factor, high_freq_factor, original_length })
        },
    );
    prop_oneof![
        Just(Schedule::Default),
        number().prop_map(|factor| Schedule::Linear { factor }),
        number().prop_map(|factor| Schedule::NtkAware { factor }),
        (number(), length())
            .prop_map(|(factor, trained_length)| Schedule::DynamicNtk { factor, trained_length }),
        yarn,
        long,
        llama,
        (number(), number()).prop_map(|(fraction, factor)| Schedule::Proportional { fraction, factor }),
        (number(), number()).prop_map(|(alpha, rho)| Schedule::ReceptiveField { alpha, rho }),
        list().prop_map(Schedule::Given),
    ]
}

fn axes() -> impl Strategy<Value = Axes> {
    let list = || prop::collection::vec(0..5usize, 0..4);
    prop_oneof![
        4 => Just(Axes::One),
        1 => list().prop_map(Axes::Sections),
        1 => list().prop_map(Axes::Interleaved),
        1 => (0..6usize).prop_map(|axes| Axes::Axial { axes }),
    ]
}

proptest! {
    #![proptest_config(cases(30_000))]

    #[test]
    fn any_settings_are_refused_or_work(
        // Four pairs as a rule: what the lists of divisors and sections are made for.
        sizes in prop_oneof![
            Just((8, None, 0)),
            Just((12, Some(8), 2)),
            (0..12usize, prop::option::of(0..12usize), prop_oneof![0..4usize, Just(HUGE)]),
        ],
        base in prop_oneof![Just(10_000.0), number()],
        schedule in prop_oneof![Just(Schedule::Default), schedule()],
        axes in axes(),
        single in any::<bool>(),
    ) {
        let (head_dim, rotary_dim, offset) = sizes;
        let mut builder = Rope::builder(head_dim).rotary_offset(offset).base(base).schedule(schedule).axes(axes);
        if let Some(rotary_dim) = rotary_dim {
            builder = builder.rotary_dim(rotary_dim);
        }
        if single {
            builder = builder.angle_precision(AnglePrecision::F32);
        }
        if let Ok(rope) = builder.build() {
            prop_assert_eq!(rope.axis_of_pairs().len(), rope.pairs());
            prop_assert!(rope.frequencies(None).inv_freq().iter().all(|theta| theta.is_finite()));
            works(&rope).map_err(TestCaseError::fail)?;
        }
    }
}

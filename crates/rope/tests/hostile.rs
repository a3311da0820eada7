//! Hostile arguments to every public function besides those that read a config.json (for these: `hostile_config.rs`).
//!
//! Whatever is passed, the answer is a value that can be used or an error that names what was wrong. Nothing panics,
//! hangs, takes memory without end or stays half done.

use proptest::prelude::*;
use rope::{
    AnglePrecision, Axes, Error, HeadLayout, Ids, Llama3, LongRope, Pairing, Positions, Precision, Ramp,
    Result, Rope, RopeBuilder, Schedule, Table, Turn, View, ViewMut, XPos, Yarn, image_grid,
    permute_projection,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Debug;
use std::time::Duration;

/// A small machine: no piece of memory over 1 GiB is given out, so that a test that asks for the moon cannot take the
/// real machine down; and the n-th large piece can be refused, to see what a failure half way leaves behind.
struct SmallMachine;

const LARGEST: usize = 1 << 30;
const LARGE: usize = 1 << 16;

thread_local! {
    /// How many more large pieces this thread gets before one is refused.
    static REFUSE_AFTER: Cell<Option<usize>> = const { Cell::new(None) };
}

#[global_allocator]
static MACHINE: SmallMachine = SmallMachine;

// SAFETY: every piece comes from the system's allocator and goes back to it; "no memory" is an answer that is allowed
// at any time.
unsafe impl GlobalAlloc for SmallMachine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let left = REFUSE_AFTER.get();
        if layout.size() >= LARGE {
            REFUSE_AFTER.set(left.and_then(|left| left.checked_sub(1)));
        }
        if layout.size() > LARGEST || (layout.size() >= LARGE && left == Some(0)) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the piece came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Demands an error that says all of `words`.
#[track_caller]
fn refused<T>(result: Result<T>, words: &[&str], case: impl Debug) {
    let message = match result {
        Ok(_) => panic!("accepted: {case:?}"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{case:?}: `{word}` is not named in: {message}");
    }
}

/// Demands an answer within a few seconds.
#[track_caller]
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(3)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Demands finite cosines and sines, no larger than the attention factor, and finite vectors from every turn.
fn usable<P: Precision + Into<f64>>(table: &Table<P>) -> std::result::Result<(), String> {
    let (rows, head_dim) = (table.rows(), table.rope().head_dim());
    let limit = table.rope().schedule().attention_factor() * (1.0 + 1e-6);
    for &value in table.cos().iter().chain(table.sin()) {
        let value: f64 = value.into();
        if value.is_nan() || value.abs() > limit {
            return Err(format!("a table has a cosine or sine of {value:e}"));
        }
    }
    if head_dim > 8192 {
        return Ok(());
    }
    for turn in [Turn::Forward, Turn::Inverse, Turn::Backward] {
        let mut x = vec![P::from_f64(1.0); rows * head_dim];
        let mut view = ViewMut::blhd(&mut x, [1, rows, 1, head_dim]).unwrap();
        table.at(Positions::Rows).unwrap().rotate(turn, &mut view).unwrap();
        if x.into_iter().map(Into::<f64>::into).any(|value| !value.is_finite()) {
            return Err(format!("{turn:?} turns ones into numbers that are not finite"));
        }
    }
    Ok(())
}

/// Demands of a rope that was accepted: at everyday positions, tables that can be used; at hostile lengths and at the
/// ends of what positions may be, such tables or errors.
fn works(rope: &Rope) -> std::result::Result<(), String> {
    let axes = rope.axis_count();
    let near = [0.0, 1.0, -1.0, 2.5, 4095.0].repeat(axes);
    let far = [9007199254740992.0, -9007199254740992.0, 2147483647.0, 1e12].repeat(axes);
    for precision in [AnglePrecision::Exact, AnglePrecision::F32] {
        let rope = rope.clone().with_angle_precision(precision);
        let say = |when: &str| format!(" ({when}{precision:?}, {})", rope.schedule().name());
        match (rope.table_of::<f32>(&near, None), rope.table_of::<f64>(&near, None)) {
            (Ok(single), Ok(double)) => {
                usable(&single).and(usable(&double)).map_err(|error| error + &say(""))?
            }
            // Angles too large for their sine may be refused here or when the rope is built.
            _ if rope.frequencies(None).inv_freq().iter().any(|theta| theta.abs() > 1e6) => {}
            (single, _) => return Err(format!("no table: {:?}", single.map(|_| ()))),
        }
        for length in [1, 1 << 20, u64::MAX] {
            if let Ok(table) = rope.table_of::<f32>(&near, length) {
                usable(&table).map_err(|error| error + &say(&format!("length {length}, ")))?;
            }
        }
        if let Ok(table) = rope.table_of::<f64>(&far, None) {
            usable(&table).map_err(|error| error + &say("far positions, "))?;
        }
    }
    Ok(())
}

/// Demands an error or a rope that works.
#[track_caller]
fn refused_or_works(builder: RopeBuilder) {
    let case = format!("{builder:?}");
    if let Ok(rope) = builder.build() {
        works(&rope).unwrap_or_else(|error| panic!("accepted, but {error}\n{case}"));
    }
}

// ---------------------------------------------------------------------------------------------------------- builder

const HUGE: usize = usize::MAX;
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

fn yarn() -> Yarn {
    Yarn::new(4.0, 4096)
}

fn long_rope() -> LongRope {
    LongRope {
        short: vec![1.0; 4],
        long: vec![2.0; 4],
        original_length: 4096,
        factor: 4.0,
        attention_factor: None,
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
        (Schedule::Yarn(Yarn { beta_fast: 0.5, ..yarn() }), "beta_fast"),
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

/// Without a file of past failures: a failing case is printed, and belongs into a test above.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
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

// ----------------------------------------------------------------------------------------------------------- tables

fn plain() -> Rope {
    Rope::builder(4).build().unwrap()
}

#[test]
fn ranges_that_cannot_be_are_refused() {
    let rope = plain();
    for range in [
        0..i64::MAX,
        i64::MIN..0,
        i64::MIN..i64::MAX,
        i64::MAX - 1..i64::MAX,
        i64::MIN..i64::MIN + 1,
        i64::MAX..i64::MAX,
        0..(1 << 53) + 2,
    ] {
        refused(rope.table::<f32>(range.clone(), None), &["position"], &range);
        refused(rope.table::<f64>(range.clone(), u64::MAX), &["position"], &range);
    }
    // (Written so that clippy does not take the reversal for a slip.)
    for (start, end) in [(1, 0), (i64::MAX, i64::MIN), (5, -5), (i64::MAX, 0)] {
        refused(rope.table::<f32>(start..end, None), &["positions"], (start, end));
    }
    for range in [0..1 << 52, 0..1 << 40, -(1 << 52)..1 << 52, 0..1 << 30] {
        let result = rope.table::<f32>(range.clone(), None);
        assert!(matches!(result, Err(Error::Memory { .. })), "{range:?}: {:?}", result.map(|_| ()));
    }
    let wide = Rope::builder(8192).build().unwrap();
    refused(wide.table::<f64>(-(1 << 52)..1 << 52, None), &["bytes", "fewer positions"], "8192 features");
    // Nothing asked for is nothing wrong.
    for start in [0, 5, -5, 1 << 52, -(1 << 52)] {
        let table = rope.table::<f32>(start..start, None).unwrap();
        assert_eq!((table.rows(), table.cos().len(), table.sin().len()), (0, 0, 0));
    }
}

/// The bits of a rotation at position 1 and the frequencies that a table reports.
fn state(table: &Table<f32>) -> (Vec<u32>, Vec<f64>, usize, String) {
    let head_dim = table.rope().head_dim();
    let mut bits = Vec::new();
    for turn in [Turn::Forward, Turn::Inverse] {
        let mut x: Vec<f32> = (1..=head_dim).map(|x| x as f32).collect();
        let mut view = ViewMut::blhd(&mut x, [1, 1, 1, head_dim]).unwrap();
        table.at(Positions::From(1)).unwrap().rotate(turn, &mut view).unwrap();
        bits.extend(x.into_iter().map(f32::to_bits));
    }
    (bits, table.frequencies().inv_freq().to_vec(), table.rows(), table.to_string())
}

#[test]
fn a_refill_that_fails_leaves_the_table_as_it_was() {
    // A rule whose frequencies depend on the length, and one with an attention factor: twice as many lists.
    for schedule in [
        Schedule::DynamicNtk { factor: 2.0, trained_length: 16 },
        Schedule::LongRope(LongRope { original_length: 16, ..long_rope() }),
    ] {
        let rope = Rope::builder(8).schedule(schedule).build().unwrap();
        let mut table = rope.table::<f32>(0..8, None).unwrap();
        let before = state(&table);
        let (start, end) = (3, 2);
        for range in [0..i64::MAX, start..end, 0..1 << 53, 0..1 << 40] {
            refused(table.refill(range.clone(), 1 << 20), &[], &range);
            assert_eq!(state(&table), before, "after {range:?}");
        }
    }
}

#[test]
fn frequencies_that_are_given_anew_are_as_if_always_given_or_refused() {
    let given = |list: &[f64]| Rope::builder(6).schedule(Schedule::Given(list.to_vec())).build().unwrap();
    let (first, second) = ([1.0, 0.5, 0.25], [0.9, -0.1, 0.0]);
    for range in [0..8, -3..200] {
        let mut table = given(&first).table::<f32>(range.clone(), None).unwrap();
        table.refill_given(second).unwrap();
        assert_eq!(state(&table), state(&given(&second).table::<f32>(range.clone(), None).unwrap()));
        assert_eq!(table.rope(), &given(&second));
        for (list, word) in [
            (vec![f64::NAN, 1.0, 1.0], "finite"),
            (vec![1.0, f64::INFINITY, 1.0], "finite"),
            (vec![1.0; 2], "one frequency a pair: 3"),
            (vec![], "one frequency a pair: 3"),
            (vec![1e300; 3], "position"),
        ] {
            refused(table.refill_given(list.iter().copied()), &[word], &list);
            assert_eq!(state(&table), state(&given(&second).table::<f32>(range.clone(), None).unwrap()));
            assert_eq!(table.rope(), &given(&second));
        }
    }
    refused(plain().table::<f32>(0..4, None).unwrap().refill_given([1.0, 1.0]), &["given"], "a rule");
    let mut listed = given(&first).table_of::<f32>(&[0.0], None).unwrap();
    refused(listed.refill_given(second), &["positions"], "listed");
}

#[test]
fn a_refill_that_runs_out_of_memory_half_way_leaves_the_table_as_it_was() {
    // With an attention factor there are four lists, so four places to run out.
    let rope = Rope::builder(8).schedule(Schedule::Yarn(yarn())).build().unwrap();
    for large_pieces in 0..4 {
        let mut table = rope.table::<f32>(0..8, None).unwrap();
        let before = state(&table);
        REFUSE_AFTER.set(Some(large_pieces));
        let result = table.refill(0..100_000, None);
        REFUSE_AFTER.set(None);
        refused(result, &["bytes"], large_pieces);
        assert_eq!(state(&table), before, "after {large_pieces} pieces of memory");
    }
}

#[test]
fn lists_of_positions_that_cannot_be_are_refused() {
    let rope = plain();
    for position in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 9007199254740994.0] {
        refused(rope.table_of::<f32>(&[0.0, position], None), &["position"], position);
        refused(rope.table_of::<f64>(&[position], None), &["position"], position);
        refused(rope.rerotation::<f32>(&[position], None, &rope, &[0.0], None), &["position"], position);
        refused(rope.rerotation::<f32>(&[0.0], None, &rope, &[position], None), &["position"], position);
    }
    let axial = Rope::builder(8).axes(Axes::Axial { axes: 2 }).build().unwrap();
    let sections = Rope::builder(8).axes(Axes::Sections(vec![2, 1, 1])).build().unwrap();
    for count in [1, 5, 7] {
        refused(axial.table_of::<f32>(&vec![0.0; count], None), &["table_of", "multiple of 2"], count);
        refused(sections.table_of::<f32>(&vec![0.0; count], None), &["table_of", "multiple of 3"], count);
    }
    for rope in [&rope, &axial, &sections] {
        assert_eq!(rope.table_of::<f32>(&[], None).unwrap().rows(), 0);
    }
}

#[test]
fn xpos_and_plain_tables_are_not_mixed_up() {
    let (plain, scaled) = (plain(), Rope::builder(4).xpos(XPos::default()).build().unwrap());
    refused(plain.xpos_tables::<f32>(0..4, None), &["xPos"], "no xPos");
    refused(scaled.table::<f32>(0..4, None), &["xPos", "xpos_tables"], "table");
    refused(scaled.table_of::<f32>(&[0.0], None), &["xPos", "xpos_tables"], "table_of");
    refused(scaled.xpos_tables::<f32>(0..i64::MAX, None), &["position"], "range");
    refused(scaled.xpos_tables::<f32>(0..1 << 40, None), &["position"], "range");
    let (mut queries, _) = scaled.xpos_tables::<f32>(0..4, None).unwrap();
    let before = state(&queries);
    refused(queries.refill(0..2, None), &["xPos", "xpos_tables"], "refill");
    assert_eq!(state(&queries), before);
    refused(plain.rerotation::<f32>(&[0.0], None, &scaled, &[0.0], None), &["xPos"], "rerotation");
    refused(scaled.rerotation::<f32>(&[0.0], None, &plain, &[0.0], None), &["xPos"], "rerotation");
}

#[test]
fn xpos_scales_are_refused_or_can_be_used() {
    let mut failures = Vec::new();
    let far = 1 << 20;
    for (xpos, range) in [
        (XPos::default(), 0..4),
        (XPos::default(), far..far + 2), // 0.29^2048 is no number of f32, nor is its inverse
        (XPos::default(), (1 << 53) - 2..1 << 53),
        (XPos { reference: 0.0, scale_base: 5e-324 }, 0..4),
        (XPos { reference: 0.0, scale_base: f64::MAX }, 0..4),
        (XPos { reference: 1e308, scale_base: 1.0 }, 0..4),
        (XPos { reference: -1e308, scale_base: 1e-308 }, 0..4),
    ] {
        let Ok(rope) = Rope::builder(4).xpos(xpos).build() else { continue };
        let Ok((queries, keys)) = rope.xpos_tables::<f32>(range.clone(), None) else { continue };
        for (name, table) in [("queries", queries), ("keys", keys)] {
            for turn in [Turn::Forward, Turn::Inverse, Turn::Backward] {
                let mut x = [1.0f32; 4];
                let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 4]).unwrap();
                table.at(Positions::From(range.end - 1)).unwrap().rotate(turn, &mut view).unwrap();
                if x.iter().any(|x| !x.is_finite()) {
                    failures.push(format!("{xpos:?}, {range:?}, {name}, {turn:?}: {x:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "accepted, but:\n{}", failures.join("\n"));
}

#[test]
fn rerotations_that_do_not_match_are_refused() {
    let from = plain();
    let to = |builder: RopeBuilder| builder.build().unwrap();
    for (target, word) in [
        (to(Rope::builder(6)), "target"),
        (to(Rope::builder(4).rotary_dim(2)), "target"),
        (to(Rope::builder(4).pairing(Pairing::Interleaved)), "target"),
        (to(Rope::builder(4).axes(Axes::Sections(vec![1, 1]))), "axes"),
    ] {
        refused(from.rerotation::<f32>(&[1.0], None, &target, &[0.0], None), &[word], &target);
        refused(target.rerotation::<f32>(&[1.0], None, &from, &[0.0], None), &[word], &target);
    }
    refused(from.rerotation::<f32>(&[1.0], None, &from, &[], None), &["rerotation", "0", "1"], "lengths");
    refused(from.rerotation::<f32>(&[], None, &from, &[1.0, 2.0], None), &["rerotation"], "lengths");
    assert_eq!(from.rerotation::<f32>(&[], None, &from, &[], None).unwrap().rows(), 0);
}

// -------------------------------------------------------------------------------------------------------- positions

/// Position ids of one of the three types.
#[derive(Clone, Debug)]
enum Owned {
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
}

impl Owned {
    fn ids(&self) -> Ids<'_> {
        match self {
            Owned::I32(ids) => ids.into(),
            Owned::I64(ids) => ids.into(),
            Owned::U32(ids) => ids.into(),
        }
    }

    fn values(&self) -> Vec<i128> {
        match self {
            Owned::I32(ids) => ids.iter().map(|&id| id.into()).collect(),
            Owned::I64(ids) => ids.iter().map(|&id| id.into()).collect(),
            Owned::U32(ids) => ids.iter().map(|&id| id.into()).collect(),
        }
    }
}

fn ids() -> impl Strategy<Value = Owned> {
    let vec = |element: BoxedStrategy<i64>| prop::collection::vec(element, 0..7);
    let small = (-1..6i64).boxed();
    let wide = prop_oneof![8 => 0..5i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => any::<i64>()].boxed();
    // Cumulative lengths are seldom met by chance.
    let sorted = vec((0..5i64).boxed()).prop_map(|mut ids| {
        ids.sort_unstable();
        Owned::I64(ids)
    });
    prop_oneof![
        vec(small.clone()).prop_map(|ids| Owned::I32(ids.into_iter().map(|id| id as i32).collect())),
        vec((0..6i64).boxed()).prop_map(|ids| Owned::U32(ids.into_iter().map(|id| id as u32).collect())),
        vec(wide.clone()).prop_map(|ids| Owned::I32(ids.into_iter().map(|id| id as i32).collect())),
        vec(wide.clone()).prop_map(|ids| Owned::U32(ids.into_iter().map(|id| id as u32).collect())),
        vec(wide).prop_map(Owned::I64),
        vec(small).prop_map(Owned::I64),
        sorted,
    ]
}

/// Whether positions have a row for every token, worked out the slow way.
fn fit(
    positions: &Positions,
    ids: &Owned,
    covered: &[i128],
    listed: bool,
    batch: usize,
    length: usize,
) -> bool {
    let (ids, there) = (ids.values(), |position: i128| covered.contains(&position));
    match positions {
        Positions::Rows => listed && covered.len() == length,
        Positions::BatchRows => listed && covered.len() == batch * length,
        _ if listed => false,
        Positions::From(start) => (0..length).all(|token| there(i128::from(*start) + token as i128)),
        Positions::Ids(_) => ids.len() == length && ids.iter().all(|&id| there(id)),
        Positions::BatchIds(_) => ids.len() == batch * length && ids.iter().all(|&id| there(id)),
        Positions::Packed { .. } => {
            let starts = std::iter::once(0).chain(ids.iter().copied());
            let mut sequences = starts.zip(&ids);
            batch <= 1
                && ids.last().copied().unwrap_or(0) == length as i128
                && sequences.all(|(start, &end)| start <= end && (0..end - start).take(20).all(there))
        }
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn positions_are_taken_if_and_only_if_they_fit(
        (start, rows, listed) in (-2..3i64, 0..6usize, any::<bool>()),
        (kind, from, ids) in (0..6u8, prop_oneof![6 => -1..6i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)], ids()),
        [batch, length, heads] in [0..3usize, 0..5, 0..3],
        head_dim in prop_oneof![8 => Just(4usize), 1 => 0..7usize],
    ) {
        let rope = plain();
        let table: Table<f32> = match listed {
            true => rope.table_of(&vec![1.0; rows], None).unwrap(),
            false => rope.table(start..start + rows as i64, None).unwrap(),
        };
        let covered: Vec<i128> = (0..rows).map(|row| i128::from(start) + row as i128).collect();
        let positions = match kind {
            0 => Positions::From(from),
            1 => Positions::Ids(ids.ids()),
            2 => Positions::BatchIds(ids.ids()),
            3 => Positions::Packed { ends: ids.ids() },
            4 => Positions::Rows,
            _ => Positions::BatchRows,
        };
        let fits = head_dim == 4 && fit(&positions, &ids, &covered, listed, batch, length);
        let before: Vec<f32> = (0..batch * length * heads * head_dim).map(|x| x as f32 + 1.0).collect();
        let (mut q, mut k) = (before.clone(), before.clone());
        let shape = [batch, length, heads, head_dim];
        let mut view = ViewMut::blhd(&mut q, shape).unwrap();
        let rotated = table.at(positions).and_then(|rows| rows.rotate(Turn::Forward, &mut view));
        let copied = table.at(positions).and_then(|rows| {
            rows.rotate_to(Turn::Forward, &View::blhd(&before, shape)?, &mut ViewMut::blhd(&mut k, shape)?)
        });
        prop_assert_eq!(&rotated, &copied);
        // Without a single vector, positions that do not fit may be refused or passed over.
        if fits || !before.is_empty() || head_dim != 4 {
            prop_assert_eq!(rotated.is_ok(), fits, "{:?}", rotated);
        }
        if rotated.is_err() {
            prop_assert_eq!(&q, &before);
            prop_assert_eq!(&k, &before);
        } else {
            prop_assert_eq!(&q, &k);
        }
    }
}

#[test]
fn errors_about_positions_name_them() {
    let rope = plain();
    let (range, list) = (rope.table::<f32>(0..8, None).unwrap(), rope.table_of::<f32>(&[0.0], None).unwrap());
    for id in [-1, 8, i64::MIN, i64::MAX] {
        let word = id.to_string();
        refused(range.at(Positions::ids(&[0, id])), &[&word, "0..8"], id);
        refused(range.at(Positions::batch_ids(&[id, 3])), &[&word, "0..8"], id);
        let mut x = [0.0f32; 4];
        let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 4]).unwrap();
        let at = range.at(Positions::From(id));
        refused(at.and_then(|rows| rows.rotate(Turn::Forward, &mut view)), &[&word, "0..8"], id);
    }
    refused(range.at(Positions::packed(&[2, 1])), &["ends", "1 after 2"], "decreasing");
    refused(range.at(Positions::packed(&[-1])), &["ends", "-1"], "negative");
    refused(range.at(Positions::packed(&[i64::MIN, i64::MAX])), &["ends"], "extremes");
    refused(range.at(Positions::packed(&[0, i64::MAX])), &["0..8"], "too long");
    refused(range.at(Positions::packed(&[u32::MAX])), &["0..8"], "too long");
    refused(range.at(Positions::Rows), &["positions"], "rows of a range");
    refused(range.at(Positions::BatchRows), &["positions"], "rows of a range");
    refused(list.at(Positions::From(0)), &["positions"], "a range of listed rows");
    refused(list.at(Positions::ids(&[0])), &["positions"], "ids of listed rows");
    refused(list.at(Positions::packed(&[1])), &["positions"], "sequences of listed rows");
}

// ------------------------------------------------------------------------------------------------------------ views

/// Where the vectors of a strided view begin.
fn starts(shape: [usize; 4], strides: [usize; 3]) -> Vec<usize> {
    let [batch, length, heads, head_dim] = shape;
    let mut list = Vec::new();
    for b in 0..batch {
        for l in 0..length {
            for h in 0..heads {
                list.push(b * strides[0] + l * strides[1] + h * strides[2]);
            }
        }
    }
    if head_dim == 0 { Vec::new() } else { list }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn views_reach_into_their_slice_alone(
        shape in [0..4usize, 0..4, 0..4, 0..5],
        strides in [0..20usize, 0..20, 0..20],
        len in 0..60usize,
    ) {
        let mut data = vec![0.0f32; len];
        let starts = starts(shape, strides);
        let within = starts.iter().all(|start| start + shape[3] <= len);
        prop_assert_eq!(View::strided(&data, shape, strides).is_ok(), within);
        if ViewMut::strided(&mut data, shape, strides).is_ok() {
            prop_assert!(within);
            let mut elements: Vec<usize> =
                starts.iter().flat_map(|&start| start..start + shape[3]).collect();
            let count = elements.len();
            elements.sort_unstable();
            elements.dedup();
            prop_assert_eq!(elements.len(), count, "vectors overlap");
        }
        let size: usize = shape.iter().product();
        prop_assert_eq!(View::blhd(&data, shape).is_ok(), size == len);
        prop_assert_eq!(View::bhld(&data, shape).is_ok(), size == len);
        prop_assert_eq!(ViewMut::blhd(&mut data, shape).is_ok(), size == len);
        prop_assert_eq!(ViewMut::bhld(&mut data, shape).is_ok(), size == len);
    }

    #[test]
    fn views_of_any_size_never_overflow(
        shape in prop::array::uniform4(size()),
        strides in prop::array::uniform3(size()),
    ) {
        let mut data = [1.0f32; 8];
        let end = |axis: usize| (shape[axis].max(1) as u128 - 1) * strides[axis] as u128;
        let end = end(0).saturating_add(end(1)).saturating_add(end(2)).saturating_add(shape[3] as u128);
        let within = shape.contains(&0) || end <= 8;
        prop_assert_eq!(View::strided(&data, shape, strides).is_ok(), within);
        prop_assert!(within || ViewMut::strided(&mut data, shape, strides).is_err());
        let full = shape.iter().try_fold(1u128, |all, &size| all.checked_mul(size as u128)) == Some(8);
        prop_assert!(full || View::blhd(&data, shape).is_err());
        prop_assert!(full || ViewMut::bhld(&mut data, shape).is_err());
        let _ = View::blhd(&data[..0], shape);
        let _ = ViewMut::bhld(&mut data[..0], shape);
        // A shape without elements is turned without touching anything, however long its other axes are.
        let table = plain().table::<f32>(0..4, None).unwrap();
        if let Ok(mut view) = ViewMut::strided(&mut data, shape, strides) && shape.contains(&0) {
            let _ = table.at(Positions::From(0)).unwrap().rotate(Turn::Forward, &mut view);
            let copy = [0.0f32; 8];
            let source = View::strided(&copy, shape, strides).unwrap();
            let _ = table.at(Positions::From(0)).unwrap().rotate_to(Turn::Forward, &source, &mut view);
            let _ = table.at(Positions::packed(&[2, 4])).unwrap().rotate(Turn::Forward, &mut view);
            prop_assert_eq!(data, [1.0; 8]);
        }
        // SAFETY: nothing is read or written through these views; they are made and dropped.
        unsafe {
            let dangling = std::ptr::NonNull::<f32>::dangling().as_ptr();
            let reach = end <= (isize::MAX as u128) / 4 || shape.contains(&0);
            prop_assert_eq!(View::from_raw(dangling, shape, strides).is_ok(), reach);
            prop_assert!(reach || ViewMut::from_raw(dangling, shape, strides).is_err());
        }
    }
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..5usize,
        1 => Just(HUGE),
        1 => Just(HUGE / 2 + 1),
        1 => Just(1 << 32),
        1 => any::<usize>()
    ]
}

#[test]
fn errors_about_views_name_the_sizes() {
    let mut data = [0.0f32; 16];
    refused(View::blhd(&data, [1, 1, 1, 4]), &["16 elements", "head_dim 4"], "too long");
    refused(View::bhld(&data, [2, 3, 4, 4]), &["16 elements", "length 4, heads 3"], "too short");
    refused(View::blhd(&data, [HUGE, 2, 1, 4]), &["overflow"], "overflow");
    refused(View::strided(&data, [2, 2, 2, 4], [8, 8, 4]), &["16 elements", "at least 24"], "too short");
    refused(View::strided(&data, [2, HUGE, 2, 4], [8, 8, 4]), &["overflow"], "overflow");
    for (shape, strides) in [
        ([2, 1, 1, 4], [0, 0, 0]),
        ([1, 2, 1, 4], [0, 3, 0]),
        ([1, 1, 2, 4], [0, 0, 3]),
        ([2, 2, 1, 4], [4, 4, 0]),
        ([1, 2, 2, 4], [0, 4, 8]),
        ([1, 2, 3, 2], [0, 3, 2]),
    ] {
        let result = ViewMut::strided(&mut data, shape, strides).map(|_| ());
        match (shape, strides) {
            // Tokens inside heads: no overlap.
            (_, [0, 4, 8]) => result.unwrap(),
            _ => refused(result, &["overlap"], (shape, strides)),
        }
    }
}

// --------------------------------------------------------------------------------------------------------- rotation

#[test]
fn a_rotation_that_is_refused_changes_nothing() {
    let table = plain().table::<f32>(0..4, None).unwrap();
    let good = [1, 4, 2, 4];
    let fill = |shape: [usize; 4]| vec![1.0f32; shape.iter().product()];
    for other in [[1, 4, 2, 6], [1, 5, 2, 4], [1, 3, 1, 4], [2, 4, 2, 4], [0, 4, 1, 4], [1, 0, 1, 4]] {
        for (first, second) in [(good, other), (other, good)] {
            let (mut q, mut k) = (fill(first), fill(second));
            let rows = table.at(Positions::From(0)).unwrap();
            let mut views = (ViewMut::blhd(&mut q, first).unwrap(), ViewMut::blhd(&mut k, second).unwrap());
            let result = rows.rotate_pair(Turn::Forward, &mut views.0, &mut views.1);
            refused(result, &["head_dim"].map(|word| if other[1] == 5 { "position 4" } else { word }), other);
            assert!(q.iter().chain(&k).all(|&x| x == 1.0), "{other:?}");

            let (x, mut y) = (fill(first), fill(second));
            let mut target = ViewMut::blhd(&mut y, second).unwrap();
            let result = rows.rotate_to(Turn::Forward, &View::blhd(&x, first).unwrap(), &mut target);
            assert!(result.is_err(), "{first:?} into {second:?}");
            assert!(y.iter().all(|&y| y == 1.0), "{other:?}");
        }
    }
    // Heads may differ.
    let (mut q, mut k) = (fill(good), fill([1, 4, 1, 4]));
    let (mut q, mut k) = (ViewMut::blhd(&mut q, good).unwrap(), ViewMut::bhld(&mut k, [1, 1, 4, 4]).unwrap());
    table.at(Positions::From(0)).unwrap().rotate_pair(Turn::Forward, &mut q, &mut k).unwrap();
}

#[test]
fn nothing_to_rotate_is_nothing_wrong() {
    let table = plain().table::<f32>(0..4, None).unwrap();
    for shape in [[0, 4, 2, 4], [1, 0, 2, 4], [1, 4, 0, 4], [0, 0, 0, 4]] {
        let rows = table.at(Positions::From(0)).unwrap();
        let (mut q, mut k): ([f32; 0], [f32; 0]) = ([], []);
        let (mut q, mut k) = (ViewMut::blhd(&mut q, shape).unwrap(), ViewMut::blhd(&mut k, shape).unwrap());
        rows.rotate(Turn::Forward, &mut q).unwrap();
        rows.rotate_pair(Turn::Inverse, &mut q, &mut k).unwrap();
        rows.rotate_to(Turn::Backward, &k.as_view(), &mut q).unwrap();
        rows.frequency_gradient(&k.as_view(), &q.as_view(), &mut [0.0; 2]).unwrap();
    }
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let rope = plain();
    let (range, list) = (rope.table::<f32>(0..4, None).unwrap(), rope.table_of::<f32>(&[0.0], None).unwrap());
    let data = [1.0f32; 16];
    let view = |shape| View::blhd(&data[..shape_size(shape)], shape).unwrap();
    let rows = range.at(Positions::From(0)).unwrap();
    let y = view([1, 4, 1, 4]);
    for length in [0, 1, 3, 4, 1000] {
        let mut gradient = vec![7.0; length];
        let words = ["frequency_gradient", "one value a pair: 2"];
        refused(rows.frequency_gradient(&y, &y, &mut gradient), &words, length);
        assert!(gradient.iter().all(|&value| value == 7.0));
    }
    let mut gradient = [7.0; 2];
    for other in [[1, 2, 2, 4], [1, 3, 1, 4], [2, 2, 1, 4], [1, 2, 4, 2], [1, 8, 1, 2]] {
        refused(rows.frequency_gradient(&y, &view(other), &mut gradient), &["batch"], other);
    }
    refused(rows.frequency_gradient(&view([1, 2, 1, 6]), &y, &mut gradient), &["head_dim"], "head_dim");
    let listed = list.at(Positions::Rows).unwrap();
    let one = view([1, 1, 1, 4]);
    refused(listed.frequency_gradient(&one, &one, &mut gradient), &["positions"], "listed");
    assert_eq!(gradient, [7.0; 2]);
}

fn shape_size(shape: [usize; 4]) -> usize {
    shape.iter().product()
}

#[test]
fn gradients_of_nothing_take_no_time() {
    for shape in [[1 << 40, 4, 0, 4], [1 << 60, 1, 0, 4], [1 << 60, 0, 3, 4]] {
        in_time(&format!("the gradient over {shape:?}"), move || {
            let table = plain().table::<f32>(0..4, None).unwrap();
            let data = [0.0f32; 0];
            let view = View::blhd(&data, shape).unwrap();
            let mut gradient = [7.0; 2];
            table.at(Positions::From(0)).unwrap().frequency_gradient(&view, &view, &mut gradient).unwrap();
            assert_eq!(gradient, [7.0; 2]);
        });
    }
}

// --------------------------------------------------------------------------------------------------- weights, images

#[test]
fn projections_that_do_not_fit_are_refused() {
    let head = HeadLayout { heads: 2, head_dim: 4, rotary_dim: 4, rotary_offset: 0 };
    let weight = [1.0f32; 24];
    let try_it = |head: HeadLayout, columns: usize, length: usize, word: &str| {
        let mut out = vec![7.0f32; length];
        let result =
            permute_projection(&weight, &mut out, columns, head, Pairing::Interleaved, Pairing::Half);
        refused(result, &[word], (head, columns, length));
        assert!(out.iter().all(|&x| x == 7.0));
    };
    for (columns, length) in [(3, 23), (3, 0), (2, 24), (0, 24), (HUGE, 24), (3, 25)] {
        try_it(head, columns, length, "permute_projection");
    }
    for heads in [0, 1, 3, HUGE, HUGE / 2 + 1] {
        try_it(HeadLayout { heads, ..head }, 3, 24, "permute_projection");
    }
    for rotary_dim in [1, 3, HUGE] {
        try_it(HeadLayout { rotary_dim, ..head }, 3, 24, "rotary_dim");
    }
    try_it(HeadLayout { rotary_dim: 6, ..head }, 3, 24, "rotary_dim");
    for rotary_offset in [1, 4, HUGE, HUGE - 3] {
        try_it(HeadLayout { rotary_offset, ..head }, 3, 24, "rotary_offset");
    }
    try_it(HeadLayout { head_dim: HUGE, ..head }, 3, 24, "permute_projection");
}

#[test]
fn projections_of_nothing_take_no_time() {
    for (heads, head_dim, columns) in [(0, 4, 3), (HUGE, 0, 3), (1 << 60, 4, 0), (HUGE, 0, 0), (2, 4, 0)] {
        in_time(&format!("{heads} heads of {head_dim} features, {columns} columns"), move || {
            let head = HeadLayout { heads, head_dim, rotary_dim: head_dim, rotary_offset: 0 };
            let mut out = [0.0f32; 0];
            permute_projection(&[], &mut out, columns, head, Pairing::Interleaved, Pairing::Half).unwrap();
        });
    }
}

#[test]
fn image_grids_are_made_or_refused() {
    for (height, width) in [(HUGE, HUGE), (HUGE, 1), (1 << 32, 1 << 32), (1 << 20, 1 << 20), (3, HUGE)] {
        let Err(Error::Memory { bytes }) = image_grid(height, width) else { panic!("{height} × {width}") };
        assert!(bytes >= height as u128 * width as u128, "{height} × {width}: {bytes} bytes");
    }
    for (height, width) in [(0, 5), (5, 0), (0, 0), (0, HUGE), (HUGE, 0)] {
        assert!(image_grid(height, width).unwrap().is_empty(), "{height} × {width}");
    }
    assert_eq!(image_grid(2, 2).unwrap(), [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_pairing_is_one_of_three_names(name in prop_oneof!["[a-z_]{0,24}", ".{0,60}", "(Half|half ?)"]) {
        let known = ["interleaved", "half", "interleaved_to_half"];
        match name.parse::<Pairing>() {
            Ok(pairing) => prop_assert_eq!(pairing.name(), name),
            Err(error) => {
                prop_assert!(!known.contains(&name.as_str()));
                let message = error.to_string();
                prop_assert!(message.contains("pairing") && known.iter().all(|name| message.contains(name)));
            }
        }
    }
}

//! A small machine, and what all that works must do.

use proptest::prelude::*;
use rope::{
    AnglePrecision, LongRope, Positions, Precision, Result, Rope, RopeBuilder, Table, Turn, ViewMut, Yarn,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Debug;
use std::time::Duration;

/// A small machine: no piece of memory over 1 GiB is given out, so that a test that asks for the moon cannot take the
/// real machine down; and the n-th large piece can be refused, to see what a failure half way leaves behind.
pub struct SmallMachine;

pub const LARGEST: usize = 1 << 30;
pub const LARGE: usize = 1 << 16;

thread_local! {
    /// How many more large pieces this thread gets before one is refused.
    pub static REFUSE_AFTER: Cell<Option<usize>> = const { Cell::new(None) };
}

#[global_allocator]
pub static MACHINE: SmallMachine = SmallMachine;

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
pub fn refused<T>(result: Result<T>, words: &[&str], case: impl Debug) {
    let message = match result {
        Ok(_) => panic!("accepted: {case:?}"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{case:?}: `{word}` is not named in: {message}");
    }
}

/// Demands an answer: within far more time than a busy machine needs, so that what runs out of it would never end.
#[track_caller]
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(600)).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Demands finite cosines and sines, no larger than the attention factor, and finite vectors from every turn.
pub fn usable<P: Precision + Into<f64>>(table: &Table<P>) -> std::result::Result<(), String> {
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
pub fn works(rope: &Rope) -> std::result::Result<(), String> {
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
pub fn refused_or_works(builder: RopeBuilder) {
    let case = format!("{builder:?}");
    if let Ok(rope) = builder.build() {
        works(&rope).unwrap_or_else(|error| panic!("accepted, but {error}\n{case}"));
    }
}

/// More than anything has.
pub const HUGE: usize = usize::MAX;

/// Without a file of past failures: a failing case is printed, and belongs into a test.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The plainest embedding.
pub fn plain() -> Rope {
    Rope::builder(4).build().unwrap()
}

pub fn yarn() -> Yarn {
    Yarn::new(4.0, 4096)
}

pub fn long_rope() -> LongRope {
    LongRope {
        short: vec![1.0; 4],
        long: vec![2.0; 4],
        original_length: 4096,
        factor: 4.0,
        attention_factor: None,
    }
}

//! A training step allocates nothing after the first few, whatever the encoding: neither from the heap nor from the system.

use roformer::blueprint::{Blueprint, Dims, Direction, LinearForm, Mixing};
use roformer::encoding::{Encoding, Rotary};
use roformer::graph::{Batch, mix};
use roformer::network::{Laid, Network, Task};
use roformer::ops::optimizer::{AdamW, State, clip, global_norm};
use roformer::train::{self, Data, Settings};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what threads that are counted ask for.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    COUNT.fetch_add(usize::from(IS_COUNTED.get()), Ordering::Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything comes from the system's allocator and goes back to it, as it was asked for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Pages that the process has mapped; 0 where the system does not tell.
fn pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().next().and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// All that a step does, on the calling thread and its pool.
struct Trainer {
    laid: Laid<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    ranges: Vec<(Range<usize>, bool)>,
}

/// More than 2¹⁵ numbers of a value, so that they are shared out among threads; heads of an even number of pairs, as axial wants them.
const SIZES: (usize, usize, usize) = (4, 70, 128);

impl Trainer {
    fn new(network: &Network) -> Self {
        let (batch, length, _) = SIZES;
        let mut laid = network.build::<f32>(batch, length, length).unwrap();
        let layout = laid.graph.layout().clone();
        layout.initialise(1, laid.graph.parameters_mut());
        let ids = |seed: u64| -> Vec<u32> {
            (0..batch * length)
                .map(|index| (mix(seed ^ index as u64) % network.blueprint.vocabulary as u64) as u32)
                .collect()
        };
        let positions =
            network.blueprint.encoding.as_encode::<f32>().positions(length, 1, 1).unwrap_or_default();
        let mask = (0..batch * length).map(|index| index % length < 60).collect();
        let given = Batch { ids: ids(1 << 32), targets: ids(2 << 32), positions, mask, ..Batch::default() };
        laid.set(Batch { is_training: true, ..given }).unwrap();
        let zeros = vec![0.0; layout.len()];
        let ranges = layout.entries().iter().map(|entry| (entry.range.clone(), entry.is_matrix()));
        Trainer { laid, first: zeros.clone(), second: zeros, ranges: ranges.collect() }
    }

    fn step(&mut self, step: u64) {
        let graph = &mut self.laid.graph;
        graph.batch().step = step;
        assert!(graph.forward().is_finite());
        graph.clear();
        assert!(graph.step(0.5).is_finite() && graph.step(0.5).is_finite());
        let (parameters, gradients) = graph.both_mut();
        let norm = clip(gradients, 1.0);
        assert!(norm > 0.0 && global_norm(gradients) > 0.0);
        let adam = AdamW::default();
        let mut state = State { parameters, gradients, first: &mut self.first, second: &mut self.second };
        adam.apply(&adam.at(step, 1e-3, 1.0), &mut state, &self.ranges);
    }
}

fn network(form: Blueprint, encoding: Encoding, mixing: Mixing) -> Network {
    let key_heads = if mixing == Mixing::Softmax { 2 } else { 4 };
    let direction = Direction::Causal;
    let blueprint = Blueprint { key_heads, wide: 130, direction, encoding, mixing, ..form };
    Network { blueprint, dropout: 0.1, task: Task::Language }
}

// One test, so that nothing else runs beside it.
#[test]
fn a_step_allocates_nothing() {
    let start = |_| IS_COUNTED.set(true);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).start_handler(start).build().unwrap();
    let learned = Encoding::Rotary(Rotary { is_learned: true, ..Rotary::default() });
    let dims = Dims { vocabulary: 50, width: SIZES.2, layers: 2, heads: 4 };
    let forms = [Blueprint::roformer(dims).unwrap(), Blueprint::plain(dims), Blueprint::llama(dims).unwrap()];
    let mut checked = 0;
    for encoding in Encoding::all().into_iter().chain([learned]) {
        for mixing in [Mixing::Softmax, Mixing::Linear(LinearForm::default())] {
            if mixing != Mixing::Softmax && encoding.check_linear().is_err() {
                continue;
            }
            for form in &forms {
                let network = network(form.clone(), encoding.clone(), mixing);
                let mut trainer = Trainer::new(&network);
                // On a thread of the pool: to hand work to it may allocate.
                let (counted, mapped) = pool.install(|| {
                    (1..=3).for_each(|step| trainer.step(step));
                    let (mapped, count) = (pages(), COUNT.load(Ordering::Relaxed));
                    (4..=6).for_each(|step| trainer.step(step));
                    (COUNT.load(Ordering::Relaxed) - count, pages() - mapped)
                });
                let what = format!("{} {mixing:?} {:?}", encoding.name(), form.family);
                assert_eq!((counted, mapped), (0, 0), "allocations and pages: {what}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 3 * (15 + 9), "{checked} networks");
    // A run makes its batches in the same memory.
    let text =
        Data::from_text(&"all the world's a stage, and all the men and women merely players\n".repeat(90));
    let settings =
        Settings { layers: 1, width: 64, heads: 2, dropout: 0.1, accumulate: 2, ..Settings::default() };
    let mut run = train::Trainer::new(&settings, text.unwrap()).unwrap();
    let mut step = || assert!(run.step().unwrap().is_finite());
    let counted = pool.install(|| {
        (0..3).for_each(|_| step());
        let count = COUNT.load(Ordering::Relaxed);
        (0..3).for_each(|_| step());
        COUNT.load(Ordering::Relaxed) - count
    });
    assert_eq!(counted, 0, "allocations of a run");
    // The count counts.
    let before = COUNT.load(Ordering::Relaxed);
    pool.install(|| std::hint::black_box(vec![1u8; 10]));
    assert!(COUNT.load(Ordering::Relaxed) > before);
}

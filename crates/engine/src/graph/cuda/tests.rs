//! Programs that no network is: what a step does where it fails, and gradients that come from several places.

use super::*;
use crate::graph::attend::Attend;
use crate::graph::{Graph as OnProcessor, Init};
use crate::ops::cuda::Arithmetic;

const TEXTS: usize = 2;
const LENGTH: usize = 5;
const HEADS: usize = 2;
const HEAD_DIM: usize = 8;
const VOCABULARY: usize = 11;

fn gpu(arithmetic: Arithmetic) -> Option<Cuda> {
    let find = || {
        let gpu = Cuda::new(0, arithmetic)?;
        gpu.load_training_kernels()?;
        Ok::<_, Error>(gpu)
    };
    gpu::testing::or_skip(find())
}

/// Tokens whose joined rows are read by attention, and by one more operation before or after it.
fn builder(is_read_after: bool) -> Builder<f32> {
    builder_of(is_read_after, LENGTH, HEAD_DIM)
}

/// The same for texts of a length, and heads of so many features.
fn builder_of(is_read_after: bool, length: usize, head_dim: usize) -> Builder<f32> {
    let mut builder = Builder::default();
    let (rows, width) = (TEXTS * length, HEADS * head_dim);
    let spread = Init::Normal(0.5);
    let table = builder.parameters().add("table", &[VOCABULARY, width], spread.clone());
    let weight = builder.parameters().add("joined", &[3 * width, width], spread.clone());
    let out = builder.parameters().add("out", &[VOCABULARY, width], spread);
    let x = builder.tokens(table, rows, width);
    let joined = builder.linear(x, weight, None, 3 * width);
    let read = |builder: &mut Builder<f32>| builder.columns(joined, width, width);
    let before = (!is_read_after).then(|| read(&mut builder));
    let attended = builder.attend(Attend {
        joined,
        batch: TEXTS,
        heads: HEADS,
        key_heads: HEADS,
        head_dim,
        is_causal: true,
        window: None,
        chunk: None,
        dropout: 0.0,
        terms: Default::default(),
        distant: None,
    });
    let columns = before.unwrap_or_else(|| read(&mut builder));
    let sum = builder.sum(attended, columns);
    let scores = builder.linear(sum, out, None, VOCABULARY);
    let loss = builder.class_loss(scores);
    builder.minimise(loss);
    builder
}

fn batch() -> Batch {
    batch_of(LENGTH)
}

fn batch_of(length: usize) -> Batch {
    let ids: Vec<u32> =
        (0..TEXTS as u32 * length as u32).map(|index| index * 7 % VOCABULARY as u32).collect();
    let targets = ids.iter().map(|id| (id + 3) % VOCABULARY as u32).collect();
    Batch { ids, targets, ..Batch::default() }
}

fn still() -> Update {
    Update { adam: AdamW::default(), step: 1, rate: 0.0, clip: 0.0 }
}

#[test]
fn what_is_read_twice_gets_both_gradients() {
    for arithmetic in [Arithmetic::F32, Arithmetic::Bf16] {
        let Some(gpu) = gpu(arithmetic) else { return };
        for is_read_after in [false, true] {
            let mut known: OnProcessor<f32> = builder(is_read_after).build().unwrap();
            let layout = known.layout().clone();
            layout.initialise(3, known.parameters_mut());
            *known.batch() = batch();
            known.clear();
            let loss = known.step(1.0);

            let mut program = Program::new(&gpu, &builder(is_read_after), TEXTS).unwrap();
            program.set_parameters(known.parameters()).unwrap();
            // Launch by launch, recorded, replayed.
            for turn in 0..3 {
                let (found, _) = program.step(&batch(), Part { index: 0, count: 1 }, &still()).unwrap();
                let mut gradients = vec![0.0; layout.len()];
                program.gradients(&mut gradients).unwrap();
                let largest = known.gradients().iter().fold(0f32, |a, b| a.max(b.abs()));
                let bound = if arithmetic == Arithmetic::Bf16 { 6e-2 } else { 1e-4 };
                assert!((found - loss).abs() <= bound as f64 * loss, "{found} but {loss}");
                for (index, (got, expected)) in gradients.iter().zip(known.gradients()).enumerate() {
                    let what = format!("{arithmetic:?}, after: {is_read_after}, turn {turn}, {index}");
                    assert!((got - expected).abs() <= bound * largest, "{what}: {got} but {expected}");
                }
            }
        }
    }
}

/// Texts that are long enough for cuDNN, with masks that it takes and one that it does not take, in turns: each kind is recorded by
/// itself.
#[test]
fn long_texts_with_every_kind_of_mask() {
    const LENGTH: usize = 150;
    let builder = || builder_of(true, LENGTH, 40);
    let Some(gpu) = gpu(Arithmetic::Bf16) else { return };
    let mut known: OnProcessor<f32> = builder().build().unwrap();
    let layout = known.layout().clone();
    layout.initialise(3, known.parameters_mut());
    let mut program = Program::new(&gpu, &builder(), TEXTS).unwrap();
    program.set_parameters(known.parameters()).unwrap();
    let real = |counts: [usize; TEXTS]| -> Vec<bool> {
        counts.iter().flat_map(|&count| (0..LENGTH).map(move |token| token < count)).collect()
    };
    let mut holes = real([LENGTH; TEXTS]);
    (0..LENGTH).step_by(3).for_each(|token| holes[token] = false);
    let masks = [Vec::new(), real([LENGTH, 70]), holes, real([1, LENGTH]), real([LENGTH, 0])];
    let mut results: Vec<(f64, Vec<f32>)> = Vec::new();
    // Launch by launch, recorded, replayed.
    for turn in 0..3 {
        for (kind, mask) in masks.iter().enumerate() {
            let given = Batch { mask: mask.clone(), ..batch_of(LENGTH) };
            let (found, _) = program.step(&given, Part { index: 0, count: 1 }, &still()).unwrap();
            let mut gradients = vec![0.0; layout.len()];
            program.gradients(&mut gradients).unwrap();
            if turn > 0 {
                assert!(results[kind] == (found, gradients), "mask {kind}, turn {turn}: other bits");
                continue;
            }
            *known.batch() = given;
            known.clear();
            let loss = known.step(1.0);
            assert!((found - loss).abs() <= 6e-2 * loss, "mask {kind}: {found} but {loss}");
            let norm = |list: &[f32]| list.iter().map(|x| x * x).sum::<f32>().sqrt();
            let off: Vec<f32> = gradients.iter().zip(known.gradients()).map(|(a, b)| a - b).collect();
            let bound = 6e-2 * norm(known.gradients());
            assert!(norm(&off) <= bound, "mask {kind}: {} of {bound}", norm(&off));
            results.push((found, gradients));
        }
    }
    let evaluated = program.evaluate(&batch_of(LENGTH)).unwrap();
    assert!((evaluated - results[0].0).abs() <= 1e-6 * evaluated, "{evaluated} but {}", results[0].0);
}

/// A step that fails in the middle has given copies to the stream that read and write memory of the CPU's: it returns when they are
/// done, and the next one is right.
#[test]
fn a_step_that_fails_leaves_nothing_under_way() {
    let Some(gpu) = gpu(Arithmetic::F32) else { return };
    let mut program = Program::new(&gpu, &builder(true), TEXTS).unwrap();
    let layout = builder(true).layout().clone();
    let mut numbers = vec![0.0; layout.len()];
    layout.initialise(3, &mut numbers);
    program.set_parameters(&numbers).unwrap();
    let expected = program.evaluate(&batch()).unwrap();

    let large = Block::zeros(program.gpu.queue(), 1 << 28).unwrap();
    let slow = move |_: &Launcher| (0..200).try_for_each(|_| Ok(large.clear(large.span())?));
    program.forward.push((When::Always, Box::new(slow)));
    program.forward.push((When::Always, Box::new(|_: &Launcher| Err(Error::Device("made to fail".into())))));
    let error = program.evaluate(&batch()).unwrap_err();
    assert!(error.to_string().contains("made to fail"), "{error}");
    assert!(program.gpu.queue().stream().is_idle().unwrap(), "work is still under way");

    program.forward.truncate(program.forward.len() - 2);
    assert_eq!(program.evaluate(&batch()).unwrap(), expected);
}

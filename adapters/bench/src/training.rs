//! A training step of a small Llama in candle, forward and backward, with three rotations: candle's slow one, which has gradients, ours
//! under candle's name, and ours by a `RotaryEmbedding`.

use crate::llama::{HEAD_DIM, HEADS, HIDDEN, KEY_HEADS, LAYERS, Llama, WORDS};
use crate::{Job, Result, measure};
use candle_core::{DType, Device, Tensor};
use rope::Rope;
use rope_candle::{Positions, RotaryEmbedding};

const BATCH: usize = 2;

pub fn run(length: usize) -> Result<()> {
    let llama = Llama::new()?;
    let words: Vec<u32> =
        (0..(BATCH * (length + 1)) as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 22).collect();
    let words = Tensor::from_vec(words, (BATCH, length + 1), &Device::Cpu)?;
    const { assert!(WORDS == 1 << 10) };
    let rope = RotaryEmbedding::new(&Rope::builder(HEAD_DIM).base(5e5).build()?, length)?;
    let (cos, sin) = rope.cos_sin(&Device::Cpu)?;
    let rows = rope.at(Positions::From(0))?;

    let slow = |x: &Tensor| candle_nn::rotary_emb::rope_slow(x, &cos, &sin);
    let function = |x: &Tensor| rope_candle::rope(x, &cos, &sin);
    let embedding = |x: &Tensor| rows.rotate(x);
    let ways: [(&str, crate::llama::Rotate); 3] =
        [("candle rope_slow", &slow), ("rope_candle::rope", &function), ("RotaryEmbedding", &embedding)];
    // Loss and gradients of all three, before any is timed.
    let (loss, slow_loss) = (llama.loss(&words, &embedding)?, llama.loss(&words, &slow)?);
    let (ours, theirs) = (loss.backward()?, slow_loss.backward()?);
    let function_loss = llama.loss(&words, &function)?;
    let same = function_loss.backward()?;
    let mut worst = 0f32;
    for parameter in llama.parameters() {
        let list = |gradients: &candle_core::backprop::GradStore| -> Result<Vec<f32>> {
            Ok(gradients.get(parameter).ok_or("no gradient")?.flatten_all()?.to_vec1()?)
        };
        let (a, b) = (list(&ours)?, list(&theirs)?);
        if a != list(&same)? {
            return Err("the two ways of ours differ".into());
        }
        let size = b.iter().fold(0f32, |size, x| size.max(x.abs()));
        let differences = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / size);
        // NaN stays NaN, which is refused below.
        worst = differences.fold(worst, |worst, x| if worst.is_nan() || x <= worst { worst } else { x });
    }
    // Sums of thousands of products in f32, in another order of roundings.
    if worst.is_nan() || worst >= 1e-4 {
        return Err(format!("gradients differ by {worst:e} of the largest").into());
    }
    let number = |x: &Tensor| x.to_dtype(DType::F64)?.to_scalar::<f64>();
    println!(
        "\nA Llama of {LAYERS} layers, hidden {HIDDEN}, {HEADS} and {KEY_HEADS} heads of {HEAD_DIM}, {BATCH} × {length} tokens, f32, in \
         candle. Loss {:.5} with candle's slow rotation and {:.5} with ours; gradients differ by {worst:.0e} of the largest at most.\n",
        number(&slow_loss)?,
        number(&loss)?,
    );
    let shape = |heads| (BATCH, heads, length, HEAD_DIM);
    let (q, k) = (
        Tensor::rand(-1f32, 1.0, shape(HEADS), &Device::Cpu)?,
        Tensor::rand(-1f32, 1.0, shape(KEY_HEADS), &Device::Cpu)?,
    );
    let (q, k) = (candle_core::Var::from_tensor(&q)?, candle_core::Var::from_tensor(&k)?);
    let mut steps = Vec::new();
    let mut alone = Vec::new();
    for (name, rotate) in ways {
        let (llama, words, q, k) = (&llama, &words, &q, &k);
        steps.push(Job::new(name, move || {
            llama.loss(words, rotate)?.backward()?;
            Ok(())
        }));
        alone.push(Job::new(name, move || {
            for _ in 0..LAYERS {
                rotate(q)?.backward()?;
                rotate(k)?.backward()?;
            }
            Ok(())
        }));
    }
    let (step, rotation) = (measure(&mut steps)?, measure(&mut alone)?);
    println!("| rotation          | step, ms | times | its rotations alone, ms | times |");
    println!("|-------------------|---------:|------:|------------------------:|------:|");
    for (job, (step_ms, alone_ms)) in steps.iter().zip(step.iter().zip(&rotation)) {
        println!(
            "| {:<17} | {step_ms:>8.1} | {:>5.2} | {alone_ms:>23.2} | {:>5.1} |",
            job.name,
            step[0] / step_ms,
            rotation[0] / alone_ms
        );
    }
    Ok(())
}

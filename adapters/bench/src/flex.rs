//! The rotation of queries and keys in burn on its CPU backend, Flex: its own layer, ours by the same names into new memory and in place,
//! and both with their way back.

use crate::exact::{HEAD_DIM, HEADS, check, wave};
use crate::{Job, Result, measure};
use burn::tensor::{DType, Device, Tensor, TensorData};
use rope::Pairing;
use std::cell::RefCell;

pub fn run(length: usize) -> Result<()> {
    let device = Device::flex();
    let theirs = burn::nn::RotaryEncodingConfig::new(length, HEAD_DIM).init(&device);
    let ours = rope_burn::RotaryEncodingConfig::new(length, HEAD_DIM).try_init(&device)?;
    println!(
        "burn, Flex: q [1, {}, {length}, {HEAD_DIM}] and k [1, {}, {length}, {HEAD_DIM}], neighbours, {} threads; medians of {} alternating \
         rounds, ms\n",
        HEADS[0],
        HEADS[1],
        rayon::current_num_threads(),
        crate::ROUNDS
    );
    println!("| type | what                 | burn-nn | into new memory | times | in place | times |");
    println!("|------|----------------------|--------:|----------------:|------:|---------:|------:|");
    let tensors = |device: &Device, dtype: DType| {
        [(HEADS[0], 1), (HEADS[1], 7)].map(|(heads, seed)| {
            let numbers =
                TensorData::new(wave(heads * length * HEAD_DIM, seed), [1, heads, length, HEAD_DIM]);
            Tensor::<4>::from_data(numbers, (device, dtype))
        })
    };
    let line = |dtype: &str, what: &str, theirs: Option<f64>, new: f64, in_place: Option<f64>| {
        let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.1}"));
        println!(
            "| {dtype:<4} | {what:<20} | {:>7} | {new:>15.1} | {:>5} | {:>8} | {:>5} |",
            number(theirs),
            number(theirs.map(|theirs| theirs / new)),
            number(in_place),
            number(theirs.zip(in_place).map(|(theirs, ours)| theirs / ours)),
        );
    };

    // f32, which burn's layer takes, and bf16, which it does not.
    for (dtype, unit) in [(DType::F32, 2f64.powi(-24)), (DType::BF16, 2f64.powi(-8))] {
        let is_burns = dtype == DType::F32;
        let inputs = tensors(&device, dtype);
        let changed = RefCell::new(Some(tensors(&device, dtype)));
        let in_place = || {
            let [q, k] = changed.take().ok_or("no tensors")?;
            *changed.borrow_mut() = Some([ours.try_apply(q, 0)?, ours.try_apply(k, 0)?]);
            Ok(())
        };
        in_place()?;
        let rotated = changed.borrow().clone().ok_or("no tensors")?;
        for (index, x) in inputs.iter().enumerate() {
            let numbers = |x: &Tensor<4>| x.try_to_vec_as::<f32>();
            let exact = |y: &Tensor<4>, bound: &(dyn Fn(f64, f64) -> f64 + Sync)| {
                check(&numbers(x)?, &numbers(y)?, Pairing::Interleaved, Some(length), HEADS[index], bound)
            };
            // burn forms θ = 1/exp(2j/d·ln base) and position·θ in f32: the exponent is off by up to 2u of itself; one rounding each, two
            // for exp, and that of the product follow.
            let burns = |position: f64, theta: f64| {
                (position * theta * (2.0 * -theta.ln() + 4.0) + 4.0) * 2f64.powi(-24)
            };
            if is_burns {
                exact(&theirs.forward(x.clone()), &burns)?;
            }
            exact(&ours.try_apply(x.clone(), 0)?, &|_, _| 4.0 * unit)?;
            exact(&rotated[index], &|_, _| 4.0 * unit)?;
        }
        drop(rotated);
        let mut jobs = vec![
            Job::new("new", || {
                let _both = [ours.try_apply(inputs[0].clone(), 0)?, ours.try_apply(inputs[1].clone(), 0)?];
                Ok(())
            }),
            Job::new("in place", in_place),
        ];
        if is_burns {
            jobs.push(Job::new("burn", || {
                let _both = [theirs.forward(inputs[0].clone()), theirs.forward(inputs[1].clone())];
                Ok(())
            }));
        }
        let times = measure(&mut jobs)?;
        line(
            &format!("{dtype:?}").to_lowercase(),
            "forward",
            times.get(2).copied(),
            times[0],
            Some(times[1]),
        );
    }

    let device = device.autodiff();
    let inputs = tensors(&device, DType::F32).map(Tensor::require_grad);
    let step = |rotate: &dyn Fn(Tensor<4>) -> Tensor<4>| {
        inputs.each_ref().map(|x| x.grad(&rotate(x.clone()).sum().backward()))
    };
    let (a, b) = (step(&|x| theirs.forward(x)), step(&|x| ours.forward(x)));
    for (a, b) in a.into_iter().zip(b) {
        let (a, b) = (a.ok_or("no gradient")?, b.ok_or("no gradient")?);
        let worst = f64::from((a - b).abs().max().into_scalar::<f32>());
        // Angles of burn's, off by up to position·θ·4u for the fastest pair.
        if worst.is_nan() || worst > 2.0 * (4.0 * length as f64 + 4.0) * 2f64.powi(-24) {
            return Err(format!("gradients differ by {worst:e}").into());
        }
    }
    let mut jobs = [
        Job::new("burn", || {
            step(&|x| theirs.forward(x));
            Ok(())
        }),
        Job::new("ours", || {
            step(&|x| ours.forward(x));
            Ok(())
        }),
    ];
    let times = measure(&mut jobs)?;
    line("f32", "forward and backward", Some(times[0]), times[1], None);
    Ok(())
}

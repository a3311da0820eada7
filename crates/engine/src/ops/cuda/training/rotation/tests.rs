//! Turning on a GPU, and what positions are made of, against the CPU.

use super::super::check::{STORAGES, close, done, gpu, numbers};
use super::*;
use crate::ops::rotate::{self, Heads as Places};
use rope::{Positions as Standing, Rope, Schedule};

fn rope(theta: &[f64], head_dim: usize, pairing: Pairing) -> Rope {
    let builder = Rope::builder(head_dim).rotary_dim(2 * theta.len()).pairing(pairing);
    builder.schedule(Schedule::Given(theta.to_vec())).build().unwrap()
}

#[test]
fn turning_and_gradients_are_those_of_the_processor() {
    let Some(gpu) = gpu() else { return };
    let kernels = &gpu.kernels().rotation;
    let pairings = [Pairing::Interleaved, Pairing::Half, Pairing::InterleavedToHalf];
    for ([batch, length, heads, head_dim, pairs], pairing) in
        [[1, 1, 1, 2, 1], [2, 5, 3, 10, 4], [3, 70, 4, 32, 16], [2, 9, 1, 600, 300]]
            .into_iter()
            .flat_map(|sizes| pairings.map(|pairing| (sizes, pairing)))
    {
        for arithmetic in STORAGES {
            let (first, width) = (8, 8 + heads * head_dim + 16);
            let what = format!("{length} {heads} {head_dim} {pairs} {pairing:?}");
            let theta: Vec<f32> = numbers(Arithmetic::F32, 3, pairs);
            let given = rope(&theta.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), head_dim, pairing);
            let table = given.table::<f32>(0..100, None).unwrap();
            let ids: Vec<u32> = (0..length as u32).map(|token| (token * 7 + 3) % 100).collect();
            let rows = table.at(Standing::ids(&ids)).unwrap();
            let places = Places {
                offset: first,
                shape: [batch, length, heads, head_dim],
                steps: [length * width, width, head_dim],
            };
            let size = batch * length * width;
            let round = |x: f32| if arithmetic == Arithmetic::Bf16 { bf16::from_f32(x).to_f32() } else { x };
            let (x, dy) = (numbers(arithmetic, 1, size), numbers(arithmetic, 2, size));
            let (mut y, mut dx, mut dtheta) = (x.clone(), dy.clone(), vec![0.0; pairs]);
            rotate::forward(&rows, &mut y, &places).unwrap();
            y.iter_mut().for_each(|y| *y = round(*y));
            rotate::backward(&rows, &mut dx, &places, Some((&y, &mut dtheta))).unwrap();

            // Other frequencies at first, which `fill` replaces.
            let other = rope(&vec![0.5; pairs], head_dim, pairing).table::<f32>(0..100, None).unwrap();
            let there = Table::new(gpu.queue.device(), &other).unwrap();
            let frequencies = gpu.put(&theta);
            done(fill(kernels, &gpu.launcher(), frequencies.span(), &there));
            let ids = gpu.put(&ids);
            let positions = ids.span();
            let work = Heads { positions, batch, length, width, first, heads };
            let [x, dy] = [&x, &dy].map(|list| gpu.store(arithmetic, list));
            let (launcher, gradient) = (&gpu.launcher(), gpu.put(&vec![1f32; pairs]));
            done(turn(launcher, arithmetic, &there, Turn::Forward, x.span(), &work));
            close(&what, arithmetic, &gpu.fetch(arithmetic, &x, size), &y, 2.0);
            let scratch = gpu.put(&vec![f64::NAN; scratch(there.rope().pairs()) / 8]);
            let (y, scratch) = (x.span(), scratch.span());
            let from = FrequencyGradient { y, dy: dy.span(), gradient: gradient.span(), scratch };
            done(frequency_gradient(kernels, launcher, arithmetic, &there, &from, &work));
            let expected: Vec<f32> = dtheta.iter().map(|&dtheta| 1.0 + dtheta as f32).collect();
            // y may differ in its last place, and positions multiply that.
            let units = if arithmetic == Arithmetic::Bf16 { 1.0 } else { 16.0 };
            close(&format!("{what} θ"), arithmetic, &gpu.get(&gradient, pairs), &expected, units);
            done(turn(launcher, arithmetic, &there, Turn::Backward, dy.span(), &work));
            close(&format!("{what} back"), arithmetic, &gpu.fetch(arithmetic, &dy, size), &dx, 2.0);
        }
    }
}

#[test]
fn frequencies_that_are_no_numbers_change_nothing() {
    let Some(gpu) = gpu() else { return };
    let kernels = &gpu.kernels().rotation;
    let table = rope(&[0.5, 0.25], 4, Pairing::Half).table::<f32>(0..9, None).unwrap();
    let there = Table::new(gpu.queue.device(), &table).unwrap();
    let frequencies = gpu.put(&[1f32, f32::NAN]);
    done(fill(kernels, &gpu.launcher(), frequencies.span(), &there));
    let (x, ids) = (gpu.put(&[1f32, 2.0, 3.0, 4.0]), gpu.put(&[7u32]));
    let work = Heads { positions: ids.span(), batch: 1, length: 1, width: 4, first: 0, heads: 1 };
    done(turn(&gpu.launcher(), Arithmetic::F32, &there, Turn::Forward, x.span(), &work));
    let (s, c) = (3.5f32.sin(), 3.5f32.cos());
    let got = gpu.get::<f32>(&x, 4);
    assert!((got[0] - (c - 3.0 * s)).abs() < 1e-6 && (got[2] - (3.0 * c + s)).abs() < 1e-6, "{got:?}");
}

#[test]
fn fields_and_kernels_are_their_formulas() {
    let Some(gpu) = gpu() else { return };
    let kernels = &gpu.kernels().rotation;
    let theta: Vec<f64> = (0..300).map(|pair| 0.97f64.powi(pair)).collect();
    let (field, dtheta) = ([-1.3f32, 0.6], numbers(Arithmetic::F32, 1, 300));
    let (given, out, back) = (gpu.put(&field), gpu.put(&[9f32; 300]), gpu.put(&dtheta));
    let gradient = gpu.put(&[1f32, 2.0]);
    let list = gpu.put(&theta);
    let work = Field {
        field: given.span(),
        theta: list.span(),
        frequencies: out.span(),
        gradient: gradient.span(),
        pairs: 300,
    };
    done(field_forward(kernels, &gpu.launcher(), &work));
    done(field_backward(kernels, &gpu.launcher(), &Field { frequencies: back.span(), ..work }));
    let (alpha, power) = (1.0 / (1.0 + f64::from(1.3f32).exp()), 10_000f64.powf(-f64::from(0.6f32)));
    let expected: Vec<f32> =
        theta.iter().map(|theta| (alpha * power + (1.0 - alpha) * theta) as f32).collect();
    close("a field", Arithmetic::F32, &gpu.get(&out, 300), &expected, 2.0);
    let total: f64 = dtheta.iter().map(|&dtheta| f64::from(dtheta)).sum();
    let weighted: f64 = dtheta.iter().zip(&theta).map(|(&dtheta, theta)| f64::from(dtheta) * theta).sum();
    let expected = [
        1.0 + (power * total - weighted) * alpha * (1.0 - alpha),
        2.0 - 10_000f64.ln() * alpha * power * total,
    ];
    close("its gradient", Arithmetic::F32, &gpu.get(&gradient, 2), &expected.map(|x| x as f32), 4.0);

    let (heads, length) = (3usize, 700usize);
    let weight = numbers(Arithmetic::F32, 2, 2 * heads);
    let dtable = numbers(Arithmetic::F32, 3, heads * length);
    let (mut table, mut expected) = (vec![0f32; heads * length], vec![1f64; 2 * heads]);
    for (index, bias) in table.iter_mut().enumerate() {
        let (head, distance) = (index / length, (index % length) as f64);
        let [strength, rate] = [0, 1].map(|part| f64::from(weight[2 * head + part]).exp());
        *bias = (-strength * (rate * distance).ln_1p()) as f32;
        let dbias = f64::from(dtable[index]);
        expected[2 * head] += dbias * f64::from(*bias);
        expected[2 * head + 1] -= dbias * strength * rate * distance / (1.0 + rate * distance);
    }
    let there = gpu.put(&vec![9f32; table.len()]);
    let [weight, dtable, gradient] = [&weight, &dtable, &vec![1f32; 2 * heads]].map(|list| gpu.put(list));
    let work = Kernel {
        weight: weight.span(),
        table: there.span(),
        dtable: dtable.span(),
        gradient: gradient.span(),
        heads,
        length,
    };
    done(kernel_forward(kernels, &gpu.launcher(), &work));
    close("a kernel", Arithmetic::F32, &gpu.get(&there, table.len()), &table, 2.0);
    done(kernel_backward(kernels, &gpu.launcher(), &work));
    let expected: Vec<f32> = expected.into_iter().map(|x| x as f32).collect();
    close("its gradient", Arithmetic::F32, &gpu.get(&gradient, 2 * heads), &expected, 8.0);
}

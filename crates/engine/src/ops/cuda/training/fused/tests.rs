//! cuDNN's attention against the CPU's, in the bounds of the crate's own kernels.

use super::super::attention::Rows;
use super::super::check::{Gpu, gpu, plain_attention};
use super::super::solo::{Solo, SoloShape};
use super::super::tensor::tests::{By, Case, PLAIN, check_by};
use super::*;
use crate::ops::check::list;

/// A GPU with a cuDNN that can be used; none where there is no such library, unless one is required.
fn gpu_with_cudnn() -> Option<&'static Gpu> {
    let gpu = gpu()?;
    gpu::testing::or_skip(gpu.cuda().cudnn().origin().map(|_| gpu))
}

#[test]
fn lengths_and_features() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    for dim in [8, 32, 40, 64, 96, 128, 192, 256] {
        check_by(gpu, Case { sizes: [2, 200, 3, 3, dim], is_causal: dim % 64 == 0, ..PLAIN }, By::Cudnn);
    }
    for length in [2, 63, 64, 65, 128, 130, 385] {
        for is_causal in [false, true] {
            check_by(gpu, Case { sizes: [2, length, 2, 2, 64], is_causal, ..PLAIN }, By::Cudnn);
        }
    }
}

#[test]
fn shared_keys_padding_and_windows() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    for (is_causal, window) in [(false, None), (true, None), (false, Some(50)), (true, Some(50))] {
        for counts in [&[][..], &[257, 100, 1]] {
            for (heads, key_heads, dim) in [(4, 4, 64), (4, 2, 128), (3, 1, 64)] {
                let sizes = [3, 257, heads, key_heads, dim];
                check_by(gpu, Case { sizes, is_causal, window, counts, ..PLAIN }, By::Cudnn);
            }
        }
    }
}

/// Gradients of queries are sums over more blocks than two, whose order could be seen.
#[test]
fn many_blocks_have_the_same_bits() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    for dim in [64, 128] {
        check_by(gpu, Case { sizes: [1, 1500, 8, 8, dim], ..PLAIN }, By::Cudnn);
    }
}

/// Logarithms of sums have one form: the crate's kernels go back from what cuDNN gave.
#[test]
fn other_kernels_go_back() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    for (is_causal, counts) in [(false, &[][..]), (true, &[200, 77])] {
        for (key_heads, dim) in [(4, 64), (2, 128)] {
            let sizes = [2, 200, 4, key_heads, dim];
            check_by(gpu, Case { sizes, is_causal, counts, ..PLAIN }, By::Both);
        }
    }
}

#[test]
fn sums_without_an_order() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    for (is_causal, counts) in [(false, &[][..]), (true, &[300, 77])] {
        for (key_heads, dim) in [(4, 64), (2, 128)] {
            let sizes = [2, 300, 4, key_heads, dim];
            check_by(gpu, Case { sizes, is_causal, counts, ..PLAIN }, By::Unordered);
        }
    }
}

/// What the graph asks for when a plan is missing, or a batch has other masks.
#[test]
fn other_kernels_compute_the_rest() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    let attention = Attention { length: 200, head_dim: 64, ..plain_attention(Arithmetic::Bf16) };
    let nothing = [Span::NOTHING; 2];
    let fused = Fused::whatever_length(gpu.cuda(), &attention, nothing).unwrap();
    let launcher = gpu.launcher().with_masks(Masks::Any);
    assert!(!fused.forward(&launcher, &attention, Span::NOTHING).unwrap());
    // Wider heads than the library takes.
    let wide = Attention { head_dim: 264, ..attention };
    assert!(shape(&wide).is_none());
}

/// Not a test: which of the two is the faster one at short lengths and for narrow heads, by which [`LEAST`] is chosen. Microseconds, forward and backward.
#[test]
#[ignore = "prints timings"]
fn which_is_faster() {
    let Some(gpu) = gpu_with_cudnn() else { return };
    for (head_dim, is_causal) in [(32, false), (64, false), (64, true), (128, false)] {
        for length in [64, 96, 128, 192, 256, 320, 384] {
            let (heads, batch) = (768 / head_dim, 8192 / length);
            let shape = SoloShape { batch, length, heads, key_heads: heads, head_dim, is_causal };
            let (joined, slope) = (list(1, shape.joined()), list(2, shape.out()));
            let time = |is_fused: bool| -> [f64; 2] {
                let choose = |gpu: &Cuda, attention: &Attention| -> Result<Option<Fused>> {
                    let counts = [Span::NOTHING; 2];
                    Ok(is_fused.then(|| Fused::whatever_length(gpu, attention, counts).expect("a plan")))
                };
                let mut solo = Solo::with(gpu.cuda(), shape, &joined, &slope, choose).unwrap();
                solo.results().unwrap();
                [false, true].map(|is_backward| {
                    let mut times = solo.milliseconds(is_backward, 5).unwrap();
                    times.sort_by(f64::total_cmp);
                    times[2] * 1e3
                })
            };
            let ([a, b], [c, d]) = (time(false), time(true));
            println!(
                "{batch}x{length} {heads}x{head_dim} causal {is_causal}: {a:.1} {b:.1}, cuDNN {c:.1} {d:.1}"
            );
        }
    }
}

#[test]
fn what_it_takes() {
    let attention = Attention { length: 200, head_dim: 64, ..plain_attention(Arithmetic::Bf16) };
    assert!(shape(&attention).is_some_and(|shape| !shape.is_padded && shape.scale == 1f32.to_bits()));
    assert!(shape(&Attention { window: Some(3), head_dim: 256, ..attention }).is_some());
    let rows = Some(Rows { values: Span::NOTHING, rows: 1, heads: 1, index: Span::NOTHING });
    for other in [
        Attention { arithmetic: Arithmetic::F32, ..attention },
        Attention { dropout: 0.1, ..attention },
        Attention { bias: rows, ..attention },
        Attention { query: rows, ..attention },
        Attention { content: Span::new(16, 0), ..attention },
        Attention { head_dim: 20, ..attention },
        Attention { head_dim: 264, ..attention },
        Attention { joined: Span::new(8, 0), ..attention },
    ] {
        assert!(shape(&other).is_none());
    }
}

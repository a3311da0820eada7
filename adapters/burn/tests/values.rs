//! Values beside the reference in f64, in every type, pairing, layout and number of axes; in place and into new memory.

mod common;

use burn::tensor::{DType, Device, Tensor};
use common::{PAIRINGS, Random, bound, devices, largest, numbers, oracle, rope};
use rope::Pairing;
use rope_burn::rotary::Result;
use rope_burn::{Positions, RotaryEmbedding};

#[test]
fn every_type_pairing_and_layout_as_the_reference() -> Result<()> {
    let mut random = Random(1);
    for (device, dtypes) in devices() {
        for pairing in PAIRINGS {
            for head_dim in [2, 6, 64, 130] {
                let embedding = RotaryEmbedding::new(&rope(head_dim, pairing), 40, &device)?;
                let rows = embedding.at(Positions::From(0))?;
                for (batch, heads, length) in [(1, 1, 1), (2, 3, 5), (1, 5, 33), (3, 1, 1)] {
                    for &dtype in dtypes {
                        let x = random.tensor([batch, heads, length, head_dim], (&device, dtype));
                        let exact = oracle(&x, embedding.rope(), |_, t| t as f64);
                        let check = |y: Tensor<4>| {
                            assert_eq!((y.dtype(), y.dims()), (dtype, [batch, heads, length, head_dim]));
                            let (worst, bound) = (largest(&numbers(&y), &exact), bound(dtype, 1.0));
                            assert!(worst <= bound, "{pairing} {dtype:?} {head_dim}: {worst:e} > {bound:e}");
                            numbers(&y)
                        };
                        let fresh = check(rows.rotate(x.clone())?);
                        // Heads before the length or after it, in memory and in the shape.
                        let swapped = contiguous(x.clone().swap_dims(1, 2));
                        assert_eq!(check(rows.rotate(swapped.clone().swap_dims(1, 2))?), fresh);
                        assert_eq!(check(rows.rotate_blhd(swapped.clone())?.swap_dims(1, 2)), fresh);
                        assert_eq!(
                            check(rows.rotate_blhd(x.clone().swap_dims(1, 2))?.swap_dims(1, 2)),
                            fresh
                        );
                        // Nobody else holds these.
                        assert_eq!(check(rows.rotate(swapped.clone().swap_dims(1, 2))?), fresh);
                        assert_eq!(check(rows.rotate_blhd(swapped)?.swap_dims(1, 2)), fresh);
                        assert_eq!(check(rows.rotate(x)?), fresh);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The same numbers in memory of their own, in the order of the axes.
fn contiguous(x: Tensor<4>) -> Tensor<4> {
    let options = (&x.device(), x.dtype());
    Tensor::from_data(x.to_data(), options)
}

#[test]
fn any_number_of_axes() -> Result<()> {
    let mut random = Random(2);
    for (device, _) in devices() {
        let embedding = RotaryEmbedding::new(&rope(6, Pairing::Half), 9, &device)?;
        let rows = embedding.at(Positions::From(3))?;
        let x = random.tensor([2, 6, 5, 6], (&device, DType::F32));
        let exact = numbers(&rows.rotate(x.clone())?);
        let five = x.clone().reshape([2, 2, 3, 5, 6]);
        assert_eq!(numbers(&rows.rotate(five)?), exact);
        // Axes between batch and length that are not one in memory.
        let five = x.clone().reshape([2, 3, 2, 5, 6]).swap_dims(1, 2);
        let turned = rows.rotate(five)?.swap_dims(1, 2).reshape([2, 6, 5, 6]);
        assert_eq!(numbers(&turned), exact);
        let one_head = x.clone().slice_dim(1, 0..1).reshape([2, 5, 6]);
        let turned = rows.rotate(one_head.clone())?;
        assert_eq!(numbers(&turned)[..30], exact[..30]);
        let sequence = one_head.slice_dim(0, 0..1).reshape([5, 6]);
        assert_eq!(numbers(&rows.rotate(sequence)?), exact[..30]);
    }
    Ok(())
}

/// A part of a larger tensor, walked backwards, repeated, its features apart: each as its copy.
#[test]
fn other_layouts() -> Result<()> {
    let mut random = Random(3);
    for (device, dtypes) in devices() {
        let embedding = RotaryEmbedding::new(&rope(4, Pairing::Interleaved), 16, &device)?;
        let rows = embedding.at(Positions::From(2))?;
        for &dtype in dtypes {
            let x = random.tensor([3, 4, 8, 4], (&device, dtype));
            let views = [
                x.clone().slice([0..3, 1..3, 2..7, 0..4]),
                x.clone().flip([1]),
                x.clone().flip([2]),
                x.clone().flip([3]),
                x.clone()
                    .permute([3, 1, 2, 0])
                    .slice([0..4, 0..4, 0..8, 0..3])
                    .swap_dims(1, 3)
                    .swap_dims(0, 3),
                x.clone().slice_dim(1, 0..1).expand([3, 4, 8, 4]),
                x.clone().slice_dim(2, 0..1).expand([3, 4, 8, 4]),
                x.clone().slice_dim(3, 0..1).expand([3, 4, 8, 4]),
                x.clone().swap_dims(1, 3),
            ];
            for (index, view) in views.into_iter().enumerate() {
                if view.dims()[3] != 4 {
                    continue;
                }
                let (copy, before) = (contiguous(view.clone()), numbers(&x));
                assert_eq!(numbers(&rows.rotate(view)?), numbers(&rows.rotate(copy)?), "{index}");
                assert_eq!(numbers(&x), before, "a view changed what it was taken of");
            }
        }
    }
    Ok(())
}

/// A tensor that nobody else holds is rotated where it is; one that is shared is left alone.
#[test]
fn in_place_where_it_is_owned() -> Result<()> {
    use burn::backend::Flex;
    let device = Device::flex();
    let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 16, &device)?;
    let rows = embedding.at(Positions::From(0))?;
    let address = |x: Tensor<4>| {
        let x = x.try_into_primitive::<Flex>().expect("a tensor of Flex");
        (x.bytes().as_ptr(), Tensor::<4>::from_primitive::<Flex>(x))
    };
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = Random(4).tensor([2, 3, 5, 8], (&device, dtype));
        let (before, (first, x)) = (numbers(&x), address(x));
        let (second, y) = address(rows.rotate(x.clone())?);
        assert_ne!(first, second);
        assert_eq!(numbers(&x), before);
        let (third, x) = address(rows.rotate(x)?);
        assert_eq!(first, third);
        assert_eq!(numbers(&x), numbers(&y));
        // Transposed, it is still where it was.
        let (fourth, _) = address(rows.rotate(x.swap_dims(1, 2).swap_dims(1, 2))?);
        assert_eq!(first, fourth);
    }
    Ok(())
}

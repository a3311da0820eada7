//! Rotations and gradients.

use crate::common::*;
use rope::{Positions, Turn, View, ViewMut};

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
        let words = ["frequency_gradient", "one value per pair: 2"];
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

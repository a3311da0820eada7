//! What the classes in the notes get wrong, and the types here do not allow.

use super::*;

/// A cached table that reads position −1 from its last row, or a position past the end from anywhere.
#[test]
fn positions_outside_the_table_are_errors() -> Result<()> {
    let table = Rope::builder(4).build()?.table::<f32>(0..8, None)?;
    for ids in [[-1i64, 0], [0, 8]] {
        assert!(table.at(Positions::ids(&ids)).is_err());
    }
    let mut x = [0.0f32; 8];
    let mut view = ViewMut::blhd(&mut x, [1, 2, 1, 4])?;
    for first in [-1, 7, i64::MAX] {
        assert!(table.at(Positions::From(first))?.rotate(Turn::Forward, &mut view).is_err());
    }
    Ok(())
}

/// Ids follow tokens, never heads, also where there are as many heads as tokens.
#[test]
fn ids_follow_tokens_where_heads_equal_length() -> Result<()> {
    let (ids, mut random) = ([5i32, 0, 2], Random(13));
    let rope = Rope::builder(4).build()?;
    let table = rope.table::<f64>(0..8, None)?;
    let rows = table.at(Positions::Ids(Ids::I32(&ids)))?;
    let x = random.vector(3 * 3 * 4);
    let mut y = vec![0.0; x.len()];
    rows.rotate_to(Turn::Forward, &View::blhd(&x, [1, 3, 3, 4])?, &mut ViewMut::blhd(&mut y, [1, 3, 3, 4])?)?;
    for (index, (x, y)) in x.chunks(4).zip(y.chunks(4)).enumerate() {
        all_close(y, &turn(&rope, x, f64::from(ids[index / 3]))?, rounding(1.0));
    }
    let mut y = vec![0.0; x.len()];
    rows.rotate_to(Turn::Forward, &View::bhld(&x, [1, 3, 3, 4])?, &mut ViewMut::bhld(&mut y, [1, 3, 3, 4])?)?;
    for (index, (x, y)) in x.chunks(4).zip(y.chunks(4)).enumerate() {
        all_close(y, &turn(&rope, x, f64::from(ids[index % 3]))?, rounding(1.0));
    }
    Ok(())
}

/// bf16 in, bf16 out, turned in f32 and rounded once; and the position is never a bf16, which has no 257.
#[test]
fn sixteen_bits_keep_their_type_and_their_position() -> Result<()> {
    assert_eq!(bf16::from_f32(257.0), bf16::from_f32(256.0));
    let rope = Rope::builder(2).build()?;
    let table = rope.table::<f32>(256..258, None)?;
    let mut x = [bf16::ONE, bf16::ZERO, bf16::ONE, bf16::ZERO];
    table.at(Positions::From(256))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut x, [1, 2, 1, 2])?)?;
    for (x, position) in x.chunks(2).zip([256f64, 257.0]) {
        // Half a unit of eight bits at most, beside the f32.
        close(x[0].to_f64(), position.cos(), 1.01 / 512.0);
        close(x[1].to_f64(), position.sin(), 1.01 / 512.0);
    }
    Ok(())
}

/// An f32 angle is off by hundredths of a radian at position 1,000,000; the table's is not.
#[test]
fn far_positions_keep_their_angle() -> Result<()> {
    let exact = Rope::builder(128).build()?;
    let single = exact.clone().with_angle_precision(AnglePrecision::F32);
    let (far, theta) = (999_983i64, usual(128)?);
    let rows = |rope: &Rope| rope.table::<f32>(far..far + 1, None);
    let (exact, single) = (rows(&exact)?, rows(&single)?);
    let mut worst = 0.0f64;
    for (pair, theta) in theta.iter().enumerate() {
        let angle = far as f64 * theta;
        // The product in f64 is off by up to half a unit of 2^20.
        let tolerance = 0.51 / 16_777_216.0 + 1e6 * f64::EPSILON;
        close(f64::from(exact.cos()[pair]), angle.cos(), tolerance);
        close(f64::from(exact.sin()[pair]), angle.sin(), tolerance);
        let difference = f64::from(single.sin()[pair]).atan2(f64::from(single.cos()[pair])) - angle;
        worst = worst.max((difference - TAU * (difference / TAU).round()).abs());
    }
    assert!((1e-3..PI / 32.0).contains(&worst), "{worst}");
    Ok(())
}

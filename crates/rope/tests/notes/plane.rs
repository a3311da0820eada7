//! The plane: two features.

use super::*;

#[test]
fn a_quarter_turn_takes_1_0_to_0_1() -> Result<()> {
    for pairing in PAIRINGS {
        let y = turn(&given(&[FRAC_PI_2], pairing)?, &[1.0, 0.0], 1.0)?;
        all_close(&y, &[0.0, 1.0], f64::EPSILON);
    }
    Ok(())
}

#[test]
fn the_score_of_1_2_and_3_4_one_apart_is_7_626() -> Result<()> {
    let (q, k) = ([1.0, 2.0], [3.0, 4.0]);
    for pairing in PAIRINGS {
        let rope = given(&[1.0], pairing)?;
        let table = rope.table::<f64>(0..3, None)?;
        let (mut q1, mut k2) = (q, k);
        table.at(Positions::From(1))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut q1, [1, 1, 1, 2])?)?;
        table.at(Positions::From(2))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut k2, [1, 1, 1, 2])?)?;
        close(dot(&q1, &k2), 7.62626733416533, rounding(11.0));
        close(score(&rope, &q, 1.0, &k, 2.0)?, 7.62626733416533, rounding(11.0));
        close(analysis::score(&q, &k, &[1.0], -1.0, pairing)?, 7.62626733416533, rounding(11.0));
    }
    Ok(())
}

/// Turning q by n − m, as one note has it, gives another number: it is k that turns by n − m, or q by m − n.
#[test]
fn turning_q_by_n_minus_m_is_wrong() -> Result<()> {
    let (q, k, rope) = ([1.0, 2.0], [3.0, 4.0], given(&[1.0], Pairing::Interleaved)?);
    let right = 7.62626733416533;
    close(dot(&q, &turn(&rope, &k, 1.0)?), right, rounding(11.0));
    close(dot(&turn(&rope, &q, -1.0)?, &k), right, rounding(11.0));
    close(dot(&turn(&rope, &q, 1.0)?, &k), 4.260, 5e-4);
    Ok(())
}

/// f(z) = ((a, −b), (b, a)) is |z| times a rotation by arg z, and keeps sums and products; its transpose is
/// that of the conjugate, and its determinant is |z|², not |z|.
#[test]
fn complex_numbers_are_2_by_2_matrices() -> Result<()> {
    type Matrix = [[f64; 2]; 2];
    let form = |(a, b): (f64, f64)| -> Result<Matrix> {
        let rope = given(&[1.0], Pairing::Interleaved)?;
        let column = |x: [f64; 2]| turn(&rope, &x, b.atan2(a));
        let (first, second, length) = (column([1.0, 0.0])?, column([0.0, 1.0])?, a.hypot(b));
        Ok([[length * first[0], length * second[0]], [length * first[1], length * second[1]]])
    };
    let same = |x: Matrix, y: Matrix| all_close(x.as_flattened(), y.as_flattened(), rounding(32.0));
    // z in the second quadrant, where arctan(b/a) would be half a turn off.
    let (z, w) = ((-1.5, 2.0), (0.25, -3.0));
    let (fz, fw) = (form(z)?, form(w)?);
    same(fz, [[z.0, -z.1], [z.1, z.0]]);
    let sum = [0, 1].map(|i| [0, 1].map(|j| fz[i][j] + fw[i][j]));
    same(form((z.0 + w.0, z.1 + w.1))?, sum);
    let product = [0, 1].map(|i| [0, 1].map(|j| fz[i][0] * fw[0][j] + fz[i][1] * fw[1][j]));
    same(form((z.0 * w.0 - z.1 * w.1, z.1 * w.0 + z.0 * w.1))?, product);
    same(form((z.0, -z.1))?, [[fz[0][0], fz[1][0]], [fz[0][1], fz[1][1]]]);
    let determinant = fz[0][0] * fz[1][1] - fz[0][1] * fz[1][0];
    close(determinant, 1.5 * 1.5 + 4.0, rounding(6.25));
    assert!((determinant - z.0.hypot(z.1)).abs() > 3.0);
    Ok(())
}

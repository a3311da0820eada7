//! A complex number as a point, as a matrix and as a rotation.

use super::check::within;
use crate::error::Result;
use rope::{Pairing, analysis, reference};
use serde::{Deserialize, Serialize};

/// Two numbers and an angle.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// The real part of z.
    pub x: f64,
    /// Its imaginary part.
    pub y: f64,
    /// By how much z is turned, in degrees.
    pub degrees: f64,
    /// The real part of k.
    pub u: f64,
    /// Its imaginary part.
    pub v: f64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { x: 1.5, y: 0.5, degrees: 50.0, u: 0.5, v: -1.0 }
    }
}

/// What can be said of them.
#[derive(Clone, Debug, Serialize)]
pub struct Complex {
    /// θ, in radians.
    pub angle: f64,
    /// |z|.
    pub radius: f64,
    /// atan2(y, x).
    pub phase: f64,
    /// arctan(y/x), which forgets the quadrant; `None` for x = 0.
    pub arctangent: Option<f64>,
    /// The matrix that turns by θ.
    pub rotation: [[f64; 2]; 2],
    /// z·e^{iθ}, as a product of complex numbers.
    pub turned: [f64; 2],
    /// The same as a product with the matrix.
    pub multiplied: [f64; 2],
    /// z as a matrix.
    pub matrix: [[f64; 2]; 2],
    /// The determinant of that matrix.
    pub determinant: f64,
    /// z·k*, real and imaginary part.
    pub product: [f64; 2],
    /// ⟨z, k⟩, of the two vectors.
    pub inner: f64,
    /// ⟨z·e^{iθ}, k⟩.
    pub turned_inner: f64,
}

/// A complex number, turned, and its product with another.
pub fn complex(ask: &Ask) -> Result<Complex> {
    let part = |name: &str, value: f64| within(name, value, -10.0..=10.0);
    let (x, y, u, v) = (part("x", ask.x)?, part("y", ask.y)?, part("u", ask.u)?, part("v", ask.v)?);
    let angle = within("degrees", ask.degrees, -360.0..=360.0)?.to_radians();
    let by_matrix = |z: [f64; 2]| pair(reference::rotate_by_matrix(&z, angle, &[1.0], Pairing::Interleaved));
    let [[a, c], [b, d]] = [by_matrix([1.0, 0.0]), by_matrix([0.0, 1.0])];
    let matrix = [[x, -y], [y, x]];
    let score = |angle: f64| analysis::score(&[x, y], &[u, v], &[1.0], angle, Pairing::Interleaved);
    Ok(Complex {
        angle,
        radius: x.hypot(y),
        phase: y.atan2(x),
        arctangent: (x != 0.0).then(|| (y / x).atan()),
        rotation: [[a, b], [c, d]],
        turned: pair(reference::rotate_by_complex(&[x, y], angle, &[1.0], Pairing::Interleaved)),
        multiplied: by_matrix([x, y]),
        determinant: matrix[0][0] * matrix[1][1] - matrix[0][1] * matrix[1][0],
        matrix,
        product: [x * u + y * v, y * u - x * v],
        inner: score(0.0)?,
        turned_inner: score(angle)?,
    })
}

/// The two features of one pair.
fn pair(features: Vec<f64>) -> [f64; 2] {
    [features[0], features[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-14
    }

    #[test]
    fn three_forms_of_one_rotation() {
        // The notes' example: (1, 0) turned by a right angle is (0, 1).
        let right = complex(&Ask { x: 1.0, y: 0.0, degrees: 90.0, ..Ask::default() }).unwrap();
        assert!(near(right.turned[0], 0.0) && near(right.turned[1], 1.0));
        let asks = [(1.5, 0.5, 50.0), (-1.0, -1.0, -120.0), (0.0, 2.0, 360.0), (0.0, 0.0, 33.0)];
        for (x, y, degrees) in asks {
            let complex = complex(&Ask { x, y, degrees, ..Ask::default() }).unwrap();
            let (sin, cos) = f64::to_radians(degrees).sin_cos();
            assert_eq!(complex.rotation, [[cos, -sin], [sin, cos]]);
            for turned in [complex.turned, complex.multiplied] {
                assert!(near(turned[0], x * cos - y * sin) && near(turned[1], x * sin + y * cos));
            }
            // Its determinant is |z|², not |z|.
            assert!(near(complex.determinant, complex.radius * complex.radius));
            assert!(
                near(complex.radius * complex.phase.cos(), x)
                    && near(complex.radius * complex.phase.sin(), y)
            );
        }
    }

    #[test]
    fn arctan_forgets_the_quadrant() {
        let complex = |x, y| complex(&Ask { x, y, ..Ask::default() }).unwrap();
        let behind = complex(-1.0, -1.0);
        assert!(
            near(behind.arctangent.unwrap().to_degrees(), 45.0) && near(behind.phase.to_degrees(), -135.0)
        );
        assert_eq!(complex(0.0, 1.0).arctangent, None);
    }

    #[test]
    fn the_real_part_with_the_conjugate_is_the_inner_product() {
        // q = (1, 2) at position 1 and k = (3, 4) at position 2, θ = 1: 7.626 (and not 4.260).
        let ask = Ask { x: 1.0, y: 2.0, u: 3.0, v: 4.0, degrees: f64::to_degrees(-1.0) };
        let complex = complex(&ask).unwrap();
        assert_eq!((complex.product, complex.inner), ([11.0, 2.0], 11.0));
        assert!((complex.turned_inner - 7.62626733416533).abs() < 1e-13);
        let inner = complex.turned[0] * 3.0 + complex.turned[1] * 4.0;
        assert!((complex.turned_inner - inner).abs() < 1e-13);
    }

    #[test]
    fn absurd_asks_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, -11.0] {
            assert!(complex(&Ask { x: bad, ..Ask::default() }).is_err());
            assert!(complex(&Ask { v: bad, ..Ask::default() }).is_err());
        }
        assert!(complex(&Ask { degrees: 361.0, ..Ask::default() }).is_err());
    }
}

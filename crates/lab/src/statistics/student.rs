//! Student's t: its tail, exact to the last digits, and its quantiles.

/// The chance that Student's t with so many degrees of freedom is above `t`.
pub fn t_tail(t: f64, degrees: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    let both = beta(degrees / (degrees + t * t), degrees / 2.0, 0.5);
    if t > 0.0 { both / 2.0 } else { 1.0 - both / 2.0 }
}

/// The number below which Student's t with so many degrees of freedom is with this chance: found by halving, since the
/// tail is exact and monotonic.
pub fn t_quantile(chance: f64, degrees: f64) -> f64 {
    if chance < 0.5 {
        return -t_quantile(1.0 - chance, degrees);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while t_tail(high, degrees) > 1.0 - chance {
        high *= 2.0;
    }
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if t_tail(middle, degrees) > 1.0 - chance { low = middle } else { high = middle }
    }
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method), on whichever side
/// converges quickly.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    // Keeps divisors away from 0.
    let some = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / some(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / some(1.0 + term * d);
            c = some(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * fraction
}

/// ln Γ(x) for x > 0: Stirling's series from 15 on, and the recurrence below.
fn ln_gamma(x: f64) -> f64 {
    if x < 15.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let inverse = 1.0 / (x * x);
    let series = 1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_is_that_of_closed_forms() {
        // One degree of freedom is Cauchy's law; two have a closed form too.
        for t in [-40.0f64, -2.0, -0.1, 0.0, 0.3, 1.0, 7.0, 1e6] {
            let one = 0.5 - t.atan() / std::f64::consts::PI;
            let two = 0.5 * (1.0 - t / (2.0 + t * t).sqrt());
            assert!((t_tail(t, 1.0) - one).abs() < 1e-14, "{t}: {} but {one}", t_tail(t, 1.0));
            assert!((t_tail(t, 2.0) - two).abs() < 1e-14, "{t}: {} but {two}", t_tail(t, 2.0));
        }
        assert_eq!((t_tail(f64::INFINITY, 3.0), t_tail(f64::NEG_INFINITY, 3.0)), (0.0, 1.0));
    }

    #[test]
    fn quantiles_are_those_of_tables() {
        for (chance, degrees, wanted) in [
            (0.975, 1.0, 12.706_204_736),
            (0.975, 2.0, 4.302_652_730),
            (0.975, 4.0, 2.776_445_105),
            (0.975, 9.0, 2.262_157_163),
            (0.975, 30.0, 2.042_272_456),
            (0.975, 1000.0, 1.962_339_081),
            (0.95, 2.0, 2.919_985_580),
            (0.8, 4.0, 0.940_964_577),
            (0.995, 5.0, 4.032_142_984),
            (0.5, 3.0, 0.0),
            (0.025, 4.0, -2.776_445_105),
        ] {
            let got = t_quantile(chance, degrees);
            assert!((got - wanted).abs() < 2e-9, "{chance}, {degrees}: {got} but {wanted}");
        }
    }

    #[test]
    fn gamma_is_that_of_factorials() {
        let mut factorial = 1.0f64;
        for n in 1..30 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-12 * factorial.ln().max(1.0), "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-13);
    }
}

//! The shades of matrices: from one colour over the paper's to another, in steps that look even.

use std::fmt::Write;

/// How many shades on either side of zero.
pub const SIDE: i32 = 20;

/// Colours from the lowest to the highest, zero in the middle. Blue and orange, so that they are told apart by everyone.
const LIGHT: [u32; 7] = [0x7a2c0a, 0xd9785f, 0xf3cfc2, 0xf7f8fa, 0xc3d9ee, 0x519ccd, 0x0d3a6b];
const DARK: [u32; 7] = [0xffc29b, 0xd9662c, 0x5c2d1a, 0x1b2027, 0x1d3f66, 0x3f86cc, 0xbfe0ff];

/// The shade of a number, from −1 to 1.
pub fn shade(value: f64) -> i32 {
    (value.clamp(-1.0, 1.0) * f64::from(SIDE)).round() as i32
}

/// The class of a shade.
pub fn class(shade: i32) -> String {
    format!("m{}", shade + SIDE)
}

/// A style sheet of all shades.
pub fn rules(is_dark: bool) -> String {
    let stops = if is_dark { DARK } else { LIGHT }.map(oklab);
    let mut out = String::new();
    for shade in -SIDE..=SIDE {
        let place = f64::from(shade + SIDE) / f64::from(2 * SIDE) * (stops.len() - 1) as f64;
        let (from, part) = ((place as usize).min(stops.len() - 2), place - place.floor());
        let part = if place as usize > from { 1.0 } else { part };
        let mixed = std::array::from_fn(|i| stops[from][i] * (1.0 - part) + stops[from + 1][i] * part);
        let _ = writeln!(out, ".{} {{ stroke: {} }}", class(shade), hex(mixed));
    }
    out
}

/// A colour in OKLab (Ottosson 2020), in which even steps look even.
fn oklab(colour: u32) -> [f64; 3] {
    let channel = |shift: u32| {
        let value = f64::from(colour >> shift & 0xff) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    let (r, g, b) = (channel(16), channel(8), channel(0));
    let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
    let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
    let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
    [
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    ]
}

/// A colour of OKLab as a screen shows it.
fn hex([lightness, a, b]: [f64; 3]) -> String {
    let l = (lightness + 0.3963377774 * a + 0.2158037573 * b).powi(3);
    let m = (lightness - 0.1055613458 * a - 0.0638541728 * b).powi(3);
    let s = (lightness - 0.0894841775 * a - 1.2914855480 * b).powi(3);
    let channel = |linear: f64| {
        let linear = linear.clamp(0.0, 1.0);
        let value = if linear <= 0.0031308 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 };
        (value * 255.0).round() as u8
    };
    format!(
        "#{:02x}{:02x}{:02x}",
        channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middle_are_the_colours_they_are_mixed_from() {
        for (is_dark, stops) in [(false, LIGHT), (true, DARK)] {
            let rules = rules(is_dark);
            for (shade, stop) in [(-SIDE, stops[0]), (0, stops[3]), (SIDE, stops[6])] {
                let rule = format!(".{} {{ stroke: #{stop:06x} }}", class(shade));
                assert!(rules.contains(&rule), "{rule} is not in {rules}");
            }
        }
    }
}

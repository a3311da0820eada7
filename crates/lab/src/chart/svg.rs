//! The letters of SVG: escaping, coordinates, markers, and the document around a drawing.

use super::LOOKS;
use std::fmt::Write;

/// Text for XML and HTML, in elements and in attributes. Characters that XML cannot hold are left out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// A coordinate, to a tenth of a pixel.
pub fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// A line through points that has a gap where there are none, as the `d` of a path.
pub(super) fn path(points: impl Iterator<Item = Option<(f64, f64)>>) -> String {
    let mut out = String::new();
    let mut is_down = false;
    for point in points {
        if let Some((x, y)) = point {
            let _ = write!(out, "{}{} {}", if is_down { 'L' } else { 'M' }, px(x), px(y));
        }
        is_down = point.is_some();
    }
    out
}

/// The marker of a look around a point, as the `d` of a path: circle, square, triangle, diamond and so on.
pub fn marker(look: usize, x: f64, y: f64, size: f64) -> String {
    let corners = |corners: &[(f64, f64)]| {
        let points = corners.iter().map(|(dx, dy)| Some((x + dx * size, y + dy * size)));
        path(points) + "Z"
    };
    match look % LOOKS {
        0 => {
            let (left, width, radius) = (px(x - size), px(2.0 * size), px(size));
            format!("M{left} {}a{radius} {radius} 0 1 0 {width} 0a{radius} {radius} 0 1 0 -{width} 0Z", px(y))
        }
        1 => corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => corners(&[(0.0, -1.2), (1.2, 0.9), (-1.2, 0.9)]),
        3 => corners(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => corners(&[(0.0, 1.2), (1.2, -0.9), (-1.2, -0.9)]),
        5 => {
            let (a, b) = (0.4, 1.3);
            corners(&[
                (-a, -b),
                (a, -b),
                (a, -a),
                (b, -a),
                (b, a),
                (a, a),
                (a, b),
                (-a, b),
                (-a, a),
                (-b, a),
                (-b, -a),
                (-a, -a),
            ])
        }
        6 => corners(&[
            (-1.1, -1.1),
            (0.0, -0.45),
            (1.1, -1.1),
            (0.45, 0.0),
            (1.1, 1.1),
            (0.0, 0.45),
            (-1.1, 1.1),
            (-0.45, 0.0),
        ]),
        _ => corners(&[(-1.3, -0.5), (1.3, -0.5), (1.3, 0.5), (-1.3, 0.5)]),
    }
}

/// A whole SVG around a drawing. Alone it brings its style and its paper.
pub fn document(title: &str, (width, height): (f64, f64), body: &str, is_alone: bool) -> String {
    let (width, height, title) = (px(width), px(height), escape(title));
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"group\" aria-label=\"{title}\" xmlns=\"http://www.w3.org/2000/svg\""
    );
    if is_alone {
        let style = super::STYLE;
        let _ = write!(
            out,
            " width=\"{width}\" height=\"{height}\">\n<title>{title}</title>\n<style>\n{style}</style>\n"
        );
        let _ = writeln!(out, "<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>");
    } else {
        out.push_str(">\n");
    }
    out + body + "</svg>\n"
}

/// A text with its anchor at a place.
pub fn text(out: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    let (x, y, text) = (px(x), px(y), escape(text));
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
    let _ = writeln!(out, "<text{class} x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>");
}

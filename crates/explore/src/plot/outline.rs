//! From a chart for a browser to a drawing for anything: classes become attributes, text becomes outlines.

use super::font::Font;
use super::sheet::{Properties, Sheet};
use crate::error::{Error, Result};
use lab::chart::escape;
use resvg::usvg::roxmltree::{Document, Node};
use std::fmt::Write;

/// An SVG of plain attributes and paths, without style sheet, variables, fonts or scripts. What every text says stays in its
/// `aria-label`. `width` is how wide it says it is, in pixels; its own coordinates stay.
pub fn outline(svg: &str, sheet: &Sheet, width: f64) -> Result<String> {
    let document = Document::parse(svg)
        .map_err(|error| Error::new(format!("a drawing is not XML: {error}; this is a bug: report it")))?;
    let mut out = String::new();
    let mut writer = Writer { sheet, font: Font::new(), width, out: &mut out };
    writer.element(document.root_element(), &Properties::new());
    out.push('\n');
    Ok(out)
}

struct Writer<'a> {
    sheet: &'a Sheet,
    font: Font,
    width: f64,
    out: &'a mut String,
}

impl Writer<'_> {
    fn element(&mut self, node: Node, outer: &Properties) {
        let name = node.tag_name().name();
        let (style, variables) = self.sheet.of(node, outer);
        // What nobody sees is for pointing at, in a page.
        if name == "style" || style.get("opacity").is_some_and(|opacity| opacity == "0") {
            return;
        }
        if name == "text" {
            return self.text(node, &style);
        }
        let _ = write!(self.out, "<{name}");
        if name == "svg" {
            self.out.push_str(" xmlns=\"http://www.w3.org/2000/svg\"");
        }
        for attribute in node.attributes() {
            let value = match (name, attribute.name()) {
                (_, "class") => continue,
                (_, data) if data.starts_with("data-") => continue,
                ("svg", "width") => self.width.to_string(),
                ("svg", "height") => self.height(node).to_string(),
                _ => attribute.value().to_string(),
            };
            self.attribute(attribute.name(), &value);
        }
        for (property, value) in style.iter().filter(|(property, _)| !property.starts_with("font")) {
            self.attribute(property, value.strip_suffix("px").unwrap_or(value));
        }
        if !node.has_children() {
            self.out.push_str("/>");
            return;
        }
        self.out.push('>');
        for child in node.children() {
            if child.is_element() {
                self.element(child, &variables);
            } else if let Some(text) = child.text() {
                // Between elements there are line ends at most.
                self.out.push_str(&escape(if name == "title" { text } else { "\n" }));
            }
        }
        let _ = write!(self.out, "</{name}>");
    }

    /// The height that goes with the width, to a whole pixel.
    fn height(&self, node: Node) -> f64 {
        let number =
            |name: &str| node.attribute(name).and_then(|value| value.parse::<f64>().ok()).unwrap_or(1.0);
        (self.width * number("height") / number("width")).round()
    }

    fn text(&mut self, node: Node, style: &Properties) {
        let text: String = node.descendants().filter(Node::is_text).filter_map(|part| part.text()).collect();
        let number = |value: Option<&str>| value.and_then(|value| value.parse::<f64>().ok());
        let size = number(style.get("font-size").map(|size| size.trim_end_matches("px"))).unwrap_or(12.0);
        let (x, y) = (number(node.attribute("x")).unwrap_or(0.0), number(node.attribute("y")).unwrap_or(0.0));
        let before = match node.attribute("text-anchor") {
            Some("middle") => 0.5,
            Some("end") => 1.0,
            _ => 0.0,
        };
        let x = x - before * self.font.width(&text, size);
        let fill = style.get("fill").map_or("#000000", String::as_str);
        self.out.push_str("<path");
        self.attribute("aria-label", &text);
        self.attribute("fill", fill);
        if number(style.get("font-weight").map(String::as_str)).is_some_and(|weight| weight >= 600.0) {
            // One font is enough: the same letters with a thin line around them are bold.
            self.attribute("stroke", fill);
            self.attribute("stroke-width", &format!("{:.2}", size * 0.035));
        }
        let path = self.font.outline(&text, (x, y), size);
        self.attribute("d", &path);
        self.out.push_str("/>");
    }

    fn attribute(&mut self, name: &str, value: &str) {
        let _ = write!(self.out, " {name}=\"{}\"", escape(value));
    }
}

//! Plots as files: plain drawings, the right numbers at the right places, pixels that show them, and what is refused.

use resvg::tiny_skia::Pixmap;
use resvg::usvg::roxmltree::{Document, Node};
use resvg::usvg::{Options, Tree};
use roformer_explore::plot::{
    Angle, Decay, Format, Look, Plot, Receptive, Rotation, Scores, Similarity, Subject, Table, Vector,
    Wavelengths,
};
use std::path::Path;

const LIGHT: Look = Look { width: None, is_dark: false };
const DARK: Look = Look { width: None, is_dark: true };

fn usual() -> Subject {
    Subject::plain(128, 10_000.0).unwrap()
}

fn rotation(frames: Option<usize>) -> Plot {
    Plot::Rotation(Rotation { subject: usual(), pairs: vec![], position: 32, frames })
}

/// Every figure of a rope, as the command line draws them.
fn all(subject: &Subject) -> Vec<Plot> {
    let subject = || subject.clone();
    vec![
        Plot::Decay(Decay { subject: subject(), reach: None }),
        Plot::Wavelengths(Wavelengths { subject: subject(), trained: Some(4096), context: None }),
        Plot::Rotation(Rotation { subject: subject(), pairs: vec![], position: 32, frames: None }),
        Plot::Scores(Scores { subject: subject(), length: 64, seed: 1 }),
        Plot::Similarity(Similarity { dim: 128, length: 128 }),
        Plot::Table(Table { subject: subject(), length: 64 }),
        Plot::Vector(Vector { vector: [1.0, 0.0], angle: Angle::Degrees(90.0) }),
        Plot::Receptive(field(None)),
    ]
}

/// A receptive field with its defaults, of alike vectors or of those of a seed.
fn field(seed: Option<u64>) -> Receptive {
    Receptive { alpha: 0.5, rho: 0.5, dim: 128, base: 10_000.0, reach: 1000.0, seed }
}

fn svg(plot: &Plot, look: Look) -> String {
    String::from_utf8(plot.render(Format::Svg, look).unwrap()).unwrap()
}

/// What the texts of a drawing say, in order.
fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let labels = document.descendants().filter(|node| node.has_tag_name((SVG, "path")));
    labels.filter_map(|node| node.attribute("aria-label")).map(str::to_string).collect()
}

const SVG: &str = "http://www.w3.org/2000/svg";

#[test]
fn drawings_are_plain_and_the_same_each_time() {
    for plot in all(&usual()) {
        let light = svg(&plot, LIGHT);
        assert_eq!(light, svg(&plot, LIGHT));
        assert_ne!(light, svg(&plot, DARK), "dark looks like light");
        for text in [&light, &svg(&plot, DARK)] {
            let document = Document::parse(text).unwrap();
            for node in document.descendants().filter(Node::is_element) {
                let name = node.tag_name().name();
                assert!(["svg", "title", "g", "path", "rect", "circle"].contains(&name), "{name}");
                for attribute in node.attributes() {
                    let (name, value) = (attribute.name(), attribute.value());
                    let is_plain = !name.starts_with("font") && !["class", "style", "href"].contains(&name);
                    assert!(is_plain && !value.contains("var("), "{name}={value}");
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
                }
            }
            let tree = Tree::from_str(text, &Options::default()).unwrap();
            assert!(tree.root().has_children());
            assert!(text.len() < 200_000, "{} bytes", text.len());
        }
    }
}

#[test]
fn no_letter_is_missing_from_the_font() {
    let face = ttf_parser::Face::parse(dejavu::sans_condensed::regular(), 0).unwrap();
    for plot in all(&usual()) {
        for letter in texts(&svg(&plot, LIGHT)).concat().chars().chain("Δθαρᵀ²−·ⱼ".chars()) {
            assert!(face.glyph_index(letter).is_some(), "{letter:?}");
        }
    }
}

#[test]
fn the_first_negative_stands_at_its_distance() {
    let text = svg(&all(&usual())[0], LIGHT);
    assert!(texts(&text).contains(&"first negative at Δ = 1,707".to_string()), "{:?}", texts(&text));
    let document = Document::parse(&text).unwrap();
    let first = |d: &str| -> f64 { d[1..].split(' ').next().unwrap().parse().unwrap() };
    // A tick is a line, then its label. The last of a name is the lower panel's.
    let tick = |name: &str| {
        let label = document.descendants().rfind(|node| node.attribute("aria-label") == Some(name)).unwrap();
        first(label.prev_sibling_element().unwrap().attribute("d").unwrap())
    };
    let dot = document
        .descendants()
        .find(|node| node.text().is_some_and(|text| text.ends_with("at 1,707")))
        .unwrap();
    // The marker is a square of 0.9 times 3.6 pixels to either side.
    let x = first(dot.parent_element().unwrap().attribute("d").unwrap()) + 0.9 * 3.6;
    let expected = tick("1,500") + (1707.0 - 1500.0) / 500.0 * (tick("2,000") - tick("1,500"));
    assert!((x - expected).abs() < 0.3, "{x}, expected {expected}");
}

#[test]
fn figures_say_what_is_known() {
    let said = |plot: &Plot| {
        let text = svg(plot, LIGHT);
        let document = Document::parse(&text).unwrap();
        let titles = document.descendants().filter(|node| node.tag_name().name() == "title");
        let titles: Vec<String> = titles.filter_map(|node| node.text()).map(str::to_string).collect();
        [titles, texts(&text)].concat()
    };
    let plots = all(&usual());
    let expected: [(usize, &[&str]); 6] = [
        // 2π, and 8 · 2π.
        (1, &["no rule: 6.283 at 0", "trained at 4,096", "used at 32,768", "YaRN", "NTK-aware, dynamic NTK"]),
        (2, &["position m = 32", "pair 8: θ = 0.3162", "32.00 rad, 5.09 turns", "3.20 rad, 0.51 turns"]),
        (3, &["Rotary, q = k", "ALiBi", "−3.94", "T5", "31"]),
        (4, &["Inner products of sinusoidal position codes, d = 128"]),
        (6, &["(1, 0) turned by 90° is (0, 1)", "its length stays 1", "(1, 0)", "(0, 1)"]),
        // 0.5 / 10000^0.5.
        (7, &["a′", "b′", "Frequencies: all move towards one that they share, φ = α / 10000^ρ = 0.005"]),
    ];
    for (index, words) in expected {
        let said = said(&plots[index]);
        for word in words {
            assert!(said.contains(&word.to_string()), "{word} is not in {said:?}");
        }
    }
}

/// The points of a path of lines.
fn points(d: &str) -> Vec<(f64, f64)> {
    let corners = d.trim_start_matches('M').trim_end_matches('Z').split('L');
    let point = |corner: &str| {
        let (x, y) = corner.split_once(' ').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    corners.map(point).collect()
}

#[test]
fn an_arrow_ends_where_the_rotation_puts_it() {
    for (vector, angle, position, theta) in [
        ([1.0, 0.0], Angle::Degrees(90.0), 1.0, 90f64.to_radians()),
        ([-3.0, 2.0], Angle::Degrees(-120.0), 1.0, -120f64.to_radians()),
        ([2e-3, 1e-3], Angle::Degrees(765.0), 1.0, 45f64.to_radians()),
        ([5e5, -5e5], Angle::Degrees(5.0), 1.0, 5f64.to_radians()),
        ([1.0, 0.5], Angle::Position { position: 12, theta: 0.1 }, 12.0, 0.1),
        ([0.0, -1.0], Angle::Position { position: 1 << 31, theta: 1.0 }, (1u64 << 31) as f64, 1.0),
    ] {
        let text = svg(&Plot::Vector(Vector { vector, angle }), LIGHT);
        let document = Document::parse(&text).unwrap();
        let circle = document.descendants().find(|node| node.has_tag_name((SVG, "circle"))).unwrap();
        let [x, y, radius] =
            ["cx", "cy", "r"].map(|name| circle.attribute(name).unwrap().parse::<f64>().unwrap());
        let length = f64::hypot(vector[0], vector[1]);
        let turned =
            rope::reference::rotate_by_complex(&vector, position, &[theta], rope::Pairing::Interleaved);
        for (colour, to) in [("#2866a0", vector.to_vec()), ("#d9785f", turned)] {
            // The head of an arrow is all of one colour, and begins at its tip.
            let is_head = |node: &Node| {
                node.attribute("fill") == Some(colour) && node.attribute("fill-opacity").is_none()
            };
            let head = document.descendants().find(is_head).unwrap();
            let tip = points(head.attribute("d").unwrap())[0];
            let expected = (x + radius * to[0] / length, y - radius * to[1] / length);
            assert!(
                (tip.0 - expected.0).hypot(tip.1 - expected.1) < 0.15,
                "{vector:?}: {tip:?}, not {expected:?}"
            );
        }
    }
}

#[test]
fn the_parts_of_a_score_lie_where_the_library_says() {
    use rope::{Pairing, Rope, Schedule, analysis};
    let text = svg(&Plot::Receptive(field(None)), LIGHT);
    let document = Document::parse(&text).unwrap();
    // A tick is a line, then its label; the ticks of y come first, those of x after them.
    let ticks = |name: &str| -> Vec<(f64, f64)> {
        let labels = document.descendants().filter(|node| node.attribute("aria-label") == Some(name));
        let line = |label: Node| label.prev_sibling_element().unwrap().attribute("d").unwrap().to_string();
        labels.map(line).map(|d| points(d.split(['H', 'v']).next().unwrap())[0]).collect()
    };
    let (zero, high) = (ticks("0")[0].1, ticks("60")[0].1);
    let (left, right) = (ticks("0")[1].0, ticks("1,000")[0].0);
    let usual = Rope::builder(128).build().unwrap().frequencies(None);
    let rule = Schedule::ReceptiveField { alpha: 0.5, rho: 0.5 };
    let moved = Rope::builder(128).schedule(rule).build().unwrap().frequencies(None);
    let ones = [1.0, 0.0].repeat(64);
    let parts = |distance: f64| {
        analysis::receptive_field(&ones, &ones, usual.inv_freq(), 0.5, distance, Pairing::Interleaved)
            .unwrap()
    };
    type Curve<'a> = &'a dyn Fn(f64) -> f64;
    let curves: [(&str, Curve); 4] = [
        ("#2866a0", &|distance| parts(distance).a),
        ("#d9785f", &|distance| parts(distance).b),
        ("#a70256", &|distance| analysis::cosine_sum(moved.inv_freq(), distance)),
        ("#519ccd", &|distance| analysis::cosine_sum(usual.inv_freq(), distance)),
    ];
    for (colour, curve) in curves {
        let mut paths = document.descendants().filter(|node| node.attribute("stroke") == Some(colour));
        let line = points(paths.next().unwrap().attribute("d").unwrap());
        assert!(line.len() > 200, "{} points", line.len());
        for (x, y) in line {
            // Distances are whole numbers, more than a pixel's last digit apart.
            let distance = ((x - left) / (right - left) * 1000.0).round();
            let expected = zero + (high - zero) * curve(distance) / 60.0;
            assert!((y - expected).abs() < 0.1, "{colour} at {distance}: {y}, not {expected}");
        }
    }
}

#[test]
fn a_receptive_field_can_be_drawn_as_any_rope() {
    for (alpha, rho) in [(0.0, 0.5), (0.5, 0.5), (1.0, 0.0), (2.0, 4.0)] {
        let subject = Subject::field(128, 10_000.0, alpha, rho).unwrap();
        for plot in all(&subject) {
            svg(&plot, LIGHT);
        }
        let text = svg(&all(&subject)[5], LIGHT);
        let name = format!("d = 128, base 10,000, α = {alpha}, ρ = {rho}");
        assert!(texts(&text).contains(&name), "{:?}", texts(&text));
        // Without α it is what it is without the rule, but for the name.
        let cells = |text: &str| -> Vec<String> {
            text.lines().filter(|line| line.starts_with("<path d=")).map(str::to_string).collect()
        };
        assert_eq!(alpha == 0.0, cells(&text) == cells(&svg(&all(&usual())[5], LIGHT)));
    }
}

#[test]
fn cells_have_the_shade_of_their_number() {
    // The cells of a shade, as rows and columns, of the first matrix.
    let cells = |plot: &Plot, colour: &str| -> Vec<(usize, usize)> {
        let text = svg(plot, LIGHT);
        let document = Document::parse(&text).unwrap();
        let group = document.descendants().find(|node| node.attribute("transform").is_some()).unwrap();
        let path = group.children().find(|node| node.attribute("stroke") == Some(colour)).unwrap();
        let runs = path.attribute("d").unwrap().split('M').skip(1).map(|run| {
            let (place, count) = run.split_once('h').unwrap();
            let (column, row) = place.split_once(' ').unwrap();
            (row.parse().unwrap(), column.parse().unwrap(), count.parse().unwrap())
        });
        runs.flat_map(|(row, column, count): (usize, usize, usize)| {
            (column..column + count).map(move |column| (row, column))
        })
        .collect()
    };
    let (lowest, highest) = ("#7a2c0a", "#0d3a6b");
    // A code is most like itself, and no two others are as alike.
    let alike = cells(&all(&usual())[4], highest);
    assert_eq!(alike, (0..128).map(|position| (position, position)).collect::<Vec<_>>());
    // cos 0 = 1 for every pair; cos(3 · 1) = −0.99, and cos(m · θ) > 0 for the slow ones.
    let table = &all(&usual())[5];
    let high = cells(table, highest);
    assert!((0..64).all(|pair| high.contains(&(0, pair))) && !high.contains(&(1, 0)));
    assert!(
        cells(table, lowest).contains(&(3, 0)) && cells(table, lowest).iter().all(|&(_, pair)| pair < 32)
    );
}

#[test]
fn pixels_show_the_drawing() {
    for plot in all(&usual()) {
        let tree = Tree::from_str(&svg(&plot, LIGHT), &Options::default()).unwrap();
        for (look, paper) in [(LIGHT, [0xff, 0xff, 0xff]), (DARK, [0x15, 0x18, 0x1d])] {
            let png = plot.render(Format::Png, look).unwrap();
            let pixels = Pixmap::decode_png(&png).unwrap();
            let expected = (2 * tree.size().width() as u32, 2 * tree.size().height() as u32);
            assert_eq!((pixels.width(), pixels.height()), expected);
            let colour =
                |pixel: &resvg::tiny_skia::PremultipliedColorU8| [pixel.red(), pixel.green(), pixel.blue()];
            assert_eq!(colour(&pixels.pixels()[0]), paper);
            let colours: std::collections::HashSet<_> = pixels.pixels().iter().map(colour).collect();
            assert!(colours.len() > 30, "{} colours", colours.len());
        }
        let narrow = plot.render(Format::Png, Look { width: Some(333), is_dark: false }).unwrap();
        assert_eq!(Pixmap::decode_png(&narrow).unwrap().width(), 333);
    }
    let wide = svg(&rotation(None), Look { width: Some(1234), is_dark: false });
    assert!(wide.contains(" width=\"1234\""));
}

#[test]
fn a_gif_turns_for_ever_and_ends_at_its_position() {
    for look in [LIGHT, DARK] {
        let bytes = rotation(Some(9)).render(Format::Gif, look).unwrap();
        assert_eq!(bytes, rotation(Some(9)).render(Format::Gif, look).unwrap());
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(&bytes[..]).unwrap();
        let width = usize::from(decoder.width());
        let mut canvas = vec![[0u8; 4]; width * usize::from(decoder.height())];
        let mut frames = 0;
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            let before = canvas.clone();
            for (index, colour) in frame.buffer.chunks_exact(4).enumerate() {
                let (x, y) = (index % usize::from(frame.width), index / usize::from(frame.width));
                if colour[3] != 0 {
                    let place = (usize::from(frame.top) + y) * width + usize::from(frame.left) + x;
                    canvas[place].copy_from_slice(colour);
                }
            }
            let changed = before.iter().zip(&canvas).filter(|(a, b)| a != b).count();
            assert!(changed > 100, "frame {frames}: {changed} pixels have changed");
            frames += 1;
        }
        assert_eq!((frames, decoder.repeat()), (9, gif::Repeat::Infinite));
        // The last frame is the picture of its position, but for the colours that a palette has not.
        let still = rotation(None).render(Format::Png, Look { width: Some(width as u32), ..look }).unwrap();
        let still = Pixmap::decode_png(&still).unwrap();
        assert_eq!(still.pixels().len(), canvas.len());
        let far = still.pixels().iter().zip(&canvas).filter(|(a, b)| {
            [(a.red(), b[0]), (a.green(), b[1]), (a.blue(), b[2])].iter().any(|(a, b)| a.abs_diff(*b) > 40)
        });
        let far = far.count();
        assert!(far * 10_000 < canvas.len(), "{far} of {} pixels", canvas.len());
    }
    let usual = rotation(None).render(Format::Gif, LIGHT).unwrap();
    assert!(usual.len() < 400_000, "{} bytes", usual.len());
}

#[test]
fn models_can_be_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut drawn = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let Ok(subject) = Subject::of_config(&bytes, None) else { continue };
        for plot in all(&subject) {
            let drawn = plot.render(Format::Svg, LIGHT);
            assert!(drawn.is_ok(), "{}: {drawn:?}", path.display());
        }
        drawn += 1;
    }
    assert!(drawn > 0);
    let several = br#"{"model_type": "gemma3_text", "head_dim": 256, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 131072}"#;
    let error = Subject::of_config(several, None).unwrap_err().to_string();
    assert!(error.contains("sliding_attention") && error.contains("full_attention"), "{error}");
    assert_eq!(Subject::of_config(several, Some("sliding_attention")).unwrap().rope.base(), 10_000.0);
    assert!(Subject::of_config(several, Some("other")).is_err());
    assert!(Subject::of_config(b"{", None).is_err());
}

#[test]
fn what_cannot_be_drawn_is_refused_in_one_line() {
    let refused = |plot: Plot, format: Format, look: Look, says: &str| {
        let error = plot.render(format, look).unwrap_err().to_string();
        assert!(error.contains(says) && error.lines().count() == 1, "`{says}` is not in: {error}");
    };
    for (dim, base) in [
        (0, 1e4),
        (1, 1e4),
        (7, 1e4),
        (usize::MAX, 1e4),
        (8, f64::NAN),
        (8, f64::INFINITY),
        (8, 0.0),
        (8, -1e4),
    ] {
        assert!(Subject::plain(dim, base).is_err(), "{dim}, {base}");
    }
    for reach in [0, 1 << 21, u64::MAX] {
        refused(Plot::Decay(Decay { subject: usual(), reach: Some(reach) }), Format::Svg, LIGHT, "reach is");
    }
    for length in [0, 1, 513, usize::MAX] {
        refused(Plot::Table(Table { subject: usual(), length }), Format::Svg, LIGHT, "length is");
        refused(Plot::Scores(Scores { subject: usual(), length, seed: 1 }), Format::Svg, LIGHT, "length is");
        refused(Plot::Similarity(Similarity { dim: 128, length }), Format::Png, LIGHT, "length is");
    }
    for vector in [[0.0, 0.0], [f64::NAN, 1.0], [1.0, f64::INFINITY], [1e9, 0.0], [1e-9, 0.0]] {
        let plot = Plot::Vector(Vector { vector, angle: Angle::Degrees(1.0) });
        refused(plot, Format::Svg, LIGHT, "the vector");
    }
    let turn = |angle: Angle| Plot::Vector(Vector { vector: [1.0, 0.0], angle });
    refused(turn(Angle::Degrees(f64::NAN)), Format::Svg, LIGHT, "angle is NaN");
    refused(turn(Angle::Degrees(1e300)), Format::Svg, LIGHT, "angle is");
    refused(turn(Angle::Position { position: u64::MAX, theta: 1.0 }), Format::Svg, LIGHT, "position is");
    refused(turn(Angle::Position { position: 1, theta: f64::INFINITY }), Format::Svg, LIGHT, "theta is inf");
    for (alpha, rho, says) in [
        (-0.1, 0.5, "alpha is -0.1"),
        (f64::NAN, 0.5, "alpha is NaN"),
        (3.0, 0.5, "alpha is 3"),
        (0.5, -1.0, "rho is -1"),
        (0.5, f64::INFINITY, "rho is inf"),
    ] {
        assert!(Subject::field(128, 1e4, alpha, rho).unwrap_err().to_string().contains(says));
        refused(Plot::Receptive(Receptive { alpha, rho, ..field(None) }), Format::Svg, LIGHT, says);
    }
    refused(Plot::Receptive(Receptive { reach: 0.0, ..field(None) }), Format::Svg, LIGHT, "reach is 0");
    refused(Plot::Receptive(Receptive { dim: 3, ..field(Some(1)) }), Format::Png, LIGHT, "dim is 3");
    for dim in [0, 3, usize::MAX] {
        refused(Plot::Similarity(Similarity { dim, length: 8 }), Format::Svg, LIGHT, "dim is");
    }
    refused(
        Plot::Scores(Scores { subject: usual(), length: 8, seed: u64::MAX }),
        Format::Svg,
        LIGHT,
        "seed is",
    );
    let turned = |pairs: Vec<usize>, position: u64| {
        Plot::Rotation(Rotation { subject: usual(), pairs, position, frames: None })
    };
    refused(turned(vec![64], 1), Format::Svg, LIGHT, "pair 64 does not exist");
    refused(turned(vec![0; 17], 1), Format::Gif, LIGHT, "pairs shown is 17");
    refused(turned(vec![], u64::MAX), Format::Gif, LIGHT, "position is");
    for frames in [0, 1, 501, usize::MAX] {
        refused(rotation(Some(frames)), Format::Gif, LIGHT, "frames is");
    }
    for width in [0, 8193, u32::MAX] {
        for format in [Format::Svg, Format::Png, Format::Gif] {
            refused(rotation(None), format, Look { width: Some(width), is_dark: false }, "width is");
        }
    }
    for context in [0, u64::MAX] {
        let plot = |trained, context| Plot::Wavelengths(Wavelengths { subject: usual(), trained, context });
        refused(plot(Some(4096), Some(context)), Format::Svg, LIGHT, "context is");
        refused(plot(Some(context), None), Format::Svg, LIGHT, "trained is");
        refused(plot(None, Some(4096)), Format::Svg, LIGHT, "trained length");
    }
    for plot in all(&usual()).into_iter().filter(|plot| !matches!(plot, Plot::Rotation(_))) {
        refused(plot, Format::Gif, LIGHT, "only rotation moves");
    }
    for name in ["plot", "plot.jpg", "plot.svg.gz", ".svg", ""] {
        assert!(Format::of(Path::new(name)).is_err(), "{name}");
    }
    assert_eq!(Format::of(Path::new("PLOT.SVG")).unwrap(), Format::Svg);
    // The ends of what is taken.
    for (dim, base, reach) in [(2, 2.0, 16), (512, 1e12, 2000)] {
        let subject = Subject::plain(dim, base).unwrap();
        let plot = Plot::Decay(Decay { subject: subject.clone(), reach: Some(reach) });
        plot.render(Format::Svg, LIGHT).unwrap();
        let plot = Plot::Wavelengths(Wavelengths {
            subject: subject.clone(),
            trained: Some(1),
            context: Some(1 << 40),
        });
        plot.render(Format::Svg, LIGHT).unwrap();
        let plot = Plot::Rotation(Rotation { subject, pairs: vec![], position: 1 << 31, frames: Some(2) });
        plot.render(Format::Gif, LIGHT).unwrap();
    }
}

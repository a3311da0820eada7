//! What every chart must hold: it is well-formed, nothing leaves its frame, and no number that is not finite gets in.

use super::*;
use proptest::prelude::*;

/// An element of an SVG: its name and its attributes.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn has_class(&self, class: &str) -> bool {
        self.get("class").is_some_and(|classes| classes.split(' ').any(|known| known == class))
    }
}

/// The elements of a document, or what is wrong with it. Knows as much XML as charts use.
fn parse(text: &str) -> Result<Vec<Element>, String> {
    let mut elements = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start])?;
        let end = rest.find('>').ok_or("a tag does not end")?;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut element = Element { name: name.into(), attributes: Vec::new() };
        while !attributes.trim().is_empty() {
            let (key, value) = attributes.split_once("=\"").ok_or(format!("attributes {attributes}"))?;
            let (value, after) = value.split_once('"').ok_or("a value does not end")?;
            check_text(value)?;
            if element.get(key.trim()).is_some() {
                return Err(format!("{key} twice"));
            }
            element.attributes.push((key.trim().into(), value.into()));
            attributes = after;
        }
        elements.push(element);
        if !is_empty {
            open.push(name.into());
        }
    }
    check_text(rest)?;
    if open.is_empty() && rest.trim().is_empty() { Ok(elements) } else { Err(format!("left open: {open:?}")) }
}

fn check_text(text: &str) -> Result<(), String> {
    for part in text.split('&').skip(1) {
        if !["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|entity| part.starts_with(entity)) {
            return Err(format!("a bare & before {part:.10}"));
        }
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return Err("a control character".into());
    }
    Ok(())
}

/// Every place that a path goes to with `M` and `L`.
fn places(d: &str) -> Vec<(f64, f64)> {
    let moves = d.split(['M', 'L', 'Z']).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(part.len());
        let (x, y) = part[..end].split_once(' ')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    moves.filter_map(pair).collect()
}

/// Checks a document, and gives the places of its lines, bands and dots.
fn checked(svg: &str) -> Vec<(f64, f64)> {
    let elements = parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    for word in ["NaN", "inf"] {
        let is_in = |element: &Element| element.attributes.iter().any(|(_, value)| value.contains(word));
        assert!(!elements.iter().any(is_in), "{word} in\n{svg}");
    }
    let [.., width, height] = elements[0]
        .get("viewBox")
        .unwrap()
        .split(' ')
        .map(|part| part.parse::<f64>().unwrap())
        .collect::<Vec<_>>()[..]
    else {
        panic!("no view box")
    };
    let mut found = Vec::new();
    for element in &elements {
        if ["line", "thin", "band", "dot"].iter().any(|class| element.has_class(class)) {
            match element.name.as_str() {
                "circle" => {
                    found.push(["cx", "cy"].map(|name| element.get(name).unwrap().parse().unwrap()).into())
                }
                _ => found.extend(places(element.get("d").unwrap())),
            }
        }
    }
    for &(x, y) in &found {
        assert!(
            (-0.1..=width + 0.1).contains(&x) && (-0.1..=height + 0.1).contains(&y),
            "({x}, {y}) is outside\n{svg}"
        );
    }
    found
}

fn panel(points: &[(f64, f64)]) -> Panel {
    let series = Series {
        label: "a <b> & \"c\" 'd'\u{7}".into(),
        note: "note".into(),
        key: "k\"k".into(),
        points: points.iter().map(|&point| point.into()).collect(),
        behind: vec![points.to_vec()],
        band: points.iter().map(|&(x, y)| (x, y - 1.0, y + 1.0)).collect(),
        ..Series::default()
    };
    Panel {
        x: Axis::new("x & y"),
        y: Axis::new("<y>"),
        height: 300.0,
        series: vec![series],
        ..Panel::default()
    }
}

fn all(panel: Panel) -> Vec<String> {
    let log = Panel { x: panel.x.clone().log(), y: panel.y.clone().log(), ..panel.clone() };
    let figures = [panel, log].map(|panel| Figure::of("<title> & more", panel));
    figures
        .iter()
        .flat_map(|figure| {
            [figure.inline(700.0), figure.inline(300.0), figure.file(700.0), figure.file(90.0)]
        })
        .collect()
}

#[test]
fn the_checker_finds_faults() {
    for wrong in
        ["<a>", "<a></b>", "<a b=\"c></a>", "<a b=\"1\" b=\"2\"/>", "<a>x & y</a>", "<a>\u{1}</a>", "</a>"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(places("M1 2L3.5 -4Z"), [(1.0, 2.0), (3.5, -4.0)]);
}

#[test]
fn edge_cases_are_drawn() {
    let (huge, tiny) = (f64::MAX, 5e-324);
    let cases: [&[(f64, f64)]; 9] = [
        &[],
        &[(3.0, 4.0)],
        &[(f64::NAN, 1.0), (2.0, f64::INFINITY), (f64::NEG_INFINITY, f64::NAN)],
        &[(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)],
        &[(-huge, -huge), (huge, huge)],
        &[(tiny, tiny), (2.0 * tiny, 4.0 * tiny)],
        &[(1e300, 1e-300), (2e300, 2e-300)],
        &[(1.0, 1e16), (2.0, 1e16 + 4.0)],
        &[(0.0, 0.0), (-1.0, -1.0)],
    ];
    for points in cases {
        for svg in all(panel(points)) {
            checked(&svg);
        }
    }
}

#[test]
fn what_is_not_finite_leaves_a_gap() {
    let points = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)];
    let svg = Figure::of("gap", panel(&points)).inline(700.0);
    let elements = parse(&svg).unwrap();
    let line = elements.iter().find(|element| element.has_class("line")).unwrap();
    assert_eq!(line.get("d").unwrap().matches('M').count(), 2, "{svg}");
    assert_eq!(elements.iter().filter(|element| element.has_class("dot")).count(), 4);
}

#[test]
fn values_are_in_titles_and_attributes() {
    let svg = Figure::of("t", panel(&[(1.0, 0.25), (2.0, 0.5)])).inline(700.0);
    assert!(
        svg.contains(
            "data-x=\"2\" data-y=\"0.5\"><title>a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;: 0.5 at 2</title>"
        ),
        "{svg}"
    );
}

#[test]
fn a_file_stands_alone_and_an_inline_chart_does_not() {
    let figure = Figure::of("t", panel(&[(1.0, 2.0)]));
    assert!(
        figure.file(700.0).contains("<style>") && figure.file(700.0).contains("prefers-color-scheme: dark")
    );
    assert!(!figure.inline(700.0).contains("<style>"));
}

#[test]
fn labels_that_do_not_fit_become_a_legend() {
    let mut panel = panel(&[(1.0, 2.0), (2.0, 3.0)]);
    let names = |panel: &Panel| {
        let svg = Figure::of("t", panel.clone()).inline(700.0);
        checked(&svg);
        parse(&svg).unwrap().iter().filter(|element| element.has_class("name")).count()
    };
    assert_eq!(names(&panel), 1);
    panel.series = vec![panel.series[0].clone(); 30];
    assert_eq!(names(&panel), 30);
    panel.series[0].label = "a very long label ".repeat(20);
    assert_eq!(names(&panel), 30);
}

#[test]
fn a_line_without_a_label_has_nothing_beside_its_end() {
    let mut panel = panel(&[(0.0, 1.0), (1.0, 2.0)]);
    assert!(Figure::of("", panel.clone()).file(800.0).contains("class=\"leader\""));
    panel.series.iter_mut().for_each(|series| series.label.clear());
    assert!(!Figure::of("", panel).file(800.0).contains("class=\"leader\""));
}

#[test]
fn many_points_show_some_markers_only() {
    let points: Vec<(f64, f64)> = (0..500).map(|x| (x as f64, (x as f64).sqrt())).collect();
    let svg = Figure::of("t", panel(&points)).inline(700.0);
    let elements = parse(&svg).unwrap();
    let dots = |is_quiet: bool| {
        elements
            .iter()
            .filter(|element| element.has_class("dot") && element.has_class("quiet") == is_quiet)
            .count()
    };
    assert_eq!(dots(false), 8);
    assert!((40..=60).contains(&dots(true)), "{}", dots(true));
}

#[test]
fn ticks_are_round() {
    let labels = |axis: Axis, values: &[f64], count: usize| -> Vec<String> {
        let placed = axis.place(values.iter().copied(), (0.0, 100.0), count, true);
        placed.ticks.into_iter().map(|(_, label)| label).collect()
    };
    assert_eq!(labels(Axis::new(""), &[0.0, 1.0], 5), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(labels(Axis::new(""), &[0.0, 1_600_000.0], 4), ["0", "0.5M", "1.0M", "1.5M", "2.0M"]);
    assert_eq!(labels(Axis::new("").whole(), &[1.0, 2.0], 5), ["1", "2"]);
    assert_eq!(labels(Axis::new(""), &[-0.02, 0.01], 3), ["−0.02", "−0.01", "0", "0.01"]);
    assert_eq!(labels(Axis::new("").log(), &[0.001, 100.0], 5), ["0.001", "0.01", "0.1", "1", "10", "100"]);
    assert_eq!(labels(Axis::new("").log(), &[10.0, 100.0], 6), ["10", "20", "50", "100"]);
    assert_eq!(labels(Axis::new("").log(), &[6.0, 4e7], 5), ["100", "10k", "1M"]);
}

#[test]
fn numbers_are_read_easily() {
    let cases = [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.95321, "0.9532"),
        (-0.25, "−0.25"),
        (1250.0, "1,250"),
        (123456.0, "123,456"),
        (0.001, "0.001"),
        (1.2e-7, "1.2e−7"),
        (9.2e8, "9.2e8"),
        (12.345, "12.35"),
        (f64::NAN, "–"),
        (f64::INFINITY, "–"),
    ];
    for (value, text) in cases {
        assert_eq!(number(value), text);
    }
    assert_eq!([0.5, -0.5, 0.0].map(signed), ["+0.5", "−0.5", "0"]);
    assert_eq!([9.2e8, 1234.0, 12.0, 1.5e12].map(compact), ["920M", "1.23k", "12", "1.5T"]);
}

#[test]
fn labels_are_moved_apart() {
    let places = labels::spread(&[5.0, 5.0, 90.0], &[10.0, 20.0, 10.0], 0.0, 100.0).unwrap();
    assert!(places[1] - places[0] >= 10.0 - 1e-9 && places[0] >= 0.0, "{places:?}");
    assert_eq!(places[2], 90.0);
    assert_eq!(labels::spread(&[1.0; 11], &[10.0; 11], 0.0, 100.0), None);
}

#[test]
fn heat_maps_are_drawn() {
    let row = |values: &[f64]| HeatRow { label: "a<b".into(), key: "k".into(), values: values.into() };
    let map = |rows: Vec<HeatRow>| HeatMap {
        title: "t".into(),
        columns_label: "distance".into(),
        columns: (0..4).map(|column| column.to_string()).collect(),
        value_label: "v".into(),
        rows,
    };
    let svg = map(vec![row(&[0.0, 0.25, 1.0, f64::NAN]), row(&[0.5])]).inline(400.0);
    checked(&svg);
    let elements = parse(&svg).unwrap();
    let shades: Vec<&str> = elements
        .iter()
        .filter(|element| element.get("data-y").is_some())
        .map(|cell| cell.get("class").unwrap())
        .collect();
    assert_eq!(shades, ["cell h0", "cell h5", "cell h9", "cell h7"]);
    for rows in [vec![], vec![row(&[])], vec![row(&[-1.0, f64::INFINITY])], vec![row(&[0.0; 9])]] {
        checked(&map(rows).file(400.0));
    }
}

#[test]
fn curves_of_training() {
    let svg = curves(&[(10, 3.0), (20, 2.0)], &[(20, 2.2)], &[(10, 1e-3), (20, 5e-4)]);
    checked(&svg);
    assert_eq!(parse(&svg).unwrap().iter().filter(|element| element.has_class("dot")).count(), 5);
    for name in ["loss", "validation loss", "learning rate"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}");
    }
    checked(&curves(&[], &[], &[]));
    checked(&curves(&[(1, f64::NAN)], &[(u64::MAX, 1.0)], &[(0, f64::INFINITY)]));
}

#[test]
fn an_interval_stays_in_its_cell() {
    let what = Interval { low: -5.0, mean: 0.5, high: 5.0, margin: 0.1, reach: 1.0 };
    parse(&interval(what)).unwrap();
    assert!(interval(what).contains("M4 8H106"));
    assert_eq!(interval(Interval { mean: f64::NAN, ..what }), "");
    assert_eq!(interval(Interval { reach: 0.0, ..what }), "");
}

proptest! {
    #[test]
    fn any_data_stays_in_the_frame(points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..40), width in 60.0..900.0f64) {
        let figure = Figure { title: "t".into(), columns: 2, panels: vec![panel(&points), panel(&points)] };
        checked(&figure.inline(width));
        prop_assert_eq!(figure.file(width), figure.file(width));
        for svg in all(panel(&points)) {
            checked(&svg);
        }
    }

    #[test]
    fn any_text_is_escaped(text in any::<String>()) {
        let mut panel = panel(&[(1.0, 2.0)]);
        panel.title = text.clone();
        panel.series[0].label = text.clone();
        panel.series[0].key = text.clone();
        for svg in all(panel) {
            checked(&svg);
        }
    }
}

//! The page's files, inside the program.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

/// The files of `page/`, by their path from there.
macro_rules! files {
    ($($path:literal)*) => { &[$(($path, include_str!(concat!("../../page/", $path)))),*] };
}

/// All files, with the charts' own style sheet, so that colours are said once.
pub const FILES: &[(&str, &str)] = files![
    "index.html"
    "style.css"
    "js/main.js"
    "js/state.js"
    "js/controls.js"
    "js/part.js"
    "js/place.js"
    "js/figure.js"
    "js/export.js"
    "js/format.js"
    "js/math.js"
    "js/svg.js"
    "js/chart.js"
    "js/sentence.js"
    "js/parts/lengths.js"
    "js/parts/all.js"
    "js/parts/order.js"
    "js/parts/order/moves.js"
    "js/parts/codes.js"
    "js/parts/terms.js"
    "js/parts/complex.js"
    "js/parts/tokens.js"
    "js/parts/turning.js"
    "js/parts/clocks.js"
    "js/parts/pairing.js"
    "js/parts/decay.js"
    "js/parts/decay/about.js"
    "js/parts/decay/arrange.js"
    "js/parts/decay/cursor.js"
    "js/parts/decay/hands.js"
    "js/parts/decay/kept.js"
    "js/parts/similarity.js"
    "js/parts/biases.js"
    "js/parts/linear.js"
    "js/parts/receptive.js"
    "js/parts/extension.js"
    "js/parts/extension/chart.js"
    "js/parts/extension/methods.js"
    "js/parts/precision.js"
    "js/parts/inspect.js"
    "js/parts/inspect/chart.js"
    "js/parts/inspect/source.js"
    "js/parts/inspect/verdict.js"
    "js/parts/model.js"
    "js/parts/comparison.js"
];

/// The file at a path of the address.
pub fn find(path: &str) -> Option<Response> {
    let path = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    let text = match path {
        "chart.css" => lab::chart::STYLE,
        _ => FILES.iter().find(|(name, _)| *name == path)?.1,
    };
    let kind = match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_file_of_the_page_is_inside() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found = Vec::new();
        walk(&root, &mut found);
        let mut names: Vec<String> = found
            .iter()
            .map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/"))
            .collect();
        let mut inside: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        names.sort();
        inside.sort();
        assert_eq!(names, inside);
    }
}

//! The page's files, inside the program.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

/// The files of `page/`, by their path from there.
macro_rules! files {
    ($($path:literal)*) => { &[$(($path, include_str!(concat!("../../page/", $path)))),*] };
}

/// All files of `page/`.
const FILES: &[(&str, &str)] = files![
    "index.html"
    "style.css"
    "js/ask.js"
    "js/chart.js"
    "js/controls.js"
    "js/export.js"
    "js/figure.js"
    "js/format.js"
    "js/main.js"
    "js/math.js"
    "js/part.js"
    "js/place.js"
    "js/sentence.js"
    "js/state.js"
    "js/svg.js"
    "js/tour.js"
    "js/words.js"
    "js/words/zh.js"
    "js/words/zh/biases.js"
    "js/words/zh/clocks.js"
    "js/words/zh/codes.js"
    "js/words/zh/comparison.js"
    "js/words/zh/complex.js"
    "js/words/zh/decay.js"
    "js/words/zh/extension.js"
    "js/words/zh/inspect.js"
    "js/words/zh/linear.js"
    "js/words/zh/model.js"
    "js/words/zh/order.js"
    "js/words/zh/page.js"
    "js/words/zh/pairing.js"
    "js/words/zh/precision.js"
    "js/words/zh/receptive.js"
    "js/words/zh/similarity.js"
    "js/words/zh/terms.js"
    "js/words/zh/tokens.js"
    "js/words/zh/tour.js"
    "js/words/zh/turning.js"
    "js/parts/all.js"
    "js/parts/biases.js"
    "js/parts/clocks.js"
    "js/parts/codes.js"
    "js/parts/comparison.js"
    "js/parts/complex.js"
    "js/parts/decay.js"
    "js/parts/decay/about.js"
    "js/parts/decay/arrange.js"
    "js/parts/decay/cursor.js"
    "js/parts/decay/hands.js"
    "js/parts/decay/kept.js"
    "js/parts/extension.js"
    "js/parts/extension/chart.js"
    "js/parts/extension/methods.js"
    "js/parts/inspect.js"
    "js/parts/inspect/chart.js"
    "js/parts/inspect/source.js"
    "js/parts/inspect/verdict.js"
    "js/parts/lengths.js"
    "js/parts/linear.js"
    "js/parts/model.js"
    "js/parts/order.js"
    "js/parts/order/moves.js"
    "js/parts/pairing.js"
    "js/parts/precision.js"
    "js/parts/receptive.js"
    "js/parts/similarity.js"
    "js/parts/terms.js"
    "js/parts/tokens.js"
    "js/parts/turning.js"
];

/// All files, with the charts' own style sheet, so that colours are said once.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied().chain([("chart.css", lab::chart::STYLE)])
}

/// The file at a path of the address.
pub fn find(path: &str) -> Option<Response> {
    let path = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    let text = all().find(|(name, _)| *name == path)?.1;
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

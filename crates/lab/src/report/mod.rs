//! The report of a comparison: one page that needs nothing else, and its figures as files beside it.
//!
//! The same results give the same bytes in the same language. Times come from [`Timings`] and are marked as measured; nothing else on the page
//! depends on them.

mod description;
mod digest;
mod figures;
mod notes;
mod page;
mod recipe;
mod sizes;
mod tables;
mod verdict;
mod words;

pub use recipe::recipe;
pub use words::stored;

use super::results::{Results, Timings};
use roformer::Result;
use roformer::files::{failed, write as write_file};
use roformer::language::Language;
use std::fs;
use std::path::Path;

/// Writes `report.html` and `figures/*.svg` into a folder, in a language, each file whole or not at all.
pub fn write(language: Language, results: &Results, timings: &Timings, folder: &Path) -> Result<()> {
    let page = page::Page::new(language, results, timings);
    let figures = folder.join("figures");
    fs::create_dir_all(&figures).map_err(|error| failed(&figures, error))?;
    for (name, figure) in &page.files {
        write_file(&figures.join(name), figure.as_bytes())?;
    }
    write_file(&folder.join("report.html"), page.html().as_bytes())
}

//! Vectors of texts as functions of Daft, by its stable C interface: no Python runs per batch.
//!
//! Two functions, each of a column of texts and of the settings, a JSON object that is the same for all rows:
//!
//! ```text
//! rotary_embed              a list of float32; null for null, and a text that cannot be embedded ends the query
//! rotary_embed_with_errors  a struct of `vector` and of `error`, which says why a row has none
//! ```
//!
//! `settings.rs` reads the settings, `models.rs` keeps models, `columns.rs` is Arrow in and out, `embed.rs` the functions.

mod columns;
mod embed;
mod models;
mod settings;

use daft_ext::daft_extension;
use daft_ext::prelude::*;
use embed::Embed;
use std::sync::Arc;

/// What Daft finds when it opens the library.
#[daft_extension]
struct RotaryDaft;

impl DaftExtension for RotaryDaft {
    fn install(session: &mut dyn DaftSession) {
        session.define_function(Arc::new(Embed { name: c"rotary_embed", tells_errors: false }));
        session.define_function(Arc::new(Embed { name: c"rotary_embed_with_errors", tells_errors: true }));
    }
}

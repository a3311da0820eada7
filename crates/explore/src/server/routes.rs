//! The routes: the page, and a figure each.

use super::answer::{figure, refusal};
use super::{Exhibits, files};
use crate::figures::*;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// All that can be asked.
pub fn router(exhibits: Arc<Exhibits>) -> Router {
    let _ = exhibits;
    Router::new()
        .route("/api/tokens", get(|uri: Uri| figure(uri, tokens::tokens)))
        .fallback(get(file))
        .method_not_allowed_fallback(|| async {
            refusal(StatusCode::METHOD_NOT_ALLOWED, "this address is asked with GET")
        })
}

/// A file of the page, or that there is none.
async fn file(uri: Uri) -> Response {
    let missing = || {
        refusal(
            StatusCode::NOT_FOUND,
            "there is nothing at this address; the page is at /, figures are below /api",
        )
    };
    files::find(uri.path()).unwrap_or_else(missing)
}

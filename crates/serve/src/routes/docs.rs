//! `/docs`: the routes on one page, which needs nothing from elsewhere.

use crate::ask::Shared;
use axum::Router;
use axum::http::header;
use axum::routing::get;

/// The page, and the description that it shows.
pub fn router(document: String) -> Router<Shared> {
    let page = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    let json = [(header::CONTENT_TYPE, "application/json")];
    Router::new()
        .route("/docs", get(move || async move { (page, include_str!("docs.html")) }))
        .route("/api-doc/openapi.json", get(move || async move { (json, document) }))
}

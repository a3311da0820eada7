//! The routes: the page, a figure each, and `/api`, which lists them with their parameters.

use super::answer::{computed, figure, refusal};
use super::{config, files};
use crate::error::{Error, Result};
use crate::exhibits::{Comparison, Exhibits, Model};
use crate::figures::*;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// All that can be asked.
pub fn router(exhibits: Arc<Exhibits>) -> Router {
    let [all, given, model, comparison] = std::array::from_fn(|_| exhibits.clone());
    let figures = Figures::default()
        .figure("order", "attention without positions to a sentence in two orders", order::order)
        .figure("codes", "positions as scalars, integers, binary digits and sinusoids", codes::codes)
        .figure("terms", "the four terms of a score with positions added", terms::terms)
        .figure("complex", "a complex number as point, matrix and rotation", complex::complex)
        .figure("tokens", "two tokens on a ruler, turned, and their score", tokens::tokens)
        .figure("turning", "a pair of features as position grows", turning::turning)
        .figure("clocks", "every pair at a position, with what training has seen of it", clocks::clocks)
        .figure("pairing", "one vector under both pairings", pairing::pairing)
        .figure("decay", "scores against distance, of several queries and keys", decay::decay)
        .figure("similarity", "sinusoidal codes and their inner products", similarity::similarity)
        .figure("biases", "what T5, ALiBi, KERPLE and Shaw add to scores, beside rotary", biases::biases)
        .figure("linear", "the cost of softmax and linear attention, and its weights", linear::linear)
        .figure("receptive", "the rule with a receptive field, and its Hilbert pair", receptive::receptive)
        .figure("extension", "every rule at a longer context", extension::extension)
        .figure("precision", "angles of every pair, exact and in fewer digits", precision::precision)
        .exhibit("model", "one head's attention of the model that was given", move |ask| {
            let missing = || Error::new("no model was given when this page was started");
            model.model.as_ref().ok_or_else(missing)?.attention(ask)
        })
        .exhibit("comparison", "the curves of the comparison that was given", move |ask| {
            let missing = || Error::new("no comparison was given when this page was started");
            comparison.comparison.as_ref().ok_or_else(missing)?.curves(ask)
        });
    let Figures { router, list } = figures;
    router
        .route("/api", get(|| computed(move || Ok(list))))
        .route("/api/exhibits", get(move || listed(all)))
        .route("/api/inspect", post(config::inspected).fallback(config::not_sent))
        .route("/api/examples", get(|| computed(|| Ok(inspect::EXAMPLES))))
        .route("/api/given", get(move || config::given(given)))
        .fallback(get(file).fallback(wrong_method))
        .method_not_allowed_fallback(wrong_method)
}

/// Routes of figures, with a line of the list for each.
#[derive(Default)]
struct Figures {
    router: Router,
    list: Vec<Value>,
}

impl Figures {
    /// Adds a figure.
    fn figure<Ask, Answer>(self, name: &str, about: &str, compute: fn(&Ask) -> Result<Answer>) -> Self
    where
        Ask: Default + Serialize + DeserializeOwned + Send + 'static,
        Answer: Serialize + Send + 'static,
    {
        self.exhibit(name, about, compute)
    }

    /// Adds a figure of something that was given.
    fn exhibit<Ask, Answer>(
        mut self,
        name: &str,
        about: &str,
        compute: impl Fn(&Ask) -> Result<Answer> + Clone + Send + Sync + 'static,
    ) -> Self
    where
        Ask: Default + Serialize + DeserializeOwned + Send + 'static,
        Answer: Serialize + Send + 'static,
    {
        let route = format!("/api/{name}");
        self.list.push(json!({ "route": route, "about": about, "parameters": Ask::default() }));
        self.router = self.router.route(&route, get(move |uri: Uri| figure(uri, compute.clone())));
        self
    }
}

/// Which exhibits there are.
async fn listed(exhibits: Arc<Exhibits>) -> Response {
    let config = exhibits.config.as_ref().map(|(name, _)| name.clone());
    let model = exhibits.model.as_ref().map(Model::about);
    let comparison = exhibits.comparison.as_ref().map(Comparison::tasks);
    computed(move || Ok(json!({ "config": config, "model": model, "comparison": comparison }))).await
}

/// What is said to whoever asks in another way.
async fn wrong_method() -> Response {
    refusal(StatusCode::METHOD_NOT_ALLOWED, "this address is not asked in this way; see /api")
}

/// A file of the page, or that there is none.
async fn file(uri: Uri) -> Response {
    let missing = || {
        refusal(
            StatusCode::NOT_FOUND,
            "there is nothing at this address; the page is at /, figures are listed at /api",
        )
    };
    files::find(uri.path()).unwrap_or_else(missing)
}

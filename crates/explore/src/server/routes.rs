//! The routes: the page, a figure each, and `/api`, which lists them with their parameters.

use super::answer::{body, computed, question, refusal};
use super::language::Asked;
use super::{config, files};
use crate::error::{Error, Result};
use crate::exhibits::{Comparison, Exhibits, Model};
use crate::figures::*;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use roformer::language::Language;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// The answer to the question in an address, as JSON; sentences in it are in a language.
type Answer = dyn Fn(&Uri, Language) -> Result<Vec<u8>> + Send + Sync;

/// A figure: its name, what it shows, and its answer to the question in an address.
pub struct Figure {
    pub name: &'static str,
    about: &'static str,
    parameters: Value,
    pub answer: Arc<Answer>,
}

/// All figures.
pub fn figures(exhibits: &Arc<Exhibits>) -> Vec<Figure> {
    let [model, comparison] = std::array::from_fn(|_| exhibits.clone());
    vec![
        figure("words", "a sentence cut into words", sentence::cut),
        figure("order", "attention without positions to a sentence in two orders", order::order),
        figure("codes", "positions as scalars, integers, binary digits and sinusoids", codes::codes),
        figure("terms", "the four terms of a score with positions added", terms::terms),
        figure("complex", "a complex number as point, matrix and rotation", complex::complex),
        figure("tokens", "two tokens on a ruler, turned, and their score", tokens::tokens),
        figure("turning", "a pair of features as position grows", turning::turning),
        figure("clocks", "every pair at a position, with what training has seen of it", clocks::clocks),
        figure("pairing", "one vector under both pairings", pairing::pairing),
        figure("decay", "scores against distance, of several queries and keys", decay::decay),
        figure("similarity", "sinusoidal codes and their inner products", similarity::similarity),
        figure("biases", "what T5, ALiBi, KERPLE and Shaw add to scores, beside rotary", biases::biases),
        figure("linear", "the cost of softmax and linear attention, and its weights", linear::linear),
        figure("receptive", "the rule with a receptive field, and its Hilbert pair", receptive::receptive),
        figure("extension", "every rule at a longer context", extension::extension),
        figure("precision", "angles of every pair, exact and in fewer digits", precision::precision),
        figure("model", "one head's attention of the model that was given", move |ask| {
            let missing =
                || Error::refused("no model was given when this page was started", "启动本页时没有给出模型");
            model.model.as_ref().ok_or_else(missing)?.attention(ask)
        }),
        told("comparison", "the curves of the comparison that was given", move |ask, language| {
            let missing = || {
                Error::refused(
                    "no comparison was given when this page was started",
                    "启动本页时没有给出比较结果",
                )
            };
            comparison.comparison.as_ref().ok_or_else(missing)?.curves(ask, language)
        }),
    ]
}

/// A figure of numbers, which are the same in every language.
fn figure<Ask, Answer>(
    name: &'static str,
    about: &'static str,
    compute: impl Fn(&Ask) -> Result<Answer> + Send + Sync + 'static,
) -> Figure
where
    Ask: Default + Serialize + DeserializeOwned,
    Answer: Serialize,
{
    told(name, about, move |ask, _| compute(ask))
}

/// A figure that has sentences as well.
fn told<Ask, Answer>(
    name: &'static str,
    about: &'static str,
    compute: impl Fn(&Ask, Language) -> Result<Answer> + Send + Sync + 'static,
) -> Figure
where
    Ask: Default + Serialize + DeserializeOwned,
    Answer: Serialize,
{
    let answer = move |uri: &Uri, language| body(&compute(&question(uri)?, language)?);
    Figure { name, about, parameters: json!(Ask::default()), answer: Arc::new(answer) }
}

/// All that can be asked.
pub fn router(exhibits: Arc<Exhibits>) -> Router {
    let figures = figures(&exhibits);
    let line = |figure: &Figure| json!({ "route": format!("/api/{}", figure.name), "about": figure.about, "parameters": figure.parameters });
    let list: Vec<Value> = figures.iter().map(line).collect();
    let mut router = Router::new();
    for Figure { name, answer, .. } in figures {
        let ask = move |uri: Uri, Asked(language): Asked| {
            let answer = answer.clone();
            computed(language, move || answer(&uri, language))
        };
        router = router.route(&format!("/api/{name}"), get(ask));
    }
    let given = exhibits.clone();
    router
        .route("/api", get(|Asked(language): Asked| computed(language, move || body(&list))))
        .route(
            "/api/exhibits",
            get(move |Asked(language): Asked| computed(language, move || listed(&exhibits))),
        )
        .route("/api/inspect", post(config::inspected).fallback(config::not_sent))
        .route("/api/examples", get(|Asked(language): Asked| computed(language, || body(&inspect::EXAMPLES))))
        .route(
            "/api/given",
            get(move |Asked(language): Asked| computed(language, move || config::given(&given))),
        )
        .fallback(get(file).fallback(wrong_method))
        .method_not_allowed_fallback(wrong_method)
}

/// Which exhibits there are.
pub fn listed(exhibits: &Exhibits) -> Result<Vec<u8>> {
    let config = exhibits.config.as_ref().map(|(name, _)| name);
    let model = exhibits.model.as_ref().map(Model::about);
    let comparison = exhibits.comparison.as_ref().map(Comparison::tasks);
    body(&json!({ "config": config, "model": model, "comparison": comparison }))
}

/// What is said to whoever asks in another way.
async fn wrong_method(Asked(language): Asked) -> Response {
    let reason =
        Error::refused("this address is not asked in this way; see /api", "这个地址不能这样请求；见 /api");
    refusal(StatusCode::METHOD_NOT_ALLOWED, &reason, language)
}

/// A file of the page, or that there is none.
async fn file(uri: Uri, Asked(language): Asked) -> Response {
    let missing = || {
        let reason = Error::refused(
            "there is nothing at this address; the page is at /, figures are listed at /api",
            "这个地址没有内容；网页在 /，图的列表在 /api",
        );
        refusal(StatusCode::NOT_FOUND, &reason, language)
    };
    files::find(uri.path()).unwrap_or_else(missing)
}

//! What can be asked: one table, from which requests are routed and described.

mod docs;
mod embed;
mod entry;
mod extra;
mod openai;
mod rerank;
mod root;
mod tei;
mod texts;

use crate::ask::Shared;
use crate::openapi::Description;
use crate::refusal::{Kind, Refusal};
use axum::Router;
use axum::handler::Handler;
use axum::middleware;
use axum::routing::{MethodFilter, on};
use schemars::JsonSchema;
use serde_json::Value;

/// All routes.
pub fn router(state: Shared) -> Router {
    let public = Table::default()
        .get::<(), _, _>("/health", "Whether the server answers", tei::health)
        .get::<(), _, _>("/ping", "The same", tei::health)
        .get::<String, _, _>("/metrics", "Counts and times for Prometheus", tei::metrics)
        .get::<(), _, _>("/", "Whether the server answers", tei::health);
    let keyed = Table::default()
        .get::<tei::Info, _, _>("/info", "The model and the limits", tei::info)
        .post::<embed::Request, Vec<Vec<f32>>, _, _>("/embed", "Vectors of texts", embed::embed)
        .post::<embed::AllRequest, Vec<Vec<Vec<f32>>>, _, _>(
            "/embed_all",
            "Vectors of all tokens of texts",
            embed::embed_all,
        )
        .post::<embed::SimilarityRequest, Vec<f32>, _, _>(
            "/similarity",
            "How alike a text and others are: the cosines of their vectors",
            embed::similarity,
        )
        .post::<tei::PredictRequest, tei::Predictions, _, _>(
            "/predict",
            "Labels of texts, or of pairs",
            tei::predict,
        )
        .post::<rerank::Request, Vec<rerank::Rank>, _, _>(
            "/rerank",
            "Texts by how near they are to a query",
            rerank::rerank,
        )
        .post::<tei::TokenizeRequest, Vec<Vec<tei::Token>>, _, _>(
            "/tokenize",
            "The tokens of texts",
            tei::tokenize,
        )
        .post::<tei::DecodeRequest, Vec<String>, _, _>("/decode", "The texts of tokens", tei::decode)
        .post::<openai::EmbeddingsRequest, openai::Embeddings, _, _>(
            "/v1/embeddings",
            "Vectors of texts, as OpenAI gives them",
            openai::embeddings,
        )
        .post::<openai::EmbeddingsRequest, openai::Embeddings, _, _>(
            "/embeddings",
            "The same",
            openai::embeddings,
        )
        .get::<openai::List<openai::ModelCard>, _, _>("/v1/models", "The models", openai::models)
        .get::<openai::ModelCard, _, _>("/v1/models/{*name}", "One of them", openai::model)
        .post::<openai::CompletionsRequest, openai::Completions, _, _>(
            "/v1/completions",
            "What follows a text; with stream, piece by piece",
            openai::completions,
        )
        .post::<rerank::ClientRequest, rerank::Reranked, _, _>(
            "/v1/rerank",
            "Documents by how relevant they are, as Jina and Cohere give them",
            rerank::with_documents,
        )
        .post::<rerank::ClientRequest, rerank::Reranked, _, _>(
            "/v2/rerank",
            "The same, as Cohere gives them since",
            rerank::without_documents,
        )
        .post::<extra::MaskRequest, extra::Filled, _, _>(
            "/fill-mask",
            "What stands behind a mask",
            extra::fill_mask,
        )
        .post::<extra::TokensRequest, extra::Labelled, _, _>(
            "/classify-tokens",
            "Names, places and other parts of texts that have labels",
            extra::classify_tokens,
        )
        .post::<extra::AnswerRequest, extra::Found, _, _>(
            "/answer",
            "The part of a text that answers a question",
            extra::answer,
        )
        .post::<Value, Value, _, _>("/", "Whatever the body asks for, and the model does", root::any)
        .post::<Value, Value, _, _>("/invocations", "The same", root::any);
    let document = crate::openapi::document(public.list.iter().chain(&keyed.list));
    let key = middleware::from_fn_with_state(state.clone(), entry::check_key);
    let outer = middleware::from_fn_with_state(state.clone(), entry::enter);
    public
        .router
        .merge(docs::router(document))
        .merge(keyed.router.route_layer(key))
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .layer(outer)
        .with_state(state)
}

/// Routes, with a description of each.
#[derive(Default)]
struct Table {
    router: Router<Shared>,
    list: Vec<Description>,
}

impl Table {
    fn get<Answer: JsonSchema, H: Handler<T, Shared>, T: 'static>(
        self,
        path: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self {
        self.add(MethodFilter::GET, Description::get::<Answer>(path, about), handler)
    }

    fn post<Request: JsonSchema, Answer: JsonSchema, H: Handler<T, Shared>, T: 'static>(
        self,
        path: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self {
        self.add(MethodFilter::POST, Description::post::<Request, Answer>(path, about), handler)
    }

    fn add<H: Handler<T, Shared>, T: 'static>(
        mut self,
        method: MethodFilter,
        description: Description,
        handler: H,
    ) -> Self {
        self.router = self.router.route(description.path, on(method, handler));
        self.list.push(description);
        self
    }
}

async fn nothing() -> Refusal {
    Refusal::new(Kind::NotFound, "there is nothing at this address; see /docs")
}

async fn wrong_method() -> Refusal {
    Refusal::new(Kind::Method, "this address is not asked in this way; see /docs")
}

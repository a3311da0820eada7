//! Models over HTTP: the routes of text-embeddings-inference, OpenAI, Jina and Cohere, and tasks that those lack.
//!
//! ```text
//! settings.rs  what may be set, and what is set where nothing is said
//! models.rs    the models that are served, and which one a request is for
//! replica.rs   a model on one device, whichever that is
//! queue.rs     texts that wait for a model, in turns between clients
//! batch.rs     which of them run together
//! worker.rs    the thread that runs them
//! ask.rs       one request's way: read, queued, run, answered; with its deadline and its times
//! refusal.rs   what is said to a request that is not answered
//! metrics.rs   counts and times for Prometheus
//! key.rs       who may ask
//! body.rs      the body of a request, within its limits
//! stream.rs    an answer that comes piece by piece
//! routes/      one file per family of routes
//! openapi.rs   the routes described, from their types
//! server.rs    listening, and ending
//! log.rs       what is logged, as text or as JSON
//! ```
//!
//! Texts become tokens on threads of their own; one thread per device then runs batches, each of which the engine spreads over all
//! cores. On the CPU a text has the same bits in any batch, so that what is answered does not depend on who else asks.
//!
//! ```no_run
//! use roformer_serve::{Model, Server, Settings};
//! use std::sync::Arc;
//!
//! let pipeline = roformer::Pipeline::load("junnyu/roformer_chinese_sim_char_base")?;
//! let model = Model::new("sim", vec![Arc::new(pipeline)]);
//! let server = Server::bind(Settings::default(), vec![model])?;
//! println!("{}", server.address());
//! server.run()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod ask;
mod batch;
mod body;
mod key;
pub mod log;
mod metrics;
mod models;
mod openapi;
mod queue;
mod refusal;
mod replica;
mod routes;
mod server;
mod settings;
mod stream;
mod worker;

pub use models::Model;
pub use replica::Replica;
pub use server::{Handle, Server};
pub use settings::Settings;

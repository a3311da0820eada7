//! An answer that comes piece by piece, as server-sent events.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_core::Stream;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Where the events of an answer are sent; an error once whoever asked has gone.
#[derive(Clone)]
pub struct Events(UnboundedSender<Bytes>);

impl Events {
    /// Sends one event. What is sent and not yet taken is kept: it is at most one answer.
    pub fn send(&self, event: &impl Serialize) -> Result<(), ()> {
        let text = serde_json::to_string(event).map_err(drop)?;
        self.0.send(format!("data: {text}\n\n").into()).map_err(drop)
    }

    /// Says that this was all, as OpenAI does.
    pub fn finish(&self) {
        let _ = self.0.send(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

/// An answer, and where its events are sent.
pub fn events() -> (Events, Response) {
    let (sender, receiver) = unbounded_channel();
    let mut response = Response::new(Body::from_stream(Pieces(receiver)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    (Events(sender), response)
}

struct Pieces(UnboundedReceiver<Bytes>);

impl Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(Ok))
    }
}

//! A connection of an HTTP server: as long as it asks, cut off when it stalls, and closed so that its last answer arrives.
//!
//! What the page of `roformer explore` and `roformer serve` have in common.

#![forbid(unsafe_code)]

use axum::Router;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::{Error, ErrorKind, Result};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// What is taken and dropped of a request that was refused before it was read.
const MAX_DROPPED: usize = 256 << 20;

/// After so many bytes of it there is a rest, so that whoever sends what nobody reads takes little from the others.
const STRIDE: usize = 256 << 10;
const REST: Duration = Duration::from_millis(10);

/// The most bytes of a request's header.
const MAX_HEADER: usize = 64 << 10;

/// How long a connection that asks nothing stays when the server ends: what a client has sent just then is still read. Clients that wait for
/// answers send at once or not at all.
pub const GRACE: Duration = Duration::from_millis(250);

/// Who asks: what every request has among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Answers what a connection asks, until `closing` is done: then what is being answered still is, and what comes within [`GRACE`], and
/// nothing after it. One that takes longer than `patience` for the header of a request, or for taking any of an answer, is cut off.
pub async fn serve(stream: TcpStream, router: Router, patience: Duration, closing: impl Future<Output = ()>) {
    let Ok(peer) = stream.peer_addr().map(|address| Peer(address.ip())) else { return };
    let is_closing = Arc::new(AtomicBool::new(false));
    let stream = Lingering {
        stream,
        patience,
        is_closing: is_closing.clone(),
        stalled: None,
        end: None,
        rest: None,
        dropped: 0,
    };
    let io = TokioIo::new(stream);
    let router = TowerToHyperService::new(router);
    let is_last = is_closing.clone();
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        let (answer, is_last) = (router.call(request), is_last.clone());
        async move {
            let mut answer = answer.await;
            if is_last.load(Ordering::Relaxed)
                && let Ok(answer) = &mut answer
            {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(MAX_HEADER);
    let mut connection = pin!(server.serve_connection(io, service));
    // Whoever breaks off, or is cut off, breaks off alone.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = closing => is_closing.store(true, Ordering::Relaxed),
    }
    // To end at once would close what asks nothing yet: also where a request lies there and has not been read.
    if tokio::time::timeout(GRACE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// A stream that does not wait for ever, and that is closed in two steps: first nothing more is said, then what still comes is
/// taken and dropped. A system that closes a connection with something unread resets it, and the other side may lose the answer
/// that it has not read yet.
struct Lingering {
    stream: TcpStream,
    /// How long a write may wait, and how long the second step may take.
    patience: Duration,
    /// Whether the server ends: then the second step takes what is there, and waits for nothing.
    is_closing: Arc<AtomicBool>,
    /// When a write that waits is given up.
    stalled: Option<Pin<Box<Sleep>>>,
    /// When the second step ends; set when it begins.
    end: Option<Pin<Box<Sleep>>>,
    /// When the next is taken.
    rest: Option<Pin<Box<Sleep>>>,
    dropped: usize,
}

impl AsyncRead for Lingering {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context, buffer: &mut ReadBuf) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if let Poll::Ready(written) = Pin::new(&mut this.stream).poll_write(context, bytes) {
            this.stalled = None;
            return Poll::Ready(written);
        }
        let stalled = this.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "an answer that is not taken")))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context) -> Poll<Result<()>> {
        let this = self.get_mut();
        if this.end.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let end = this.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.patience)));
        let mut space = [0; 16 << 10];
        while end.as_mut().poll(context).is_pending() && this.dropped < MAX_DROPPED {
            let is_closing = this.is_closing.load(Ordering::Relaxed);
            if let Some(rest) = this.rest.as_mut().filter(|_| !is_closing) {
                ready!(rest.as_mut().poll(context));
            }
            this.rest = None;
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut this.stream).poll_read(context, &mut buffer) {
                Poll::Pending if is_closing => break,
                read => ready!(read)?,
            }
            if buffer.filled().is_empty() {
                break;
            }
            let before = this.dropped;
            this.dropped += buffer.filled().len();
            if before / STRIDE < this.dropped / STRIDE {
                this.rest = Some(Box::pin(tokio::time::sleep(REST)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

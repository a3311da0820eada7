//! A connection: as long as it asks, and closed so that its last answer arrives.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// What is taken and dropped of a request that was refused before it was read: some 16 times the largest configuration.
const MAX_DROPPED: usize = 256 << 20;

/// Answers what a connection asks. One that takes longer than `patience` for the header of a request is cut off.
pub async fn serve(stream: TcpStream, router: Router, patience: Duration) {
    let io = TokioIo::new(Lingering { stream, patience, end: None, dropped: 0 });
    let service = TowerToHyperService::new(router);
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(patience);
    // Whoever breaks off, or is cut off, breaks off alone.
    let _ = server.serve_connection(io, service).await;
}

/// A stream that is closed in two steps: first nothing more is said, then what still comes is taken and dropped. A system that
/// closes a connection with something unread resets it, and the other side may lose the answer that it has not read yet.
struct Lingering {
    stream: TcpStream,
    /// How long the second step may take.
    patience: Duration,
    /// When it ends; set when it begins.
    end: Option<Pin<Box<Sleep>>>,
    dropped: usize,
}

impl AsyncRead for Lingering {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context, buffer: &mut ReadBuf) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
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
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                break;
            }
            this.dropped += buffer.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}

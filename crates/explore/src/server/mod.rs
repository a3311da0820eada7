//! The server of the page: on this machine alone, unless it is told otherwise.

pub(crate) mod answer;
pub(crate) mod config;
pub(crate) mod files;
mod guard;
mod language;
pub(crate) mod routes;

use crate::exhibits::Exhibits;
use axum::middleware;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// A server that has its address and does not serve yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    patience: Duration,
}

impl Server {
    /// Takes an address; port 0 for any that is free.
    pub fn bind(address: SocketAddr) -> std::io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Server { listener, address, patience: Duration::from_secs(30) })
    }

    /// The same with another patience: how long a connection may take for the header of a request, which are 30 seconds otherwise.
    pub fn with_patience(self, patience: Duration) -> Server {
        Server { patience, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a browser on this machine finds the page.
    pub fn url(&self) -> String {
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => "localhost".to_string(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
            ip => ip.to_string(),
        };
        format!("http://{host}:{}/", self.address.port())
    }

    /// Serves until the process ends.
    pub fn run(self, exhibits: Exhibits) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = guard::Guard::new(self.address);
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let router = routes::router(Arc::new(exhibits));
            let router = router.layer(middleware::from_fn_with_state(guard, guard::check));
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let never = std::future::pending();
                        tokio::spawn(roformer_http::serve(stream, router.clone(), self.patience, never));
                    }
                    // One that broke off at once, or too many at a time: the next may be had in a moment.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        })
    }
}

//! The page in a real browser: every interaction performed, its numbers beside those of the library.

mod biases;
mod chromium;
mod clocks;
mod codes;
mod complex;
mod decay;
mod exhibits;
mod exported;
mod extension;
mod inspect;
mod language;
mod linear;
mod order;
mod pairing;
mod pictures;
mod place;
mod precision;
mod receptive;
mod similarity;
mod speed;
mod terms;
mod tokens;
mod tour;
mod turning;
mod whole;

use chromium::Chromium;
use roformer_explore::exhibits::Exhibits;
use roformer_explore::server::Server;
use std::net::{Ipv4Addr, SocketAddr};

/// A server of its own for each test; it ends with the process.
fn serve(exhibits: Exhibits) -> String {
    let server = Server::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
    let url = server.url();
    std::thread::spawn(move || server.run(exhibits).unwrap());
    url
}

/// The page in a browser, with its address; `None` where there is no browser.
fn page() -> Option<(Chromium, String)> {
    let mut browser = Chromium::start()?;
    let url = serve(Exhibits::default());
    browser.open(&url);
    Some((browser, url))
}

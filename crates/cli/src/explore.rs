//! `roformer explore`: the page that shows how rotary embedding works.

use crate::error::{Failure, Outcome};
use crate::{input, model};
use clap::Args;
use roformer_explore::exhibits::{Comparison, Exhibits, Model};
use roformer_explore::server::Server;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Open a page that shows how rotary embedding works, driven by the code that runs the models
///
/// Serves one page on this machine alone and opens it in the browser; nothing is loaded from elsewhere. Give a
/// config.json, or drop one on the page, to see what its rotary embedding does at any length.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer explore\n  roformer explore model/config.json\n  \
    roformer explore --model model --comparison comparison\n  roformer explore --port 8080 --no-open")]
pub struct Arguments {
    /// A config.json to begin with, or a folder that holds one
    config: Option<PathBuf>,
    /// A model whose attention can be looked at: a folder, or a name on the hub
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// A folder that `roformer compare` has written, for its curves
    #[arg(long, value_name = "FOLDER")]
    comparison: Option<PathBuf>,
    /// The port; 0 for any that is free
    #[arg(long, value_name = "P", default_value_t = 8731)]
    port: u16,
    /// Listen at this address instead of 127.0.0.1: others on the network can then open the page
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Do not open the browser
    #[arg(long)]
    no_open: bool,
}

pub fn run(arguments: Arguments) -> Outcome {
    let mut exhibits = Exhibits::default();
    if let Some(path) = &arguments.config {
        exhibits.config = Some((path.display().to_string(), input::config(path)?));
    }
    if let Some(name) = &arguments.model {
        let folder = model::find(name, None)?;
        exhibits.model = Some(Model::open(name, &folder).map_err(|error| Failure::Input(error.to_string()))?);
    }
    if let Some(folder) = &arguments.comparison {
        let comparison = Comparison::open(folder).map_err(|error| Failure::Input(error.to_string()))?;
        exhibits.comparison = Some(comparison);
    }
    let address = SocketAddr::new(arguments.listen.unwrap_or(Ipv4Addr::LOCALHOST.into()), arguments.port);
    let server = Server::bind(address).map_err(|error| {
        Failure::Input(format!("cannot listen at {address}: {error}; choose another port with --port"))
    })?;
    let url = server.url();
    println!("{url}  (Ctrl-C ends it)");
    if !address.ip().is_loopback() {
        eprintln!("roformer: listening at {}: others on the network can open the page", server.address());
    }
    if !arguments.no_open && !open(&url) {
        eprintln!("roformer: no browser could be opened; the page is at {url}");
    }
    Ok(server.run(exhibits)?)
}

/// Asks the desktop to open an address.
fn open(url: &str) -> bool {
    let (program, before): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("cmd", &["/C", "start", ""])
    } else {
        ("xdg-open", &[])
    };
    let quiet = std::process::Stdio::null;
    let mut command = std::process::Command::new(program);
    command.args(before).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet());
    command.spawn().is_ok()
}

//! `roformer explore`: the page that shows how rotary embedding works.

use crate::error::{Failure, Outcome};
use crate::language::Code;
use crate::{input, model};
use clap::Args;
use roformer_explore::exhibits::{Comparison, Exhibits, Model};
use roformer_explore::export;
use roformer_explore::server::Server;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Open a page that shows how rotary embedding works, driven by the code that runs the models
///
/// Serves one page on this machine alone and opens it in the browser; nothing is loaded from elsewhere. Give a
/// config.json, or drop one on the page, to see what its rotary embedding does at any length.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer explore\n  roformer explore model/config.json\n  \
    roformer explore --model model --comparison comparison\n  roformer explore --port 8080 --no-open\n  \
    roformer explore --lang zh\n  roformer explore --export page")]
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
    /// The language that the page opens in [default: the browser's, if there is a page in it, else English]
    #[arg(long, value_name = "LANG", value_enum)]
    lang: Option<Code>,
    /// Write the page to a folder, for any web server, with answers for the usual settings and for stops of the sliders
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "model", "comparison", "port", "listen", "no_open", "lang"])]
    export: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> Outcome {
    if let Some(folder) = &arguments.export {
        return written(folder);
    }
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
    let mut url = server.url();
    if let Some(language) = arguments.lang {
        url += match language {
            Code::En => "#lang=en",
            Code::Zh => "#lang=zh",
        };
    }
    println!("{url}  (Ctrl-C ends it)");
    if !address.ip().is_loopback() {
        eprintln!("roformer: listening at {}: others on the network can open the page", server.address());
    }
    if !arguments.no_open && !open(&url) {
        eprintln!("roformer: no browser could be opened; the page is at {url}");
    }
    Ok(server.run(exhibits)?)
}

/// Writes the page to a folder, and says how far it is where that takes longer than a moment.
fn written(folder: &Path) -> Outcome {
    const MOMENT: Duration = Duration::from_secs(2);
    export::check(folder).map_err(|error| Failure::Input(error.to_string()))?;
    let mut last = Instant::now();
    let written = export::write(folder, |done, total| {
        if last.elapsed() >= MOMENT {
            last = Instant::now();
            eprintln!("roformer: {done} of {total} answers");
        }
    })?;
    let size = written.bytes as f64 / 1e6;
    println!("{}: {} files, {size:.1} MB, {} answers", folder.display(), written.files, written.answers);
    Ok(())
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

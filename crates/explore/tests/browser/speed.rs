//! How fast the page is: figures to report, not to pass. Run it by name on a quiet machine:
//!
//! `cargo test --release -p roformer-explore --test browser -- --ignored --nocapture speed`

use super::chromium::Chromium;
use super::{page, serve};
use roformer_explore::exhibits::Exhibits;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Counts frames and tasks of more than 50 ms from now on.
const WATCH: &str = "(() => { window.frames_ms = []; window.long_ms = []; let last = performance.now();
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.long_ms.push(entry.duration))).observe({ entryTypes: ['longtask'] });
    const tick = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(tick); };
    requestAnimationFrame((now) => { last = now; requestAnimationFrame(tick); }); })()";

#[test]
#[ignore = "reports times"]
fn speed() {
    let start = Instant::now();
    let url = serve(Exhibits::default());
    let mut connection = Connection::open(&url);
    connection.get("/");
    println!(
        "server: first answer {:.1} ms after it was asked to start",
        start.elapsed().as_secs_f64() * 1e3
    );
    interaction();
    drag();
    api(&mut connection);
}

/// From opening the page to a figure that has followed its first drag.
fn interaction() {
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let mut browser = Chromium::start().expect("a browser");
            let url = serve(Exhibits::default());
            let start = Instant::now();
            browser.open(&url);
            browser.part("tokens");
            let at = browser.middle("#tokens [data-drag=q] rect");
            browser.drag(at, (60.0, 0.0), 2);
            browser.settle("tokens");
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("first interaction: {:.0} ms (median of 5, {:.0} to {:.0})", times[2], times[0], times[4]);
}

/// Five seconds of dragging in each part that has a handle.
fn drag() {
    let (mut browser, url) = page().expect("a browser");
    let parts = browser.eval("[...document.querySelectorAll('section.part')].map((part) => part.id)");
    println!("{:12} {:>12} {:>8} {:>8} {:>20}", "part", "frame, ms", "p95", "most", "tasks over 50 ms");
    for part in parts.as_array().unwrap().iter().filter_map(Value::as_str) {
        browser.part(part);
        let handle = format!("#{part} [data-drag]");
        if browser.eval(&format!("document.querySelector('{handle}') !== null")) != Value::Bool(true) {
            continue;
        }
        let at = browser.middle(&handle);
        browser.eval(WATCH);
        browser.hold(at);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            let phase = start.elapsed().as_secs_f64() * 3.0;
            browser.point((at.0 + 120.0 * phase.sin(), at.1 + 20.0 * (0.7 * phase).sin()));
            std::thread::sleep(Duration::from_millis(8));
        }
        browser.release(at);
        let frames = browser.eval("window.frames_ms");
        let mut frames: Vec<f64> = frames.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        frames.sort_by(f64::total_cmp);
        let at = |part: f64| frames[((frames.len() - 1) as f64 * part) as usize];
        let long = browser.eval("window.long_ms.map(Math.round)").to_string();
        println!("{part:12} {:12.1} {:8.1} {:8.1} {long:>20}", at(0.5), at(0.95), at(1.0));
        // The next part begins as a reader finds it.
        browser.open(&url);
    }
}

/// Every figure with its defaults, a thousand times.
fn api(connection: &mut Connection) {
    let list: Vec<Value> = serde_json::from_str(&connection.get("/api")).unwrap();
    println!("{:20} {:>8} {:>8} {:>8} {:>8}", "route", "p50, ms", "p99", "most", "bytes");
    for entry in list {
        let route = entry["route"].as_str().unwrap();
        if matches!(route, "/api/model" | "/api/comparison") {
            continue;
        }
        report(route, || connection.get(route).len());
    }
    let config = include_str!("../../../../examples/llama-3.1-8b.json");
    report("/api/inspect", || connection.ask("POST", "/api/inspect?context=131072", config).len());
}

/// Times a thousand answers.
fn report(route: &str, mut ask: impl FnMut() -> usize) {
    let mut bytes = 0;
    let mut times: Vec<f64> = (0..1000)
        .map(|_| {
            let start = Instant::now();
            bytes = ask();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{route:20} {:8.2} {:8.2} {:8.2} {bytes:8}", times[500], times[990], times[999]);
}

/// A connection that is kept, as a browser's is.
struct Connection {
    reader: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    fn open(url: &str) -> Connection {
        let host = url.strip_prefix("http://").unwrap().trim_end_matches('/').to_string();
        let stream = TcpStream::connect(&host).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { reader: BufReader::new(stream), host }
    }

    fn get(&mut self, path: &str) -> String {
        self.ask("GET", path, "")
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let (host, length) = (&self.host, body.len());
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}");
        self.reader.get_mut().write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

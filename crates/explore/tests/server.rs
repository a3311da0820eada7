//! The server and whoever asks it: every route with every wrong question, foreign pages, invalid files. It refuses with a
//! reason and goes on.

use roformer_explore::exhibits::Exhibits;
use roformer_explore::server::Server;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a test waits before it takes silence for a failure: nothing that is tested takes as long.
const CAP: Duration = Duration::from_secs(120);

/// A server that does not lose its patience, however slow the machine is.
fn serve() -> SocketAddr {
    serve_with(CAP)
}

fn serve_with(patience: Duration) -> SocketAddr {
    let server = Server::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
    let server = server.with_patience(patience);
    let address = server.address();
    std::thread::spawn(move || server.run(Exhibits::default()).unwrap());
    address
}

/// The status and the body of the answer to a request in full; 0 if the server closed the connection without one.
fn raw(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(CAP)).unwrap();
    // A server that refuses early may close before all was sent.
    let _ = stream.write_all(request);
    if !request.windows(4).any(|end| end == b"\r\n\r\n") {
        // The rest never comes.
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_string())
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    raw(address, format!("{head}{body}").as_bytes())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, "GET", path, "", "")
}

/// What a refusal says.
fn reason(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {body:?}"));
    value["error"].as_str().unwrap_or_else(|| panic!("no reason: {body}")).to_string()
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn every_route_answers_and_refuses_what_is_wrong() {
    let address = serve();
    let (status, list) = get(address, "/api");
    assert_eq!(status, 200);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    for entry in &list {
        let route = entry["route"].as_str().unwrap();
        let is_given = !matches!(route, "/api/model" | "/api/comparison");
        let (status, body) = get(address, route);
        assert_eq!(status, if is_given { 200 } else { 400 }, "{route}: {body}");
        let (status, body) = get(address, &format!("{route}?no_such_parameter=1"));
        assert_eq!(status, 400, "{route}");
        assert!(reason(&body).contains("no_such_parameter"), "{body}");
        let (status, body) = ask(address, "POST", route, "", "{}");
        assert_eq!(status, 405, "{route}: {body}");

        for (name, default) in entry["parameters"].as_object().unwrap() {
            let is_number = default.is_number();
            let bad = [
                "NaN",
                "inf",
                "-inf",
                "-1",
                "1e999",
                "99999999999999999999999",
                "",
                "x",
                "1;2",
                "../../etc/passwd",
                "\0",
                "é",
            ];
            for value in bad {
                let path = format!("{route}?{name}={}", encode(value));
                let (status, body) = get(address, &path);
                assert!(status == 200 || status == 400, "{path}: {status} {body}");
                let is_absurd =
                    matches!(value, "NaN" | "inf" | "-inf" | "1e999" | "99999999999999999999999" | "" | "x");
                if is_number && is_absurd {
                    assert_eq!(status, 400, "{path} was answered: {body:.200}");
                }
                if status == 400 {
                    assert!(!reason(&body).is_empty(), "{path}");
                }
                assert!(!body.contains("root:"), "{path}");
            }
            // A parameter twice.
            let (status, _) = get(address, &format!("{route}?{name}=1&{name}=2"));
            assert_eq!(status, 400, "{route} {name}");
        }
    }
    assert_eq!(get(address, "/").0, 200);
}

#[test]
fn paths_lead_nowhere_else() {
    let address = serve();
    let tricks = [
        "/../Cargo.toml",
        "/js/../../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "/etc/passwd",
        "//etc/passwd",
        "/js/",
        "/js",
        "/index.html/",
        "/\\..\\x",
        "/api/",
        "/api/nothing",
        "/api/../api",
    ];
    for path in tricks {
        let (status, body) = get(address, path);
        assert!((400..500).contains(&status), "{path}: {status}");
        assert!(!body.contains("[package]") && !body.contains("root:"), "{path}: {body:.100}");
    }
    for path in ["/", "/index.html", "/style.css", "/chart.css", "/js/main.js"] {
        assert_eq!(get(address, path).0, 200, "{path}");
    }
}

#[test]
fn pages_of_others_are_refused() {
    let address = serve();
    let port = address.port();
    let with = |headers: &str| {
        raw(address, format!("GET /api/tokens HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").as_bytes())
    };
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
        format!("[::1]:{port}"),
    ] {
        assert_eq!(with(&format!("Host: {host}\r\n")).0, 200, "{host}");
        assert_eq!(with(&format!("Host: {host}\r\nOrigin: http://{host}\r\n")).0, 200, "{host}");
    }
    // A name that was made to point here; another port; none; two.
    for host in ["evil.example", &format!("evil.example:{port}"), "localhost", "localhost:1", ""] {
        let (status, body) = with(&format!("Host: {host}\r\n"));
        assert!(status == 403 || status == 400, "{host}: {status} {body}");
    }
    assert!(matches!(with("").0, 400 | 403));
    assert!(matches!(with(&format!("Host: localhost:{port}\r\nHost: evil.example\r\n")).0, 400 | 403));
    for origin in [
        "http://evil.example",
        "null",
        "https://localhost",
        &format!("https://localhost:{port}"),
        "http://localhost:1",
        "",
    ] {
        let (status, body) = with(&format!("Host: localhost:{port}\r\nOrigin: {origin}\r\n"));
        assert_eq!(status, 403, "{origin}: {body}");
        assert!(reason(&body).contains("Origin"), "{body}");
    }
    assert_eq!(get(address, "/").0, 200);
}

#[test]
fn broken_requests_end_alone() {
    let address = serve();
    let long = format!("GET /api/tokens?{} HTTP/1.1\r\nHost: {address}\r\n\r\n", "m=1&".repeat(1 << 20));
    for request in [b"\0\xff\xfe\r\n\r\n".as_slice(), b"GET / HTTP/9.9\r\n\r\n", b"GET", b"", long.as_bytes()]
    {
        let (status, _) = raw(address, request);
        assert!(status == 0 || (400..600).contains(&status), "{status}");
    }
    // Methods that nothing here has.
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        assert_eq!(ask(address, method, "/api/tokens", "", "").0, 405, "{method}");
        assert_eq!(ask(address, method, "/", "", "").0, 405, "{method}");
    }
    assert_eq!(get(address, "/").0, 200);
}

/// An answer that comes before all was sent arrives, however much is still on its way.
#[test]
fn a_refusal_arrives_although_more_was_sent() {
    let address = serve();
    let body = vec![b'x'; 48 << 20];
    let foreign = "Host: evil.example";
    let own = format!("Host: {address}");
    for (path, host, status) in [
        ("/api/tokens", own.as_str(), 405),
        ("/", &own, 405),
        ("/api/nothing", &own, 405),
        ("/api/inspect", foreign, 403),
        ("/api/inspect?context=x", &own, 400),
        ("/api/inspect", &own, 413),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(CAP)).unwrap();
        stream.set_write_timeout(Some(CAP)).unwrap();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\n{host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap_or_else(|error| panic!("{path} with {host}: {error}"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap_or_else(|error| panic!("{path} with {host}: {error}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} with {host}: {answer:.200}");
        assert!(answer.contains("{\"error\":"), "{answer}");
    }
    assert_eq!(get(address, "/").0, 200);
}

/// A client that sends a byte at a time, and always one more, is cut off.
#[test]
fn a_header_without_an_end_is_cut_off() {
    let address = serve_with(Duration::from_millis(300));
    let mut slow = TcpStream::connect(address).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    slow.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\nX-Slow: ").as_bytes()).unwrap();
    let start = Instant::now();
    let is_cut = loop {
        // What it says before it hangs up is its own affair.
        match slow.read(&mut [0; 1024]) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break true,
        }
        if slow.write_all(b"x").is_err() {
            break true;
        }
        if start.elapsed() > CAP {
            break false;
        }
    };
    assert!(is_cut, "still connected after {CAP:?}");
    // The server goes on. It has so little patience here that a slow machine may need to ask again.
    let start = Instant::now();
    while get(address, "/").0 != 200 {
        assert!(start.elapsed() < CAP);
    }
}

/// An invalid value is named, with what was expected.
#[test]
fn what_was_expected_is_said() {
    let address = serve();
    for (query, says) in [
        ("tokens?m=NaN", "m is \"NaN\"; expected a whole number"),
        ("tokens?m=", "m is \"\"; expected a whole number"),
        ("tokens?m=99999999999999999999", "m is \"99999999999999999999\"; expected a smaller number"),
        ("tokens?m=-99999999999999999999", "m is \"-99999999999999999999\"; expected a larger number"),
        ("tokens?dim=-2", "dim is \"-2\"; expected a whole number from 0 on"),
        ("tokens?base=ten", "base is \"ten\"; expected a number"),
        ("tokens?base=", "base is \"\"; expected a number"),
    ] {
        let (status, body) = get(address, &format!("/api/{query}"));
        assert_eq!((status, reason(&body).as_str()), (400, says), "{query}");
    }
    // No parameter of any figure says what a parser of numbers says.
    let list: Vec<Value> = serde_json::from_str(&get(address, "/api").1).unwrap();
    for entry in &list {
        let route = entry["route"].as_str().unwrap();
        for name in entry["parameters"].as_object().unwrap().keys() {
            for value in ["x", "", "-1", "1e999", "99999999999999999999999", "-99999999999999999999999"] {
                let (status, body) = get(address, &format!("{route}?{name}={value}"));
                if status == 400 && !matches!(route, "/api/model" | "/api/comparison") {
                    let reason = reason(&body);
                    assert!(reason.contains("expected"), "{route} {name}={value}: {reason}");
                }
            }
        }
    }
}

#[test]
fn it_listens_on_this_machine_alone() {
    let server = Server::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
    assert!(server.address().ip().is_loopback());
    // A port that is taken is an error that can be shown.
    assert!(Server::bind(server.address()).is_err());
}

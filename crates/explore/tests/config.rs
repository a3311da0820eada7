//! Configurations sent to the server, as any program could send them.

use roformer_explore::exhibits::Exhibits;
use roformer_explore::server::Server;
use rope::config::MAX_CONFIG_BYTES;
use rope::{HfConfig, HfOptions};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

fn serve(exhibits: Exhibits) -> SocketAddr {
    let server = Server::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).unwrap();
    let address = server.address();
    std::thread::spawn(move || server.run(exhibits).unwrap());
    address
}

/// Sends a request and returns the status and the answer.
fn ask(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

fn says(answer: &Value, word: &str) {
    assert!(answer["error"].as_str().unwrap().contains(word), "{word} is not in {answer}");
}

#[test]
fn the_verdict_holds_the_object_of_the_command() {
    let address = serve(Exhibits::default());
    let (status, examples) = ask(address, "GET", "/api/examples", b"");
    assert_eq!((status, examples.as_array().unwrap().len()), (200, 4));
    for example in examples.as_array().unwrap() {
        let text = example["text"].as_str().unwrap();
        let config = HfConfig::read(text.as_bytes(), &HfOptions::default()).unwrap();
        for (query, context) in [("", None), ("?context=65536", Some(65_536))] {
            let path = format!("/api/inspect{query}");
            let (status, answer) = ask(address, "POST", &path, text.as_bytes());
            assert_eq!(status, 200);
            assert_eq!(answer["object"], roformer::inspect::object(&config, context));
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_a_reason() {
    let address = serve(Exhibits::default());
    let post = |path: &str, body: &[u8]| ask(address, "POST", path, body);
    let refused = |path: &str, body: &[u8], status: u16, word: &str| {
        let (got, answer) = post(path, body);
        assert_eq!(got, status, "{answer}");
        says(&answer, word);
    };
    refused("/api/inspect", b"", 400, "empty");
    refused("/api/inspect", b"{\"head_dim\": 64,}", 400, "line 1");
    refused("/api/inspect", b"\x89PNG", 400, "not a configuration");
    refused("/api/inspect?context=0", b"{}", 400, "context");
    refused("/api/inspect?context=many", b"{}", 400, "context");
    refused("/api/inspect?pairing=hlaf", b"{}", 400, "hlaf");
    refused("/api/inspect?colour=red", b"{}", 400, "colour");
    // One byte too many, and many; exactly as many as allowed is read and found to be no JSON.
    refused("/api/inspect", &vec![b' '; MAX_CONFIG_BYTES], 400, "EOF");
    refused("/api/inspect", &vec![b' '; MAX_CONFIG_BYTES + 1], 413, "16777216");
    refused("/api/inspect", &vec![b' '; 100 << 20], 413, "16777216");
    for method in ["GET", "PUT", "DELETE"] {
        let (status, answer) = ask(address, method, "/api/inspect", b"");
        assert_eq!(status, 405);
        says(&answer, "POST");
    }
    for path in ["/api/given", "/api/examples", "/api/extension"] {
        let (status, answer) = post(path, b"{}");
        assert_eq!(status, 405);
        says(&answer, "/api");
    }
}

#[test]
fn what_the_program_was_started_with_can_be_had() {
    assert_eq!(ask(serve(Exhibits::default()), "GET", "/api/given", b""), (200, Value::Null));
    let given = |bytes: &[u8]| {
        let config = Some(("mine.json".to_string(), bytes.to_vec()));
        ask(serve(Exhibits { config, ..Exhibits::default() }), "GET", "/api/given", b"")
    };
    let (status, answer) = given(b"{\"a\": 1}");
    assert_eq!((status, &answer["name"], &answer["text"]), (200, &"mine.json".into(), &"{\"a\": 1}".into()));
    let (status, answer) = given(b"\xff\xfe");
    assert_eq!(status, 400);
    says(&answer, "mine.json");
}

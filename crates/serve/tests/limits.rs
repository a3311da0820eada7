//! What clients may not do, whether they mean it or not; and what becomes of the others meanwhile.

mod common;

use common::{Answer, Running, floats, model, open, read, request, settings};
use roformer::Pipeline;
use roformer::pipeline::{Completion, Embed, Generate, Pending, Reader};
use roformer_serve::{Model, Replica, Settings};
use serde_json::json;
use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A model that waits at a gate before each batch, and panics where a text asks for it.
struct Gated {
    pipeline: Pipeline,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    /// How many batches may pass, and how many have come.
    state: Mutex<(usize, usize)>,
    moved: Condvar,
}

impl Gate {
    fn let_pass(&self, batches: usize) {
        self.state.lock().unwrap().0 += batches;
        self.moved.notify_all();
    }

    /// Waits until so many batches have come.
    fn wait_for(&self, batches: usize) {
        let guard = self.state.lock().unwrap();
        drop(self.moved.wait_while(guard, |(_, come)| *come < batches).unwrap());
    }

    fn pass(&self) {
        let mut guard = self.state.lock().unwrap();
        guard.1 += 1;
        self.moved.notify_all();
        guard = self.moved.wait_while(guard, |(free, _)| *free == 0).unwrap();
        guard.0 -= 1;
    }
}

impl Replica for Gated {
    fn reader(&self) -> Reader<'_> {
        self.pipeline.reader()
    }

    fn batch_tokens(&self) -> usize {
        Replica::batch_tokens(&self.pipeline)
    }

    fn run(&self, texts: Vec<Pending<Box<dyn Any + Send>>>) -> Vec<roformer::Result<Box<dyn Any + Send>>> {
        self.gate.pass();
        assert!(texts.iter().all(|text| text.tokens() != 13), "a text of unlucky length");
        Replica::run(&self.pipeline, texts)
    }

    fn complete(
        &self,
        text: &str,
        options: &Generate,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> roformer::Result<Completion> {
        Replica::complete(&self.pipeline, text, options, on_text)
    }
}

fn gated(settings: Settings) -> (Running, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let replica = Gated { pipeline: open("tiny-sim"), gate: gate.clone() };
    let model = Model::new("gated", vec![Arc::new(replica) as Arc<dyn Replica>]);
    (Running::start(settings, vec![model]), gate)
}

/// Asks for a vector on a connection of its own, whose answer is read later.
fn ask(server: &Running, text: &str) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(&request("/embed", json!({"inputs": text}).to_string().as_bytes(), "")).unwrap();
    stream
}

fn queue_size(server: &Running) -> usize {
    let metrics = server.get("/metrics").body;
    let line = metrics.lines().find(|line| line.starts_with("te_queue_size")).unwrap().to_string();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Asks again until it is so; what is asked for happens soon, on other threads.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not happen within a minute");
}

#[test]
fn bodies_are_bounded() {
    let small = Settings { payload_limit: 1000, max_client_batch_size: 3, ..settings() };
    let server = Running::start(small, vec![model("tiny-sim")]);
    // A body that is said to be a gigabyte is refused before it comes.
    let head = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
    let answer = server.say(head.as_bytes());
    answer.refused(413, "Validation", &["1000 bytes", "--payload-limit"]);
    assert_eq!(answer.header("connection"), Some("close"));
    // Who sends it all the same can send all of it, and then has the refusal.
    let mut stream = server.connect();
    stream.write_all(&request("/embed", &vec![b'x'; 4 << 20], "")).unwrap();
    read(&mut stream).refused(413, "Validation", &["1000 bytes"]);
    // One that does not say is refused when it has come so far.
    let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
    let head = "POST /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    server.say(format!("{head}{chunk}{chunk}").as_bytes()).refused(413, "Validation", &["1000 bytes"]);
    server.post("/embed", &json!({"inputs": vec!["a"; 4]})).refused(
        413,
        "Validation",
        &["4 texts", "3 at most"],
    );
    assert_eq!(server.post("/embed", &json!({"inputs": vec!["a"; 3]})).status, 200);
}

#[test]
fn what_is_no_json_is_refused() {
    let server = Running::of("tiny-sim");
    let refused =
        |body: &[u8], status: u16| server.post_with("/embed", body, "").refused(status, "Validation", &[]);
    for body in
        [&b""[..], b"{", b"inputs", b"\xff\xfe", b"{\"inputs\": \"\xff\xff\"}", b"{\"inputs\": \"\\ud800\"}"]
    {
        refused(body, 400);
    }
    for body in [&b"{}"[..], b"[]", b"{\"inputs\": 5}", b"{\"inputs\": null}", b"{\"inputs\": [\"a\", 5]}"] {
        refused(body, 422);
    }
    // Nor is a list taken for the fields in their order.
    let list = server.post("/embed", &json!(["今天", true, true, "Right", null, null, null]));
    list.refused(422, "Validation", &["the body is a list; expected an object"]);
    refused(b" [\"a\"", 400);
    refused(format!("{{\"inputs\": {}", "[".repeat(100_000)).as_bytes(), 400);
    refused("{\"inputs\":".repeat(100_000).as_bytes(), 400);
    assert_eq!(server.post("/embed", &json!({"inputs": "今天"})).status, 200);
}

#[test]
fn headers_are_bounded_in_number_size_and_time() {
    let server = Running::start(
        Settings { patience: Duration::from_millis(300), ..settings() },
        vec![model("tiny-sim")],
    );
    let many = "X-Header: x\r\n".repeat(500);
    let large = format!("X-Header: {}\r\n", "x".repeat(1 << 20));
    for flood in [many, large] {
        let answer = server.post_with("/embed", b"{}", &flood);
        assert!(matches!(answer.status, 431 | 0), "{answer:?}");
    }
    // Headers that never end: cut off, every one of them, and others are answered meanwhile.
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"POST /embed HTTP/1.1\r\nHost: x\r\nX-").unwrap();
            stream
        })
        .collect();
    assert_eq!(server.post("/embed", &json!({"inputs": "今天"})).status, 200);
    for mut stream in slow {
        let answer = read(&mut stream);
        assert!(matches!(answer.status, 408 | 0), "{answer:?}");
    }
    // A body that does not come.
    let mut stream = server.connect();
    stream.write_all(b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"inputs\"").unwrap();
    read(&mut stream).refused(408, "Validation", &["0.3 s"]);
}

#[test]
fn a_key_is_needed_where_there_is_one() {
    let keyed = Settings { api_keys: vec!["secret".into(), "other".into()], ..settings() };
    let server = Running::start(keyed, vec![model("tiny-sim")]);
    let body = json!({"inputs": "今天"}).to_string();
    let with = |headers: &str| server.post_with("/embed", body.as_bytes(), headers);
    for headers in ["", "Authorization: Bearer wrong\r\n", "Authorization: secret\r\n"] {
        let answer = with(headers);
        answer.refused(401, "Unauthorized", &["Authorization: Bearer"]);
        assert_eq!(answer.header("www-authenticate"), Some("bearer"));
    }
    for key in ["secret", "other"] {
        assert_eq!(with(&format!("Authorization: Bearer {key}\r\n")).status, 200);
    }
    server.get("/info").refused(401, "Unauthorized", &[]);
    server.get("/v1/models").refused(401, "Unauthorized", &[]);
    for open in ["/health", "/metrics", "/docs", "/"] {
        assert_eq!(server.get(open).status, 200, "{open}");
    }
    assert!(server.get("/metrics").body.contains("te_request_failure{err=\"unauthorized\"} 5"));
}

#[test]
fn pages_of_others_read_nothing_unless_they_may() {
    let ask = |server: &Running, origin: &str| -> Answer {
        server.post_with("/embed", b"{\"inputs\": \"a\"}", &format!("Origin: {origin}\r\n"))
    };
    let server = Running::of("tiny-sim");
    assert_eq!(ask(&server, "http://a.example").header("access-control-allow-origin"), None);
    let listed = Settings { cors_allow_origin: vec!["http://a.example".into()], ..settings() };
    let server = Running::start(listed, vec![model("tiny-sim")]);
    let allowed = ask(&server, "http://a.example");
    assert_eq!(allowed.header("access-control-allow-origin"), Some("http://a.example"));
    assert_eq!(ask(&server, "http://b.example").header("access-control-allow-origin"), None);
    let preflight = "OPTIONS /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOrigin: http://a.example\r\n\
        Access-Control-Request-Method: POST\r\n\r\n";
    let answer = server.say(preflight.as_bytes());
    assert_eq!((answer.status, answer.header("access-control-allow-methods")), (204, Some("get, post")));
}

#[test]
fn too_many_requests_are_told_to_come_again() {
    let (server, gate) = gated(Settings { max_concurrent_requests: 2, ..settings() });
    let mut first = ask(&server, "今天");
    gate.wait_for(1);
    let mut second = ask(&server, "今天天气");
    soon("the second request", || queue_size(&server) == 1);
    let third = server.post("/embed", &json!({"inputs": "今天"}));
    third.refused(429, "Overloaded", &["2 requests"]);
    assert!(third.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(server.get("/health").status, 200);
    gate.let_pass(2);
    assert_eq!((read(&mut first).status, read(&mut second).status), (200, 200));
    gate.let_pass(1);
    assert_eq!(server.post("/embed", &json!({"inputs": "今天"})).status, 200);
}

#[test]
fn whoever_goes_away_leaves_the_queue() {
    let (server, gate) = gated(settings());
    let mut first = ask(&server, "今天");
    gate.wait_for(1);
    let gone: Vec<TcpStream> = (0..5).map(|_| ask(&server, "今天天气很好")).collect();
    let mut stays = ask(&server, "我喜欢北京");
    soon("six requests", || queue_size(&server) == 6);
    drop(gone);
    soon("that five leave", || queue_size(&server) == 1);
    gate.let_pass(2);
    assert_eq!(read(&mut first).status, 200);
    let expected =
        open("tiny-sim").embed("我喜欢北京", Embed { normalize: true, ..Embed::default() }).unwrap();
    assert_eq!(floats(&read(&mut stays).ok()[0]), expected);
}

#[test]
fn a_deadline_is_kept() {
    let (server, gate) = gated(Settings { deadline: Duration::from_millis(300), ..settings() });
    server.post("/embed", &json!({"inputs": "今天"})).refused(504, "Timeout", &["0.3 s"]);
    server.post("/embed", &json!({"inputs": "今天"})).refused(504, "Timeout", &["0.3 s"]);
    assert_eq!(queue_size(&server), 0);
    gate.let_pass(10);
}

#[test]
fn a_model_that_panics_fails_its_batch_alone() {
    let (server, gate) = gated(settings());
    gate.let_pass(10);
    let unlucky = "a ".repeat(11);
    assert_eq!(open("tiny-sim").tokenizer().encode(&unlucky).unwrap().len(), 13);
    server.post("/embed", &json!({"inputs": unlucky})).refused(424, "Backend", &["failed"]);
    assert_eq!(server.post("/embed", &json!({"inputs": "今天"})).status, 200);
    assert!(server.get("/metrics").body.contains("te_request_failure{err=\"inference\"} 1"));
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let (server, gate) = gated(settings());
    let mut first = ask(&server, "今天");
    gate.wait_for(1);
    let mut second = ask(&server, "今天天气很好");
    soon("the second request", || queue_size(&server) == 1);
    let mut idle = server.connect();
    server.handle.stop();
    // One that asks nothing is closed; nobody new is let in.
    assert_eq!(idle.read(&mut [0; 8]).unwrap_or(0), 0);
    soon("that nobody is let in", || TcpStream::connect(server.address).is_err());
    gate.let_pass(2);
    assert_eq!((read(&mut first).status, read(&mut second).status), (200, 200));
    server.end();
}

/// Requests that clients have sent when the end comes, and that nobody has read yet.
#[test]
fn what_lies_unread_at_the_end_is_answered() {
    let server = Running::of("tiny-sim");
    let mut clients: Vec<TcpStream> = (0..64).map(|_| server.connect()).collect();
    // Connections are accepted in their order: those before this one are.
    assert_eq!(server.get("/health").status, 200);
    let asked = request("/embed", json!({"inputs": "广州"}).to_string().as_bytes(), "");
    clients.iter_mut().for_each(|client| client.write_all(&asked).unwrap());
    // And some that nobody has accepted.
    clients.extend((0..64).map(|_| ask(&server, "深圳")));
    server.handle.stop();
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(read(client).status, 200, "client {index}");
    }
    server.end();
}

/// Many clients at once, with texts of all lengths, in batches as they come: each has the bits of its text alone.
#[test]
fn batches_do_not_change_a_bit() {
    let (server, pipeline) = (Running::of("tiny-sim"), open("tiny-sim"));
    let parts = ["今天天气很好。", "我喜欢北京", "hello ", "好", "小明住在上海，他喜欢看书。"];
    let text = |index: usize| parts[index % 5].repeat(1 + index * 7 % 23);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, pipeline) = (&server, &pipeline);
            scope.spawn(move || {
                for round in 0..12 {
                    let texts: Vec<String> =
                        (0..1 + round % 5).map(|index| text(client * 31 + round * 3 + index)).collect();
                    let vectors = server.post("/embed", &json!({"inputs": texts})).ok();
                    for (text, vector) in texts.iter().zip(vectors.as_array().unwrap()) {
                        let expected =
                            pipeline.embed(text, Embed { normalize: true, ..Embed::default() }).unwrap();
                        assert_eq!(floats(vector), expected, "{text}");
                    }
                }
            });
        }
    });
    let metrics = server.get("/metrics").body;
    let count = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    // Texts ran together: fewer batches than texts.
    assert!(count("te_batch_next_size_count") < count("te_batch_next_size_sum"), "{metrics}");
}

//! `roformer serve` as it is typed, and `roformer bench serve` and people's own clients against it.

mod common;

use common::{command, json, numbers, refused, root};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

const SIM: &str = "examples/models/tiny-sim";

/// A server until it is dropped.
struct Serving {
    process: Child,
    _out: BufReader<ChildStdout>,
    host: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Serving {
        Serving::with(command(&[&["serve", "--port", "0"], arguments].concat()))
    }

    fn with(mut command: Command) -> Serving {
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let host = line.strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}"));
        let host = host.split_whitespace().next().unwrap().to_string();
        Serving { process, _out: out, host }
    }

    fn ask(&self, path: &str, body: &str) -> (String, Value) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_string(), serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn vectors_are_those_of_embed() {
    for dtype in ["f32", "bf16", "int8"] {
        let server = Serving::start(&["--model", SIM, "--dtype", dtype]);
        assert!(server.host.starts_with("127.0.0.1:"), "{}", server.host);
        let (head, vectors) = server.ask("/embed", r#"{"inputs": "今天天气很好"}"#);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let printed =
            json(&["embed", "--model", SIM, "--dtype", dtype, "--normalize", "--json", "今天天气很好"]);
        assert_eq!(numbers(&vectors[0]), numbers(&printed["embedding"]), "{dtype}");
    }
}

#[test]
fn variables_of_text_embeddings_inference_are_read() {
    let mut command = command(&["serve"]);
    command.envs([("MODEL_ID", SIM), ("PORT", "0"), ("MAX_CLIENT_BATCH_SIZE", "2"), ("DTYPE", "float32")]);
    command.envs([("SERVED_MODEL_NAME", "mine"), ("AUTO_TRUNCATE", "false"), ("POOLING", "last-token")]);
    // A name, as containers set it, is not where to listen.
    command.envs([("HOSTNAME", "3f1c0ffee"), ("JSON_OUTPUT", "true"), ("LOG_LEVEL", "warn")]);
    let server = Serving::with(command);
    let (_, info) = server.ask("/info", "");
    assert_eq!((&info["served_model_name"], &info["auto_truncate"]), (&"mine".into(), &false.into()));
    assert_eq!((&info["model_dtype"], &info["max_client_batch_size"]), (&"float32".into(), &2.into()));
    assert_eq!(info["model_type"]["embedding"]["pooling"], "last");
    let (_, vectors) = server.ask("/embed", r#"{"inputs": "今天"}"#);
    let printed = json(&["embed", "--model", SIM, "--pooling", "last", "--normalize", "--json", "今天"]);
    assert_eq!(numbers(&vectors[0]), numbers(&printed["embedding"]));
}

/// SIGTERM, as systemd and Docker send it.
#[cfg(unix)]
#[test]
fn a_server_ends_when_it_is_told_to() {
    let mut server = Serving::start(&["--model", SIM]);
    assert!(server.ask("/health", "").0.starts_with("HTTP/1.1 200"));
    let kill = Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_served_is_said() {
    let taken = Serving::start(&["--model", SIM]);
    let port = taken.host.rsplit_once(':').unwrap().1;
    refused(&["serve", "--model", SIM, "--port", port], &["cannot listen", port, "--port"]);
    refused(&["serve"], &["--model"]);
    refused(&["serve", "--model", "no-such-folder/x/y"], &["no-such-folder"]);
    refused(&["serve", "--model", SIM, "--dtype", "float16"], &["float16"]);
    refused(&["serve", "--model", SIM, "--device", "tpu"], &["tpu", "cuda:N"]);
    refused(&["serve", "--model", SIM, "--listen", "somewhere"], &["somewhere"]);
    refused(&["serve", "--model", SIM, "--api-key", ""], &["--api-key", "empty"]);
    refused(&["serve", "--model", SIM, "--model", SIM, "--served-model-name", "a"], &["once for each"]);
    refused(&["serve", "--model", SIM, "--log-level", "loud"], &["--log-level"]);
    // An address of nobody's (RFC 5737): no port would help.
    refused(&["serve", "--model", SIM, "--listen", "192.0.2.1"], &["192.0.2.1", "--listen"]);
    refused(&["serve", "--model", SIM, "--model", SIM, "--port", "0"], &["tiny-sim", "--served-model-name"]);
    refused(
        &["serve", "--model", SIM, "--default-prompt-name", "qurey", "--port", "0"],
        &["qurey", "prompts"],
    );
    refused(&["serve", "--model", SIM, "--max-concurrent-requests", "0"], &["--max-concurrent-requests"]);
    refused(&["serve", "--model", SIM, "--payload-limit", "0"], &["--payload-limit"]);
}

/// Where nobody reads the address the server serves all the same; where it cannot be written, that is said.
#[cfg(target_os = "linux")]
#[test]
fn the_address_need_not_be_read() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let serve = ["serve", "--model", SIM, "--log-level", "off", "--port", &free.port().to_string()];
    let mut process = command(&serve).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    drop(process.stdout.take());
    let is_there = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        TcpStream::connect(free).is_ok()
    });
    let ended = process.try_wait().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(is_there && ended.is_none(), "{ended:?}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let run = command(&serve).stdin(Stdio::null()).stdout(full).output().unwrap();
    let message = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{message}");
    assert!(message.contains("standard output") && message.lines().count() == 1, "{message}");
}

#[test]
fn a_load_is_measured_and_checked() {
    let server = Serving::start(&["--model", SIM, "--device", "cpu,cpu"]);
    let (tei, openai) =
        (format!("http://{}/embed", server.host), format!("http://{}/v1/embeddings", server.host));
    let bench =
        |arguments: &[&str]| json(&[&["bench", "serve", "--seconds", "0.3", "--json"], arguments].concat());
    for url in [&tei, &openai] {
        let line = bench(&[url, "--clients", "3", "--texts", "2", "--words", "20", "--check", SIM]);
        assert!(line["requests"].as_u64().unwrap() > 0 && line["tokens_s"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!((&line["failed"], &line["wrong"], &line["checked"]), (&0.into(), &0.into(), &true.into()));
    }
    let open = bench(&[&tei, "--clients", "2", "--rate", "50", "--words", "5"]);
    assert_eq!(open["requests"], 15, "{open}");
    // Vectors of another kind are not those.
    let wrong = command(&[
        "bench",
        "serve",
        &tei,
        "--seconds",
        "0.1",
        "--clients",
        "1",
        "--check",
        SIM,
        "--dtype",
        "int8",
    ])
    .output()
    .unwrap();
    let message = String::from_utf8(wrong.stderr).unwrap();
    assert!(wrong.status.code() == Some(1) && message.contains("not those of the model"), "{message}");
    let nobody =
        command(&["bench", "serve", "http://127.0.0.1:1/embed", "--seconds", "0.1", "--clients", "1"])
            .output()
            .unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    refused(&["bench", "serve", &tei, "--seconds", "0"], &["--seconds"]);
    for address in
        ["127.0.0.1:3000/embed", "localhost", "ftp://127.0.0.1/embed", "http:///embed", "", "http://a b/"]
    {
        let message = [address, "http://HOST:PORT/ROUTE"];
        refused(&["bench", "serve", address, "--seconds", "60"], &message);
    }
}

/// openai, LangChain, LlamaIndex, huggingface_hub and cohere, where Python has them.
#[test]
fn clients_that_people_have_work() {
    let python = std::env::var("PYTHON").unwrap_or("python3".into());
    let script = root().join("crates/serve/tests/clients.py");
    let run = Command::new(&python).arg(script).arg(env!("CARGO_BIN_EXE_roformer")).output();
    let Ok(run) = run else {
        eprintln!("skipped: no {python}");
        return;
    };
    let text = String::from_utf8_lossy(&run.stdout);
    eprintln!("{text}{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}");
}

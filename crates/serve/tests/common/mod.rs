//! A server on this machine, and a client that says exactly what it is told to.
#![allow(dead_code, reason = "each file of tests uses its own part")]

use roformer::Pipeline;
use roformer_serve::{Handle, Model, Replica, Server, Settings};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A model of `examples/models` or of `golden/sentence-transformers`.
pub fn open(name: &str) -> Pipeline {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folder = format!("{root}/examples/models/{name}");
    let golden = format!("{root}/golden/sentence-transformers/{name}");
    let folder = if std::path::Path::new(&folder).is_dir() { folder } else { golden };
    Pipeline::open(folder).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn model(name: &str) -> Model {
    Model::new(name, vec![Arc::new(open(name)) as Arc<dyn Replica>])
}

/// The usual settings, at any free port.
pub fn settings() -> Settings {
    Settings { address: (Ipv4Addr::LOCALHOST, 0).into(), ..Settings::default() }
}

/// A server until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(settings: Settings, models: Vec<Model>) -> Running {
        let server = Server::bind(settings, models).unwrap();
        let (address, handle) = (server.address(), server.handle());
        let thread = std::thread::spawn(move || server.run().unwrap());
        Running { address, handle, thread: Some(thread) }
    }

    pub fn of(name: &str) -> Running {
        Running::start(settings(), vec![model(name)])
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        // Nothing takes this long; a test that would hang fails.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    pub fn get(&self, path: &str) -> Answer {
        self.say(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, body.to_string().as_bytes(), "")
    }

    /// With more lines of header, each with its end.
    pub fn post_with(&self, path: &str, body: &[u8], headers: &str) -> Answer {
        self.say(&request(path, body, headers))
    }

    /// Sends these bytes, and reads until the connection is closed.
    pub fn say(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server may answer and close before it has read all.
        let _ = stream.write_all(bytes);
        read(&mut stream)
    }

    /// Ends the server and waits for it.
    pub fn end(mut self) {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn request(path: &str, body: &[u8], headers: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// All that comes until the connection is closed.
pub fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // One that is reset has said what it has said.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_string() }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of an answer that is one.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Refused with this status and kind, in words of which these are some.
    #[track_caller]
    pub fn refused(&self, status: u16, kind: &str, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        let json = self.json();
        let (message, of) = match &json["error"] {
            Value::String(message) => (message.as_str(), json["error_type"].as_str()),
            error => (error["message"].as_str().unwrap(), error["type"].as_str()),
        };
        assert_eq!(of, Some(kind), "{self:?}");
        for word in words {
            assert!(message.contains(word), "`{word}` is not in: {message}");
        }
    }
}

/// The numbers of a list, as they were before they were written.
pub fn floats(list: &Value) -> Vec<f32> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

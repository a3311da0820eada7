//! `roformer explore` as it is typed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

fn explore(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roformer"));
    command.arg("explore").args(arguments).stdin(Stdio::null());
    command
}

/// The page, served until it is dropped.
struct Page {
    process: Child,
    host: String,
}

impl Page {
    fn open(arguments: &[&str]) -> Page {
        let mut process =
            explore(arguments).args(["--no-open", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().next().unwrap_or_default();
        let host = url
            .strip_prefix("http://")
            .unwrap_or_else(|| panic!("{line:?}"))
            .trim_end_matches('/')
            .to_string();
        Page { process, host }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One line on stderr, and the exit code of bad input.
fn refused(output: &Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn the_page_is_served_on_this_machine() {
    let page = Page::open(&[]);
    assert!(page.host.starts_with("127.0.0.1:"), "{}", page.host);
    let answer = page.get("/");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:.100}");
    assert!(answer.contains("Rotary position embedding"));
    assert!(page.get("/api/tokens?m=3&n=1").contains("\"distance\":2"));
    assert!(page.get("/api/tokens?m=-3").starts_with("HTTP/1.1 400"));
    assert!(page.get("/").starts_with("HTTP/1.1 200"));
}

#[test]
fn what_is_given_is_shown() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let page = Page::open(&[
        &format!("{examples}/llama-3.1-8b.json"),
        "--model",
        &format!("{examples}/models/tiny-gpt"),
    ]);
    let exhibits = page.get("/api/exhibits");
    assert!(exhibits.contains("llama-3.1-8b.json") && exhibits.contains("\"heads\":4"), "{exhibits}");
    assert!(page.get("/api/model?text=the+dog").contains("\"weights\""));
}

#[test]
fn the_page_opens_in_a_language() {
    let mut process =
        explore(&["--no-open", "--port", "0", "--lang", "zh"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(line.contains("/#lang=zh "), "{line}");
    let message = refused(&explore(&["--no-open", "--lang", "fr"]).output().unwrap());
    assert!(message.contains("fr") && message.contains("en, zh"), "{message}");
}

#[test]
fn the_page_is_written_to_a_folder() {
    let folder = std::env::temp_dir().join(format!("roformer-explore-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let path = folder.display().to_string();
    for _ in 0..2 {
        let output = explore(&["--export", &path]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && told.contains(" files, ") && told.contains(" answers"), "{told}");
    }
    assert!(std::fs::read_to_string(folder.join("index.html")).unwrap().contains("name=\"answers\""));
    assert!(folder.join("answers/tokens.json").is_file());
    std::fs::remove_file(folder.join("roformer-explore.txt")).unwrap();
    let message = refused(&explore(&["--export", &path]).output().unwrap());
    assert!(message.contains("is not empty"), "{message}");
    let message = refused(&explore(&["--export", &path, "--model", "x"]).output().unwrap());
    assert!(message.contains("--model") && message.contains("--export"), "{message}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_shown_is_said() {
    let taken = Page::open(&[]);
    let port = taken.host.rsplit_once(':').unwrap().1;
    let message = refused(&explore(&["--no-open", "--port", port]).output().unwrap());
    assert!(message.contains(port) && message.contains("--port"), "{message}");
    for (arguments, part) in [
        (&["no-such.json"][..], "no-such.json"),
        (&["--model", "no-such-folder/x/y"], "no-such-folder"),
        (&["--comparison", "no-such-folder"], "results.json"),
        (&["--listen", "somewhere"], "--listen"),
        (&["--port", "99999"], "--port"),
    ] {
        let message = refused(&explore(arguments).arg("--no-open").output().unwrap());
        assert!(message.contains(part), "{message}");
    }
}

//! The page as files, behind a server that only hands out files.

use super::chromium::{Chromium, DESK, PHONE};
use super::whole::{fits, parts};
use roformer_explore::export;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;

/// A folder of its own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("roformer-export-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Hands out the files of a folder below `/sub/`, and 404 for all else; ends with the process.
fn hand_out(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sub/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let folder = folder.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let Some(first) = lines.next() else { return };
                lines.find(String::is_empty);
                let path =
                    first.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or("/").to_string();
                let name = match path.strip_prefix("/sub/") {
                    Some("") => "index.html",
                    Some(name) => name,
                    None => "no such file",
                };
                let kind = match name.rsplit('.').next() {
                    Some("html") => "text/html",
                    Some("css") => "text/css",
                    Some("js") => "text/javascript",
                    _ => "application/json",
                };
                let (status, body) = match std::fs::read(folder.join(name)) {
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                let mut stream = &stream;
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(&body);
            });
        }
    });
    url
}

#[test]
fn an_exported_page_opens_behind_any_server() {
    let Some(mut browser) = Chromium::start() else { return };
    let folder = folder("page");
    let written = export::write(&folder, |_, _| {}).unwrap();
    assert!(written.bytes < 32 << 20, "{written:?}");
    let url = hand_out(folder.clone());
    for language in ["en", "zh"] {
        browser.open(&format!("{url}#lang={language}"));
        for part in parts(&mut browser) {
            fits(&mut browser, &part, &format!("exported-{language}"));
            let alert = format!("document.querySelector('#{part} .alert').hidden");
            assert_eq!(browser.eval(&alert), json!(true), "{part} in {language}");
            // Each slider alone, at its ends: it stands at a stop, or the page says what is needed.
            let sliders = browser.eval(&format!("[...document.querySelectorAll('#{part} input[type=range]')].filter((slider) => slider.offsetParent).map((slider) => slider.id)"));
            for slider in sliders.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_string()) {
                for end in ["min", "max"] {
                    let before = browser.eval(&format!("document.getElementById('{slider}').value"));
                    let put = |value: &str| {
                        format!(
                            "(() => {{ const slider = document.getElementById('{slider}'); slider.value = {value}; slider.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
                        )
                    };
                    browser.eval(&put(&format!("slider.{end}")));
                    browser.settle(&part);
                    browser.eval(&put(before.as_str().unwrap()));
                    browser.settle(&part);
                    assert_eq!(browser.eval(&alert), json!(true), "{slider} back in {language}");
                }
            }
        }
    }
    // What needs the program says so, and how to go on.
    browser.set("order", "text", "今天天气很好");
    let said = browser.eval("document.querySelector('#order .alert').textContent");
    assert!(said.as_str().unwrap().contains("roformer explore"), "{said}");
    browser.eval("document.querySelector('#order .alert button').click()");
    browser.set("order", "text", "我爱你");
    assert_eq!(browser.eval("document.querySelector('#order .alert').hidden"), json!(true));
    // Nothing failed, nothing came from elsewhere, and the program was not asked.
    browser.is_content(&url);
    assert!(!browser.requests.iter().any(|request| request.contains("/api/")), "{:?}", browser.requests);
    browser.looks(PHONE);
    browser.part("clocks");
    browser.looks(DESK);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_same_numbers_as_with_the_program() {
    let Some((mut browser, url)) = super::page() else { return };
    let folder = folder("numbers");
    export::write(&folder, |_, _| {}).unwrap();
    let exported = hand_out(folder.clone());
    for part in ["tokens", "clocks", "decay", "extension"] {
        browser.open(&format!("{url}#lang=en&base=500000"));
        browser.part(part);
        let wanted = browser.data(part);
        browser.open(&format!("{exported}#lang=en&base=500000"));
        browser.part(part);
        assert_eq!(browser.data(part), wanted, "{part}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_of_others_is_left_alone() {
    let folder = folder("check");
    assert!(export::check(&folder).is_ok(), "a new folder");
    std::fs::create_dir_all(&folder).unwrap();
    assert!(export::check(&folder).is_ok(), "an empty folder");
    std::fs::write(folder.join("letter.txt"), "dear reader").unwrap();
    let refused = export::check(&folder).unwrap_err().to_string();
    assert!(refused.contains("is not empty"), "{refused}");
    assert!(export::check(&folder.join("letter.txt")).is_err(), "a file");
    // One that was written may be written again; what else lies there stays, and so does what a list names outside of it.
    std::fs::remove_file(folder.join("letter.txt")).unwrap();
    let inner = folder.join("page");
    export::write(&inner, |_, _| {}).unwrap();
    std::fs::write(inner.join("letter.txt"), "dear reader").unwrap();
    std::fs::write(folder.join("outside.txt"), "kept").unwrap();
    let list = inner.join("roformer-explore.txt");
    std::fs::write(&list, std::fs::read_to_string(&list).unwrap() + "../outside.txt\n").unwrap();
    assert!(export::check(&inner).is_ok());
    export::write(&inner, |_, _| {}).unwrap();
    assert!(inner.join("letter.txt").is_file() && folder.join("outside.txt").is_file());
    std::fs::remove_dir_all(folder).unwrap();
}

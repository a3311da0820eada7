//! A headless Chromium, driven through its DevTools protocol: just enough to open a page, use it and look at it.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tungstenite::{Error, Message, WebSocket};

/// Names under which Chromium is found.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// How long a page may take for one thing: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(180);
/// After so long without an answer, a question that can be asked again is.
const SILENCE: Duration = Duration::from_secs(10);

/// A piece of a script: whether every part near the window is drawn. Which parts are near is known some frames after a scroll. A browser
/// that is given too little time may leave out a frame, and is not waited for.
const QUIET: &str = "for (let frame = 0; frame < 4; frame++)
      await new Promise((next) => { requestAnimationFrame(next); setTimeout(next, 2000); });
    const isQuiet = ![...document.querySelectorAll('section.part')].some((part) => part.isNear && !part.isSettled);";

/// The folder for pictures: the one that `ROFORMER_SCREENSHOTS` names.
pub fn pictures() -> Option<OsString> {
    std::env::var_os("ROFORMER_SCREENSHOTS")
}

/// One browser with one page.
pub struct Chromium {
    process: Child,
    profile: PathBuf,
    socket: WebSocket<TcpStream>,
    session: String,
    last: u64,
    /// What the page complained about: errors on the console, exceptions, failed loads.
    pub complaints: Vec<String>,
    /// Addresses that the page asked for.
    pub requests: Vec<String>,
}

/// How the page is looked at.
#[derive(Clone, Copy)]
pub struct Looks {
    pub width: u32,
    pub height: u32,
    pub is_dark: bool,
}

/// A window on a desk, in daylight.
pub const DESK: Looks = Looks { width: 1440, height: 900, is_dark: false };
/// The same at night.
pub const NIGHT: Looks = Looks { is_dark: true, ..DESK };
/// A phone.
pub const PHONE: Looks = Looks { width: 390, height: 844, is_dark: false };

impl Chromium {
    /// A browser, or `None` where there is none, which is said. `ROFORMER_CHROMIUM=required` makes that an error.
    pub fn start() -> Option<Chromium> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("roformer-browser-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        let launch = |name: &&str| {
            Command::new(name)
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--no-first-run",
                    "--disable-extensions",
                ])
                .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
                .args(["--disable-dev-shm-usage", "--hide-scrollbars"])
                .args(["--remote-debugging-port=0", "--remote-allow-origins=*"])
                .arg(format!("--user-data-dir={}", profile.display()))
                .arg("about:blank")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .ok()
        };
        let Some(mut process) = NAMES.iter().find_map(launch) else {
            let is_required = std::env::var("ROFORMER_CHROMIUM").is_ok_and(|value| value == "required");
            assert!(!is_required, "no Chromium was found; looked for {NAMES:?}");
            eprintln!("skipped: no Chromium was found; looked for {NAMES:?}");
            return None;
        };
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("DevTools listening on ")?.1.to_string()))
            .expect("Chromium says where it listens");
        // What it says later is read, so that it is never blocked.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let host = address.strip_prefix("ws://").unwrap().split_once('/').unwrap().0;
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let (socket, _) = tungstenite::client(address.as_str(), stream).unwrap();
        let mut browser = Chromium {
            process,
            profile,
            socket,
            session: String::new(),
            last: 0,
            complaints: Vec::new(),
            requests: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session =
            browser.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_string();
        for domain in ["Inspector", "Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.looks(DESK);
        Some(browser)
    }

    /// Sets the window's size and the colours that the reader prefers.
    pub fn looks(&mut self, looks: Looks) {
        let is_phone = looks.width < 600;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": looks.width, "height": looks.height, "deviceScaleFactor": 1, "mobile": is_phone }),
        );
        let scheme = if looks.is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Tells the page that its reader wants no motion.
    pub fn reduce_motion(&mut self) {
        let features = json!([{ "name": "prefers-reduced-motion", "value": "reduce" }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// From here on the page's frames are told a time of the test's own, so that what moves does not depend on the machine: it
    /// goes on by so many milliseconds with each, and `window.time_ms` sets it.
    pub fn own_time(&mut self, step_ms: u32) {
        self.eval(&format!(
            "(() => {{ const frame = window.requestAnimationFrame.bind(window); window.time_ms ??= 0;
              window.requestAnimationFrame = (call) => frame(() => call(window.time_ms += {step_ms})); }})()"
        ));
    }

    /// Opens the page at an address and waits until its parts are there.
    pub fn open(&mut self, url: &str) {
        // An address that differs in its fragment alone would not load the page again.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.wait_for("location.href === 'about:blank'");
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for(
            "location.href !== 'about:blank' && document.documentElement.dataset.isReady === 'true'",
        );
    }

    /// The value of an expression in the page; a promise is waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", question);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}\n{:#}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        let question = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        // A page that is being left answers with an error or not at all, and is asked again.
        let is_true = |answer: Option<Value>| answer.is_some_and(|answer| answer["result"]["value"] == true);
        while !is_true(self.ask("Runtime.evaluate", &question, SILENCE)) {
            assert!(start.elapsed() < PATIENCE, "never true: {expression}\n{:#?}", self.complaints);
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Goes to a part, as a link does, and waits until it shows what was asked last.
    pub fn part(&mut self, id: &str) {
        self.eval(&format!(
            "import(new URL('js/place.js', document.baseURI)).then(({{ goTo }}) => goTo(document.getElementById('{id}')))"
        ));
        self.settle(id);
    }

    /// Waits until a part has drawn the answer to its last question, and all is still around it.
    pub fn settle(&mut self, id: &str) {
        // A part asks when it is near the window, and parts above it that grow can push it away from there.
        self.wait_for(&format!(
            "(() => {{ const part = document.getElementById('{id}'); if (part.isSettled) return true;
              const {{ top, bottom }} = part.getBoundingClientRect();
              if (bottom < 0 || top > innerHeight) part.scrollIntoView({{ behavior: 'instant' }});
              return false; }})()"
        ));
        self.quiet();
    }

    /// Waits until every part near the window has drawn what it asked for: then nothing moves by itself.
    pub fn quiet(&mut self) {
        self.wait_for(&format!("(async () => {{ {QUIET} return isQuiet; }})()"));
    }

    /// Sets a control of a part to a value, as a reader does.
    pub fn set(&mut self, part: &str, control: &str, value: &str) {
        self.eval(&format!(
            "(() => {{ const id = '{part}-{control}';
              const box = document.getElementById(id + '-exact') ?? document.getElementById(id);
              if (box.tagName === 'SPAN') box.parentElement.querySelector('[data-choice=\"{value}\"]').click();
              else if (box.type === 'checkbox') {{ if (box.checked !== ('{value}' === 'true')) box.click(); }}
              else {{ box.value = '{value}'; box.dispatchEvent(new Event('input', {{ bubbles: true }}));
                      box.dispatchEvent(new Event('change', {{ bubbles: true }})); }} }})()"
        ));
        self.settle(part);
    }

    /// What the server answered to a part's last question.
    pub fn data(&mut self, part: &str) -> Value {
        self.eval(&format!("document.getElementById('{part}').figure.data"))
    }

    /// The text of a value on the page: `data-value="name"` within a part.
    pub fn value(&mut self, part: &str, name: &str) -> String {
        let text =
            self.eval(&format!("document.querySelector('#{part} [data-value=\"{name}\"]').textContent"));
        text.as_str().unwrap().to_string()
    }

    /// The number beside a slider of a part.
    pub fn control(&mut self, part: &str, name: &str) -> f64 {
        self.eval(&format!("Number(document.getElementById('{part}-{name}-exact').value)")).as_f64().unwrap()
    }

    /// Opens the address that the page has come to, as a link would be.
    pub fn reopen(&mut self, part: &str) {
        self.wait_for(
            "import(new URL('js/state.js', document.baseURI)).then(({ address }) => location.pathname + location.hash === address())",
        );
        let address = self.eval("location.href");
        self.open(address.as_str().unwrap());
        self.part(part);
    }

    /// Asserts that the address alone brings a part back as it was.
    pub fn comes_back(&mut self, part: &str) {
        let data = self.data(part);
        self.reopen(part);
        assert_eq!(self.data(part), data);
    }

    /// The middle of an element, in the window, once it stands still: parts above it grow when they come near.
    pub fn middle(&mut self, selector: &str) -> (f64, f64) {
        let place = self.eval(&format!(
            "(async () => {{ let last = '';
              for (;;) {{
                const element = document.querySelector('{selector}');
                element.scrollIntoView({{ block: 'center', behavior: 'instant' }});
                {QUIET}
                if (!isQuiet) continue;
                const box = document.querySelector('{selector}').getBoundingClientRect();
                const now = `${{box.x}},${{box.y}}`;
                if (now === last) return [box.x + box.width / 2, box.y + box.height / 2];
                last = now;
              }} }})()"
        ));
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    /// Drags with the mouse from a place, by so much, in so many steps.
    pub fn drag(&mut self, from: (f64, f64), by: (f64, f64), steps: u32) {
        self.hold(from);
        for step in 1..=steps {
            let part = f64::from(step) / f64::from(steps);
            self.mouse("mouseMoved", (from.0 + part * by.0, from.1 + part * by.1));
        }
        self.release((from.0 + by.0, from.1 + by.1));
    }

    /// Presses the mouse's button at a place.
    pub fn hold(&mut self, at: (f64, f64)) {
        self.mouse("mouseMoved", at);
        self.mouse("mousePressed", at);
    }

    /// Lets the button go at a place.
    pub fn release(&mut self, at: (f64, f64)) {
        self.mouse("mouseReleased", at);
    }

    /// Moves the mouse to a place.
    pub fn point(&mut self, at: (f64, f64)) {
        self.mouse("mouseMoved", at);
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        self.call(
            "Input.dispatchMouseEvent",
            json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": u8::from(kind != "mouseReleased"), "clickCount": 1 }),
        );
    }

    /// Presses a key, by its name: `ArrowRight`, `Tab`, `Enter`.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "ArrowRight" => 39,
            "ArrowLeft" => 37,
            "Tab" => 9,
            "Enter" => 13,
            other => panic!("{other} is not known here"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the window, kept in the folder for pictures, if there is one.
    pub fn screenshot(&mut self, name: &str) {
        let Some(folder) = pictures() else { return };
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = base64(picture["data"].as_str().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// Asserts that nothing was complained about and nothing was loaded from elsewhere.
    pub fn is_content(&mut self, url: &str) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
        for request in &self.requests {
            let is_own =
                request.starts_with(url) || request.starts_with("data:") || request.starts_with("blob:");
            assert!(is_own || request == "about:blank", "{request}");
        }
    }

    /// Calls a method of the protocol and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.ask(method, &parameters, PATIENCE)
            .unwrap_or_else(|| panic!("the browser does not answer {method} {parameters}"))
    }

    /// Calls a method of the protocol and returns its result; `None` if it does not come in time. Events that come meanwhile are taken
    /// note of, and so are late answers, which nobody waits for.
    fn ask(&mut self, method: &str, parameters: &Value, limit: Duration) -> Option<Value> {
        let start = Instant::now();
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let text = match self.socket.read() {
                Ok(Message::Text(text)) => text,
                Ok(_) => continue,
                // A wait with a limit ends early when the process is stopped and goes on; what was read so far is kept.
                Err(Error::Io(error)) if is_wait(error.kind()) => match start.elapsed() < limit {
                    true => continue,
                    false => return None,
                },
                Err(error) => panic!("the browser is gone: {error}"),
            };
            let mut answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == json!(self.last) {
                return Some(answer["result"].take());
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => {
                self.complaints.push(parameters["args"].to_string());
            }
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(parameters["exceptionDetails"].to_string())
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                self.complaints.push(parameters["entry"].to_string());
            }
            Some("Inspector.targetCrashed") => panic!("the page crashed"),
            Some("Network.requestWillBeSent") => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap_or_default().to_string());
            }
            _ => {}
        }
    }
}

/// Whether reading ended because nothing has come yet.
fn is_wait(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Bytes from base 64.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').map(digit).collect();
    let group = |group: &[u8]| {
        let bits =
            group.iter().fold(0u32, |bits, &digit| bits << 6 | u32::from(digit)) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

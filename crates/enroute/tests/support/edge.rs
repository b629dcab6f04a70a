//! An edge with its environment: certificates made by openssl, an origin with the test's responses,
//! and curl and openssl as its clients.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use super::{
    enroute::{Enroute, admin, admin_post},
    process::serve_each_at,
};

use super::workshop::{Workshop, workshop};

impl Workshop {
    /// The lines of an `[[edge.site]]` for `domain`, whose key is in a file.
    pub fn site(&self, domain: &str, origin: SocketAddr) -> String {
        let key = self.path(&format!("{domain}.key"));
        self.site_with_key(domain, origin, &format!("file:{}", key.display()))
    }

    pub fn site_with_key(&self, domain: &str, origin: SocketAddr, key: &str) -> String {
        let certificate = self.path(&format!("{domain}.pem"));
        format!(
            "[[edge.site]]\ndomain = \"{domain}\"\ncertificate = \"{}\"\nkey = \"{key}\"\n\
             origin = \"http://{origin}\"\n",
            certificate.display()
        )
    }

    /// Starts an edge on a free port, with `sites` and further `options` of `[edge]`.
    pub fn start(&self, options: &str, sites: &str) -> Edge<'_> {
        let enroute =
            Enroute::start_with_config(&["edge", "--log", "info"], &config(options, sites));
        let line = enroute.stderr_line("edge: https://");
        let address = line.trim_start_matches("edge: https://").parse().expect("an address");
        let admin = enroute.admin_address();
        Edge { enroute, address, admin, workshop: self }
    }
}

/// The configuration file of an edge on a free port.
pub fn config(options: &str, sites: &str) -> String {
    format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[edge]\nlisten = \"127.0.0.1:0\"\n{options}\n{sites}"
    )
}

/// An edge of `shop.example` with an origin that counts its responses and returns those of
/// `answer`.
pub fn with_edge(
    options: &str,
    site: &str,
    answer: impl Fn(&str, u64, &Asked) -> (u16, String) + Send + Sync + 'static,
    test: impl FnOnce(&Edge<'_>, &Origin),
) {
    let Some(workshop) = workshop() else { return };
    workshop.certificate("shop.example", "ec");
    let count = AtomicU64::new(0);
    let origin = Origin::start(move |asked| {
        let number = count.fetch_add(1, SeqCst) + 1;
        let (status, lines) = answer(&asked.path, number, asked);
        (status, lines, format!("answer {number}"))
    });
    let edge = workshop.start(options, &(workshop.site("shop.example", origin.address) + site));
    test(&edge, &origin);
}

pub struct Edge<'a> {
    pub enroute: Enroute,
    pub address: SocketAddr,
    admin: SocketAddr,
    workshop: &'a Workshop,
}

/// A response received by curl.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// A header's value; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    /// The entry of this cache in `Cache-Status`.
    pub fn cache(&self) -> &str {
        self.header("cache-status").trim_start_matches("enroute; ")
    }
}

impl Edge<'_> {
    /// Runs curl for a URL of `domain`; an error is curl's standard error.
    pub fn try_curl(&self, domain: &str, path: &str, options: &[&str]) -> Result<Answer, String> {
        let port = self.address.port();
        let output = Command::new("curl")
            .args(["-sS", "-i", "--max-time", "30", "--cacert"])
            .arg(self.workshop.path(&format!("{domain}.pem")))
            .args(["--resolve", &format!("{domain}:{port}:127.0.0.1")])
            .args(options)
            .arg(format!("https://{domain}:{port}{path}"))
            .output()
            .expect("curl runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.trim().parse().ok());
        let (head, body) = (head.replace('\r', ""), body.to_owned());
        Ok(Answer { status: status.expect("a status"), head, body })
    }

    /// As `try_curl`; panics on an error.
    pub fn curl(&self, domain: &str, path: &str, options: &[&str]) -> Answer {
        self.try_curl(domain, path, options).unwrap_or_else(|said| panic!("{path}: {said}"))
    }

    /// The output of `openssl s_client` for a handshake, and for `request` if it is not empty.
    pub fn openssl(&self, domain: &str, options: &str, request: &str) -> String {
        let command = format!(
            "openssl s_client -connect {} -servername {domain} -CAfile {domain}.pem {options}",
            self.address
        );
        let mut child = Command::new("sh")
            .args(["-ec", &command])
            .current_dir(self.workshop.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdin = child.stdin.take().expect("piped");
        // It may have ended already because of an alert.
        let _ = stdin.write_all(request.as_bytes());
        if request.is_empty() {
            drop(stdin);
        }
        let output = child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// A counter of the admin endpoint.
    pub fn counted(&self, name: &str) -> u64 {
        let stats = self.statistics();
        stats["edge"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    pub fn statistics(&self) -> serde_json::Value {
        serde_json::from_str(&admin(self.admin, "/stats").body).expect("JSON")
    }

    /// Drops all that is stored.
    pub fn flush(&self) {
        assert_eq!(admin_post(self.admin, "/flush", "").status, 200);
    }

    pub fn metrics(&self) -> String {
        admin(self.admin, "/metrics").body
    }
}

/// A request received by an origin.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    headers: HashMap<String, String>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Whether the text is in any of its headers.
    pub fn says(&self, text: &str) -> bool {
        self.headers.iter().any(|(name, value)| name.contains(text) || value.contains(text))
    }
}

/// An HTTP origin that returns the test's responses, and records the requests.
pub struct Origin {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    gone: Arc<AtomicBool>,
}

impl Origin {
    /// `answer` returns status, header lines and body. The origin ends with the test process.
    pub fn start(answer: impl Fn(&Asked) -> (u16, String, String) + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", answer)
    }

    /// As `start`, at an address of the caller's network namespace.
    pub fn start_at(
        address: &str,
        answer: impl Fn(&Asked) -> (u16, String, String) + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let gone = Arc::new(AtomicBool::new(false));
        let (seen, is_gone) = (Arc::clone(&asked), Arc::clone(&gone));
        let address = serve_each_at(address, move |client| serve(client, &seen, &answer, &is_gone));
        Self { address, asked, gone }
    }

    /// From now on connections are closed without a response.
    pub fn go(&self) {
        self.gone.store(true, SeqCst);
    }

    /// Requests for `path` so far.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().expect("no test panicked here");
        asked.iter().filter(|asked| asked.path == path).cloned().collect()
    }
}

fn serve(
    client: TcpStream,
    seen: &Mutex<Vec<Asked>>,
    answer: &(impl Fn(&Asked) -> (u16, String, String) + ?Sized),
    is_gone: &AtomicBool,
) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let mut client = client;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let asked = Asked { method, path, headers, body };
        if is_gone.load(SeqCst) {
            return None;
        }
        seen.lock().ok()?.push(asked.clone());
        let (status, lines, body) = answer(&asked);
        let without_body = matches!(status, 204 | 304);
        let body = if asked.method == "HEAD" || without_body { String::new() } else { body };
        let length = if without_body {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        let lines: String = lines.lines().map(|line| format!("{line}\r\n")).collect();
        write!(client, "HTTP/1.1 {status} x\r\n{length}{lines}\r\n{body}").ok()?;
    }
}

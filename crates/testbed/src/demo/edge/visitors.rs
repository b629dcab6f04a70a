//! Visitors: curl, as a browser would.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::Context;

use super::stage::{DOMAIN, Stage};

/// Pages of the site.
const PAGES: usize = 20;
/// Pages that the returning visitor fetches per minute.
const PAGES_PER_MINUTE: u64 = 240;

fn curl(stage: &Stage) -> Command {
    let mut command = Command::new("curl");
    let place = format!("{DOMAIN}:{}:127.0.0.1", stage.port());
    command.args(["-s", "--max-time", "5", "--resolve", &place, "--cacert"]);
    command.arg(stage.path("ca.pem")).stdin(Stdio::null());
    command
}

fn url(stage: &Stage, page: &str) -> String {
    format!("https://{DOMAIN}:{}/page/{page}", stage.port())
}

const ABSENT: &str = "cannot start curl, the visitor of this demonstration: install it, version 7.84 \
                      or later, and try again";

/// Fails if curl is missing, or too old to fetch pages at a given rate.
pub(super) fn look_for_curl() -> anyhow::Result<()> {
    let asked = Command::new("curl").args(["--rate", "1/m", "--version"]).output();
    let output = asked.context(ABSENT)?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{ABSENT}: {}", said.trim());
    Ok(())
}

/// Fetches a page and prints its HTTP version, status and TLS result.
pub(super) fn first_look(stage: &Stage) -> anyhow::Result<String> {
    let told = "HTTP/%{http_version} %{http_code}, TLS certificate verified: %{ssl_verify_result}, \
                handshake after %{time_appconnect} s, page after %{time_total} s";
    let output = curl(stage)
        .args(["-S", "-o", "/dev/null", "-w", told])
        .arg(url(stage, "0"))
        .output()
        .context(ABSENT)?;
    anyhow::ensure!(
        output.status.success(),
        "the first page did not arrive: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).replace("verified: 0", "verified: yes"))
}

/// A new visitor, without a TLS session. Returns the error of curl if the page did not arrive.
pub(super) fn visit(stage: &Stage) -> anyhow::Result<Result<(), String>> {
    let output = curl(stage)
        .args(["-S", "-o", "/dev/null"])
        .arg(url(stage, "0"))
        .output()
        .context(ABSENT)?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    Ok(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// A returning visitor: a new connection for each page, all with the TLS session of the first.
pub(super) struct Returning {
    child: Child,
    good: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl Returning {
    pub(super) fn start(stage: &Stage, duration: Duration) -> anyhow::Result<Self> {
        // More pages than it can fetch before the end of the demonstration, which ends it.
        let pages = PAGES_PER_MINUTE * duration.as_secs() / 30;
        let mut command = curl(stage);
        // To standard error, because curl buffers standard output on a pipe until it ends.
        command.args(["--http1.1", "-H", "Connection: close", "-w", "%{stderr}%{http_code}\\n"]);
        command.args(["--rate", &format!("{PAGES_PER_MINUTE}/m")]);
        for number in 0..pages as usize {
            command.args(["-o", "/dev/null"]).arg(url(stage, &(number % PAGES).to_string()));
        }
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context(ABSENT)?;
        let (good, failed) = (Arc::default(), Arc::default());
        let (count_good, count_failed) = (Arc::clone(&good), Arc::clone(&failed));
        let told = BufReader::new(child.stderr.take().context("piped")?);
        thread::spawn(move || {
            for line in told.lines().map_while(Result::ok) {
                let count: &AtomicU64 = if line == "200" { &count_good } else { &count_failed };
                count.fetch_add(1, Relaxed);
            }
        });
        Ok(Self { child, good, failed })
    }

    /// Number of pages that arrived and that did not.
    pub(super) fn pages(&self) -> (u64, u64) {
        (self.good.load(Relaxed), self.failed.load(Relaxed))
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The page of the site at this path.
pub(super) fn page(path: &str) -> Option<String> {
    let number: usize = path.strip_prefix("/page/")?.parse().ok()?;
    let text = "Everything on this page came from the origin once.\n".repeat(40);
    Some(format!("Page {} of {PAGES}\n{text}", number % PAGES))
}

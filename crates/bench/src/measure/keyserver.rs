//! The key server: signatures of one core compared with openssl's own measurement, answers of two
//! cores over mutually authenticated connections, and latency under load.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::{
    figure::{Figure, Goal, Reading, median},
    measure::noise,
    process::{self, CLIENT, Cores, SERVER, Server},
    run::{Run, Side},
    servers::Database,
};

/// Number of outstanding requests over all connections at maximum load.
const OUTSTANDING: &str = "256";
/// Maximum number of outstanding requests: half a second of them at 30,000 per second. If the
/// server falls behind, that shows as latency and does not end the run.
const OUTSTANDING_MAX: &str = "16384";
const ECDSA: &str = "ecdsa_secp256r1_sha256";
const RSA: &str = "rsa_pss_rsae_sha256";
/// Share of the maximum rate at which latency is measured.
const LOAD: f64 = 0.7;

/// Signatures a second on one core, `enroute keyserver speed` and `openssl speed` in turn.
pub(super) fn per_core(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let seconds = (run.round().as_secs_f64() / 3.0).max(1.0);
    let directory = run.servers.directory("speed")?;
    let mut padding: Option<(Value, f64)> = None;
    let rounds = run.interleave("ecdsa-per-core", |side, _| match side {
        Side::Ours => {
            let mut command = run.servers.enroute_in(&directory);
            command.args(["keyserver", "speed", "--seconds", &seconds.to_string()]);
            let report: Value = serde_json::from_str(&output_on(SERVER, &mut command)?)?;
            let worst = worst_of(&report["padding"])?;
            if padding.as_ref().is_none_or(|(_, known)| worst > *known) {
                padding = Some((report["padding"].clone(), worst));
            }
            Ok(Reading::new(number(&report, "ecdsa_p256")?)
                .with("rsa", number(&report, "rsa2048")?)
                .with("padding", worst))
        }
        Side::Peer => {
            let mut command = Command::new("openssl");
            let each = (seconds.ceil() as u64).to_string();
            command.args(["speed", "-mr", "-seconds", &each, "ecdsap256", "rsa2048"]);
            let report = output_on(SERVER, &mut command)?;
            // +F4:… is ECDSA, +F2:… RSA: index, bits, seconds or rate of signing, of verifying.
            Ok(Reading::new(rate(&report, "+F4:")?).with("rsa", rate(&report, "+F2:")?))
        }
    })?;
    let goal = Goal::RatioMin(0.9);
    let worst =
        median(rounds.ours.iter().filter_map(|reading| reading.others.get("padding").copied()));
    let faults = padding.map(|(faults, _)| describe(&faults)).unwrap_or_default();
    Ok(vec![
        Figure::compared("ecdsa-per-core", rounds.medians(), "signatures/s", "openssl speed", goal),
        Figure::compared(
            "rsa2048-per-core",
            rounds.medians_of("rsa"),
            "signatures/s",
            "openssl speed",
            goal,
        ),
        Figure::alone("premaster-padding", worst, "largest |t| of a fault", 4.5)
            .note(format!("the round with the largest: {faults}")),
    ])
}

fn worst_of(padding: &Value) -> anyhow::Result<f64> {
    let faults = padding.as_array().context("no padding in the report")?;
    let values = faults.iter().map(|fault| Ok(number(fault, "t")?.abs()));
    Ok(values.collect::<anyhow::Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max))
}

fn describe(padding: &Value) -> String {
    let faults = padding.as_array().into_iter().flatten().map(|fault| {
        let ns = |name| fault[name].as_f64().unwrap_or(f64::NAN);
        let name = fault["fault"].as_str().unwrap_or_default();
        format!("{name} {:.0} ns against {:.0} (t {:.1})", ns("bad_ns"), ns("good_ns"), ns("t"))
    });
    faults.collect::<Vec<_>>().join(", ")
}

/// Parses the output of `openssl speed -mr`: operations per second in the fourth field of 1.x and
/// 3.x alike, or seconds for one.
fn rate(report: &str, prefix: &str) -> anyhow::Result<f64> {
    let line = report.lines().find(|line| line.starts_with(prefix));
    let line = line.with_context(|| format!("openssl speed: no {prefix} in:\n{report}"))?;
    let value: f64 = line.split(':').nth(3).context("too few fields")?.parse()?;
    ensure!(value > 0.0, "openssl speed: {line}");
    Ok(if value < 1.0 { 1.0 / value } else { value })
}

/// A key server with two keys in `enroute db`, and its client.
pub(super) struct Site {
    directory: PathBuf,
    server: Server,
    _database: Database,
    /// Threads of a client: one for each of its cores.
    client_threads: &'static str,
    ecdsa: String,
    rsa: String,
}

/// Maximum rate of two cores, server and client together, compared with the upper bound.
pub(super) fn two_cores(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let site = Site::start(run, Cores::Any)?;
    let most = site.most(run)?;
    let of = |value: fn(&Most) -> f64| median(most.iter().map(value));
    let (answers, ceiling, server_us) =
        (of(|round| round.answers), of(Most::ceiling), of(|round| round.server_us));
    Ok(vec![
        Figure::compared(
            "ecdsa-two-cores",
            (answers, 30_000.0),
            "answers/s",
            "the goal of 30,000",
            Goal::RatioMin(1.0),
        )
        .note(format!(
            "server and client share the two cores; the server takes {server_us:.1} µs of processor time \
             an answer, so two cores of its own would give {:.0}/s",
            2e6 / server_us
        )),
        Figure::compared(
            "ecdsa-two-cores-vs-ceiling",
            (answers, ceiling),
            "answers/s",
            "the ceiling of these two cores",
            Goal::RatioMin(0.9),
        )
        .note(format!(
            "ceiling: {:.1} µs of both cores for an answer without a signature (a refusal, {:.0}/s) and \
             {:.1} µs for a signature (openssl speed, {:.0}/s on one core)",
            1e6 / of(|round| round.refusals),
            of(|round| round.refusals),
            1e6 / 2.0 / of(|round| round.openssl),
            of(|round| round.openssl),
        )),
    ])
}

/// Measures the latency of a server that has one core, while the client has the other: at 70 % of
/// its peak rate, and at half of that with and without a flood of RSA.
pub(super) fn latency(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let site = Site::start(run, SERVER)?;
    let latencies = process::on(CLIENT, || site.latencies(run))??;
    let of = |value: fn(&Latencies) -> f64| median(latencies.iter().map(value));
    let most = of(|round| round.most);
    Ok(vec![
        Figure::alone("ecdsa-p99-at-70", of(|round| round.at_70_ms), "ms", 5.0).note(format!(
            "open loop at 70 % of the {most:.0}/s that a server on one core answers at most, its client on \
             the other; counted from when a request was due; half are answered within {:.2} ms; p99 of a queue that \
             is as busy and delayed by nothing but the machine: {:.2} ms on the server's core, {:.2} on the \
             client's",
            of(|round| round.at_70_p50_ms),
            of(|round| round.machine_ms.0),
            of(|round| round.machine_ms.1)
        )),
        Figure::compared(
            "ecdsa-p99-beside-rsa",
            (of(|round| round.beside_ms), of(|round| round.alone_ms)),
            "ms",
            "the same rate alone",
            Goal::ValueMax(5.0),
        )
        .note(format!(
            "at 35 %, with a flood of RSA-2048 beside it: {:.0}/s of it answered",
            of(|round| round.rsa)
        )),
    ])
}

/// One round at maximum rate.
#[derive(Serialize)]
struct Most {
    /// Signatures a second.
    answers: f64,
    /// Processor time of the server for one, µs.
    server_us: f64,
    /// Refusals a second: all that a signature takes but the signature.
    refusals: f64,
    /// Signatures a second of one core by `openssl speed`.
    openssl: f64,
}

impl Most {
    /// Answers a second if two cores did nothing but what a refusal takes and what openssl takes.
    fn ceiling(&self) -> f64 {
        1.0 / (1.0 / self.refusals + 1.0 / (2.0 * self.openssl))
    }
}

/// One round of latencies: the 99th percentile, ms, where the name says no other.
#[derive(Serialize)]
struct Latencies {
    /// Signatures a second at most.
    most: f64,
    at_70_p50_ms: f64,
    at_70_ms: f64,
    /// A queue as busy that nothing delays but the machine, on the server's core and on the
    /// client's.
    machine_ms: (f64, f64),
    alone_ms: f64,
    beside_ms: f64,
    /// RSA answers per second during that.
    rsa: f64,
}

impl Site {
    pub(super) fn start(run: &Run, cores: Cores) -> anyhow::Result<Self> {
        let directory = run.servers.directory("keyserver")?;
        let stored = run.servers.database(&["--memory", "64MiB"], Cores::Any)?;
        let database = format!("redis://{}", stored.server.address);
        prepare(&directory)?;
        let vault = ["--database", &database, "--kek-file", "kek"];
        let mut import = run.servers.enroute_in(&directory);
        import.args(["keyserver", "import"]).args(vault).args(["ecdsa.key", "rsa.key"]);
        let ids = output(&mut import)?;
        let mut ids = ids.lines().map(|line| line.chars().take(64).collect::<String>());
        let (ecdsa, rsa) = ids.next().zip(ids.next()).context("import printed no two ids")?;
        // By name, so that another key is refused before anything is done for it.
        fs::write(directory.join("policy.toml"), policy(&format!("\"{ecdsa}\", \"{rsa}\"")))?;
        let mut serve = run.servers.enroute_in(&directory);
        serve.args(["keyserver", "serve", "--listen", "127.0.0.1:0"]).args(vault);
        serve.args(["--certificate", "localhost.pem", "--key", "localhost.key"]);
        serve.args([
            "--edge-authorities",
            "ca.pem",
            "--policy",
            "policy.toml",
            "--audit",
            "audit.log",
        ]);
        let server = Server::start_and_ask(&mut serve, cores, &directory.join("log"))?;
        let client_threads = if cores == Cores::Any { "2" } else { "1" };
        Ok(Self { directory, server, _database: stored, client_threads, ecdsa, rsa })
    }

    /// ECDSA signatures a second at most, and processor time of the server for one, µs.
    pub(super) fn signatures(&self, run: &Run) -> anyhow::Result<(f64, f64)> {
        let before = self.server.cpu_us()?;
        let report = self.load(run, &self.ecdsa, ECDSA, &["--outstanding", OUTSTANDING])?;
        let answers = number(&report, "per_second")?;
        // A tenth to warm up is not counted in the rate.
        let answered = answers * run.round().as_secs_f64() * 1.1;
        Ok((answers, (self.server.cpu_us()? - before) / answered))
    }

    /// Maximum rates, all three in each round.
    fn most(&self, run: &Run) -> anyhow::Result<Vec<Most>> {
        let options = ["--outstanding", OUTSTANDING];
        let mut rounds = Vec::new();
        for round in 0..run.rounds {
            let (answers, server_us) = self.signatures(run)?;
            let report = self.load(run, &"0".repeat(64), ECDSA, &options)?;
            ensure!(report["refusal"] == "request denied", "not denied: {report}");
            let refusals = number(&report, "refused_per_second")?;
            let mut command = Command::new("openssl");
            command.args(["speed", "-mr", "-seconds", "1", "ecdsap256"]);
            let openssl = rate(&output_on(SERVER, &mut command)?, "+F4:")?;
            run.show(&format!("round {}: {answers:.0}/s", round + 1), 0.4);
            rounds.push(Most { answers, server_us, refusals, openssl });
            run.keep("ecdsa-two-cores", &rounds)?;
        }
        Ok(rounds)
    }

    /// In each round the maximum rate, then latencies at shares of it.
    fn latencies(&self, run: &Run) -> anyhow::Result<Vec<Latencies>> {
        let mut rounds = Vec::new();
        for round in 0..run.rounds {
            let options = ["--outstanding", OUTSTANDING];
            let most = number(&self.load(run, &self.ecdsa, ECDSA, &options)?, "per_second")?;
            let at = |share: f64| {
                let rate = format!("{:.0}", most * share);
                let options = ["--rate", &rate, "--outstanding", OUTSTANDING_MAX];
                self.load(run, &self.ecdsa, ECDSA, &options)
            };
            let at_70 = at(LOAD)?;
            let (at_70_p50_ms, at_70_ms) = (number(&at_70, "p50_ms")?, number(&at_70, "p99_ms")?);
            let machine_ms = noise::waits_at_load(run.round(), LOAD, 0.99)?;
            let alone_ms = number(&at(LOAD / 2.0)?, "p99_ms")?;
            // The flood uses the capacity that ECDSA leaves.
            let flood = self
                .loader(run, &self.rsa, RSA, run.round() * 2, &["--outstanding", "64"])
                .stdout(Stdio::piped())
                .spawn()?;
            let beside_ms = number(&at(LOAD / 2.0)?, "p99_ms")?;
            let flooded: Value = serde_json::from_slice(&flood.wait_with_output()?.stdout)?;
            let rsa = number(&flooded, "per_second")?;
            let share = (round + 1) as f64 / run.rounds as f64;
            run.show(&format!("round {}: p99 {at_70_ms:.1} ms", round + 1), share);
            rounds.push(Latencies {
                most,
                at_70_p50_ms,
                at_70_ms,
                machine_ms,
                alone_ms,
                beside_ms,
                rsa,
            });
            run.keep("ecdsa-p99", &rounds)?;
        }
        Ok(rounds)
    }

    fn loader(
        &self,
        run: &Run,
        spki: &str,
        scheme: &str,
        time: Duration,
        options: &[&str],
    ) -> Command {
        let mut command = run.servers.enroute_in(&self.directory);
        command.args(["keyserver", "load", "--server-name", "localhost"]);
        command.args(["--authorities", "ca.pem", "--server", &self.server.address.to_string()]);
        command.args(["--certificate", "edge1.example.pem", "--key", "edge1.example.key"]);
        command.args(["--spki", spki, "--scheme", scheme, "--connections", "4"]);
        command.args(["--threads", self.client_threads]);
        command.args(["--seconds", &time.as_secs_f64().to_string()]).args(options);
        command
    }

    fn load(&self, run: &Run, spki: &str, scheme: &str, options: &[&str]) -> anyhow::Result<Value> {
        let mut command = self.loader(run, spki, scheme, run.round(), options);
        let report: Value = serde_json::from_str(&output(&mut command)?)?;
        let alike = report["refusal"].is_null() || report["per_second"] == 0.0;
        ensure!(report["errors"] == 0 && alike, "the key server does not answer all: {report}");
        Ok(report)
    }
}

/// Authority, certificates and keys, by openssl.
fn prepare(directory: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("sh");
    output(command.args(["-ec", PREPARE]).current_dir(directory))?;
    Ok(())
}

fn policy(keys: &str) -> String {
    format!(
        "[[edge]]\nname = \"edge1.example\"\n[[edge.allow]]\nkeys = [{keys}]\n\
         methods = [\"CertificateVerify\"]\n"
    )
}

const PREPARE: &str = "\
ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $ec -days 2 -keyout ca.key -out ca.pem -subj /CN=ca -addext basicConstraints=critical,CA:TRUE
for name in localhost edge1.example; do
    echo subjectAltName=DNS:$name >extensions
    openssl req $ec -keyout $name.key -out $name.csr -subj /CN=$name
    openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
        -extfile extensions -out $name.pem
done
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ecdsa.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key
(umask 077; openssl rand -hex 32 >kek)";

fn number(report: &Value, name: &str) -> anyhow::Result<f64> {
    report[name].as_f64().with_context(|| format!("no {name} in {report}"))
}

fn output_on(cores: Cores, command: &mut Command) -> anyhow::Result<String> {
    process::on(cores, || output(command))?
}

/// Output of a command. On failure the error contains the output.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! A run as one HTML page that plays it; the page has no external parts.

use std::{fs, iter, path::Path, process::Command};

use ::fabric::{Followed, Place, Sample, Step, workload::Protocol};
use anyhow::Context;
use serde_json::{Value, json};

use super::{
    experiment::{Experiment, Outcome},
    results::Record,
};

/// The page, with a placeholder for the run.
const PAGE: &str = include_str!("page.html");

/// Number of frames of one run.
const FRAMES: u64 = 200;

/// Approximate number of packets of one run that are followed.
const FOLLOWED: u64 = 400;

/// Makes `experiment` record the data of the page.
pub fn prepare(experiment: &mut Experiment) {
    let starts = experiment.workload.flows.iter().map(|flow| flow.start_ns);
    experiment.config.sample_interval_ns = (starts.max().unwrap_or(0) / FRAMES).max(1);
    // Packets of a flow: its handshake and end, a segment for each kilobyte, and half as many
    // acknowledgements.
    let packets = |bytes: u64| match experiment.workload.protocol {
        Protocol::Tcp => 7 + bytes * 3 / 2_048,
        Protocol::Udp => 1,
    };
    let all: u64 = experiment.workload.flows.iter().map(|flow| packets(flow.bytes)).sum();
    // Odd, so that all of several alternating senders are sampled.
    experiment.config.follow_every = (all / FOLLOWED) | 1;
}

/// Writes the page.
///
/// # Errors
///
/// An error of the file system.
pub fn write(experiment: &Experiment, outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    let topology = &experiment.topology;
    let gateways: Vec<_> =
        topology.gateways.iter().map(|rack| (rack.rack, rack.gateways)).collect();
    let run = json!({
        "inputs": experiment.inputs,
        "results": Record::new(experiment, outcome).results,
        "topology": {
            "pods": topology.pods,
            "racks_per_pod": topology.racks_per_pod,
            "spines_per_pod": topology.spines_per_pod,
            "cores": topology.cores,
            "gateways": gateways,
        },
        "samples": samples(&outcome.metrics.samples),
        "packets": packets(&outcome.metrics.followed),
    });
    // `</` would end the script.
    let run = run.to_string().replace("</", "<\\/");
    fs::write(path, PAGE.replace("/*RUN*/null", &run))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the change within each interval, computed from running totals.
fn samples(totals: &[Sample]) -> Value {
    let mut moments = json!({
        "at_ns": [], "sent": [], "gateway": [], "misdelivered": [], "packets": [], "hits": [],
    });
    let mut push = |name: &str, value: Value| {
        if let Some(list) = moments[name].as_array_mut() {
            list.push(value);
        }
    };
    let mut before = Sample::default();
    // Late handshakes leave seconds without events, which are skipped.
    let happens = |now: &Sample, before: &Sample| {
        (now.sent, now.received, &now.switches) != (before.sent, before.received, &before.switches)
    };
    for now in totals {
        if before.at_ns > 0 && !happens(now, &before) {
            continue;
        }
        push("at_ns", now.at_ns.into());
        push("sent", (now.sent - before.sent).into());
        push("gateway", (now.gateway_packets - before.gateway_packets).into());
        push("misdelivered", (now.misdelivered - before.misdelivered).into());
        let earlier = before.switches.iter().copied().chain(iter::repeat((0, 0)));
        let (packets, hits): (Vec<u64>, Vec<u64>) = now
            .switches
            .iter()
            .zip(earlier)
            .map(|(now, before)| (now.0 - before.0, now.1 - before.1))
            .unzip();
        push("packets", packets.into());
        push("hits", hits.into());
        before = now.clone();
    }
    moments
}

/// Followed packets: each place, with the event there.
fn packets(followed: &[Followed]) -> Value {
    let step = |step: &Step, resolved_before: bool| {
        let found = step.resolved && !resolved_before;
        match step.place {
            Place::Switch(switch) => json!({
                "at_ns": step.at_ns, "switch": switch, "what": if found { "hit" } else { "" },
            }),
            Place::Gateway(gateway) => {
                json!({ "at_ns": step.at_ns, "what": format!("gateway {gateway}") })
            }
            Place::Server(server) => {
                json!({ "at_ns": step.at_ns, "what": format!("server {server}") })
            }
        }
    };
    let packet = |packet: &Followed| {
        let before = iter::once(packet.steps.first().is_some_and(|first| first.resolved))
            .chain(packet.steps.iter().map(|step| step.resolved));
        let steps: Vec<Value> =
            packet.steps.iter().zip(before).map(|(each, before)| step(each, before)).collect();
        let by_gateway = packet.steps.iter().any(|step| matches!(step.place, Place::Gateway(_)));
        let hit = steps.iter().any(|step| step["what"] == "hit");
        json!({
            "flow": packet.flow, "source": packet.source, "destination": packet.destination,
            "way": if by_gateway { "gateway" } else if hit { "hit" } else { "direct" },
            "steps": steps,
        })
    };
    followed.iter().map(packet).collect()
}

/// Shows the page in the user's browser.
///
/// # Errors
///
/// `xdg-open` is missing or failed.
pub fn open(path: &Path) -> anyhow::Result<()> {
    let status = Command::new("xdg-open").arg(path).status();
    let status = status.context("cannot start xdg-open; open the page by hand")?;
    anyhow::ensure!(status.success(), "xdg-open failed; open the page by hand");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_which_nothing_happens_are_not_played() {
        let total = |at_ns, sent| Sample { at_ns, sent, ..Sample::default() };
        let totals = [total(0, 0), total(10, 3), total(20, 3), total(30, 3), total(40, 5)];
        let moments = samples(&totals);
        assert_eq!(moments["at_ns"], json!([0, 10, 40]));
        assert_eq!(moments["sent"], json!([0, 3, 2]));
    }
}

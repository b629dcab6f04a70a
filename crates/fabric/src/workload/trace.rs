//! Traces as text: read, and written so that they read the same again.
//!
//! One row is `source VM,destination VM,start in ns,flow id,bytes`, without a header: the format of
//! the paper's artifact. A row is a TCP flow, or in a UDP trace one datagram. A first line `#
//! protocol=udp` marks a UDP trace; the artifact's files have no such line and are TCP unless the
//! caller says otherwise. A flow id belongs to one flow: it decides the flow's gateway.

use std::io::{self, Write};

use super::{FLOW_BYTES_MAX, Flow, Protocol, Workload};

/// Longest line that is read, in bytes: five numbers fit many times over.
pub const LINE_BYTES_MAX: usize = 256;

/// Latest start: an hour of simulated time.
pub const START_NS_MAX: u64 = 3_600_000_000_000;

/// Maximum number of rows of one trace.
pub const ROWS_MAX: usize = 1 << 28;

const PROTOCOL: &str = "# protocol=";

/// A syntax error in a trace, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: expected {expected}, got {got:?}")]
pub struct TraceError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The expected text.
    pub expected: String,
    /// The text found.
    pub got: String,
}

impl Workload {
    /// Reads a trace, unpacked, of a fabric of `vms` VMs. `file` is its name in errors, `protocol`
    /// what it is carried by if the trace itself does not say.
    pub fn parse(
        text: &[u8],
        file: &str,
        protocol: Protocol,
        vms: u32,
    ) -> Result<Self, TraceError> {
        let mut workload = Self { protocol, flows: Vec::with_capacity(text.len() / 24) };
        for (index, bytes) in text.split(|&byte| byte == b'\n').enumerate() {
            let fail = |expected: String, got: &str| TraceError {
                file: file.to_owned(),
                line: index + 1,
                expected,
                got: got.chars().take(80).collect(),
            };
            let line = (bytes.len() <= LINE_BYTES_MAX)
                .then(|| std::str::from_utf8(bytes).ok())
                .flatten()
                .ok_or_else(|| {
                    let expected = format!("a line of text of at most {LINE_BYTES_MAX} bytes");
                    fail(expected, &String::from_utf8_lossy(&bytes[..bytes.len().min(80)]))
                })?
                .trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix(PROTOCOL) {
                workload.protocol = Protocol::named(name)
                    .ok_or_else(|| fail(format!("{PROTOCOL}tcp or {PROTOCOL}udp"), line))?;
                continue;
            }
            if workload.flows.len() == ROWS_MAX {
                return Err(fail(format!("at most {ROWS_MAX} rows"), line));
            }
            let flow = parse_row(line, vms).map_err(|expected| fail(expected, line))?;
            workload.flows.push(flow);
        }
        if workload.flows.is_empty() {
            let expected = "at least one row `source,destination,start_ns,flow,bytes`".to_owned();
            let (file, got) = (file.to_owned(), "an empty trace".to_owned());
            return Err(TraceError { file, line: 1, expected, got });
        }
        match workload.reused_id() {
            None => Ok(workload),
            Some((row, expected)) => Err(TraceError {
                file: file.to_owned(),
                line: Self::line_of(text, row).unwrap_or_default(),
                expected,
                got: format!("flow id {} again", workload.flows[row].id),
            }),
        }
    }

    /// The first row whose flow id belongs to another flow, and what was expected there.
    fn reused_id(&self) -> Option<(usize, String)> {
        let mut rows: Vec<usize> = (0..self.flows.len()).collect();
        rows.sort_unstable_by_key(|&row| (self.flows[row].id, row));
        let ends = |flow: &Flow| (flow.source, flow.destination);
        let same_id = rows.chunk_by(|&one, &next| self.flows[one].id == self.flows[next].id);
        let reused = same_id.filter_map(|rows| {
            let (&first, others) = rows.split_first()?;
            match self.protocol {
                Protocol::Tcp => others.first().copied(),
                Protocol::Udp => {
                    let first = ends(&self.flows[first]);
                    others.iter().copied().find(|&row| ends(&self.flows[row]) != first)
                }
            }
        });
        let expected = match self.protocol {
            Protocol::Tcp => {
                "a flow id of its own in each row of a TCP trace (the rows of a UDP trace are the \
                 datagrams of flows: `--protocol udp`)"
            }
            Protocol::Udp => "the same two VMs in all datagrams of a flow",
        };
        reused.min().map(|row| (row, expected.to_owned()))
    }

    /// The line, counted from 1, of a row, counted from 0, in a trace that [`Workload::parse`]
    /// takes.
    #[must_use]
    pub fn line_of(text: &[u8], row: usize) -> Option<usize> {
        let is_row = |line: &[u8]| {
            let line = line.trim_ascii();
            !line.is_empty() && !line.starts_with(PROTOCOL.as_bytes())
        };
        let mut lines = (1..).zip(text.split(|&byte| byte == b'\n'));
        lines.by_ref().filter(|(_, line)| is_row(line)).nth(row).map(|(number, _)| number)
    }

    /// Writes a trace that [`Workload::parse`] reads back as the same workload.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{PROTOCOL}{}", self.protocol.name())?;
        for flow in &self.flows {
            let Flow { source, destination, start_ns, id, bytes } = flow;
            writeln!(out, "{source},{destination},{start_ns},{id},{bytes}")?;
        }
        Ok(())
    }
}

/// One row, or what was expected instead.
fn parse_row(line: &str, vms: u32) -> Result<Flow, String> {
    let mut fields = line.split(',').map(str::trim);
    let mut field = |name: &str| {
        fields.next().ok_or_else(|| {
            format!("five fields `source,destination,start_ns,flow,bytes`, {name} is missing")
        })
    };
    let vm = |text: &str, name: &str| match text.parse::<u32>() {
        Ok(vm) if vm < vms => Ok(vm),
        _ => Err(format!("{name} VM as a whole number below {vms}, the VMs of the topology")),
    };
    let source = vm(field("source")?, "the source")?;
    let destination = vm(field("destination")?, "the destination")?;
    let start_ns = whole(field("start_ns")?, START_NS_MAX)
        .ok_or_else(|| format!("the start in nanoseconds, a number from 0 to {START_NS_MAX}"))?;
    let id = field("flow")?
        .parse::<u32>()
        .map_err(|_| "the flow's id, a whole number below 2^32".to_owned())?;
    let bytes = whole(field("bytes")?, FLOW_BYTES_MAX)
        .ok_or_else(|| format!("the size in bytes, a number from 0 to {FLOW_BYTES_MAX}"))?;
    if fields.next().is_some() {
        return Err("five fields `source,destination,start_ns,flow,bytes`, not more".to_owned());
    }
    if source == destination {
        return Err("two different VMs: a VM sends nothing to itself over the fabric".to_owned());
    }
    Ok(Flow { source, destination, start_ns, id, bytes })
}

/// A count that some traces write with decimals (`1000.0`); the fraction is dropped.
fn whole(text: &str, most: u64) -> Option<u64> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if integer.is_empty() || !digits(integer) || !digits(fraction) {
        return None;
    }
    integer.parse().ok().filter(|&number| number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMS: u32 = 10_240;

    fn parse(text: &str) -> Result<Workload, TraceError> {
        Workload::parse(text.as_bytes(), "a.csv", Protocol::Tcp, VMS)
    }

    #[test]
    fn the_artifacts_rows_are_read() {
        let workload = parse("7455,5830,146,1,122\r\n0,5200,1000.0,5041,64\n").unwrap();
        let first = Flow { source: 7455, destination: 5830, start_ns: 146, id: 1, bytes: 122 };
        let second = Flow { source: 0, destination: 5200, start_ns: 1000, id: 5041, bytes: 64 };
        assert_eq!(workload.flows, [first, second]);
        assert_eq!(workload.protocol, Protocol::Tcp);
    }

    #[test]
    fn a_rows_line_counts_what_is_no_row() {
        let text = b"# protocol=udp\n1,2,3,4,5\r\n\r\n  \n6,7,8,9,10";
        assert_eq!(Workload::line_of(text, 0), Some(2));
        assert_eq!(Workload::line_of(text, 1), Some(5));
        assert_eq!(Workload::line_of(text, 2), None);
    }

    #[test]
    fn what_is_written_is_read_the_same() {
        let flows = vec![
            Flow { source: 1, destination: 2, start_ns: 3, id: 4, bytes: 5 },
            Flow { source: 10_239, destination: 0, start_ns: START_NS_MAX, id: u32::MAX, bytes: 0 },
        ];
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let workload = Workload { protocol, flows: flows.clone() };
            let mut text = Vec::new();
            workload.write(&mut text).unwrap();
            let read = Workload::parse(&text, "x", Protocol::Tcp, VMS).unwrap();
            assert_eq!(read, workload);
        }
    }

    #[test]
    fn a_bad_line_is_named_with_what_was_expected() {
        let cases = [
            ("1,2,3,4,5\n1,2,3,4\n", 2, "bytes is missing"),
            ("1,2,3,4,5,6\n", 1, "not more"),
            ("x,2,3,4,5\n", 1, "the source VM"),
            ("1,10240,3,4,5\n", 1, "the destination VM as a whole number below 10240"),
            ("1,2,-3,4,5\n", 1, "the start in nanoseconds"),
            ("1,2,1e3,4,5\n", 1, "the start in nanoseconds"),
            ("1,2,3,4294967296,5\n", 1, "the flow's id"),
            ("1,2,3,4,five\n", 1, "the size in bytes"),
            ("1,1,3,4,5\n", 1, "two different VMs"),
            ("# protocol=sctp\n", 1, "# protocol=tcp or # protocol=udp"),
            ("1,2,3,4,5\n\n1,2,4,5,5\n6,7,8,4,9\n1,2,9,5,5\n", 4, "a flow id of its own"),
            ("# protocol=udp\n1,2,3,4,5\n1,2,4,4,5\n2,1,5,4,5\n", 4, "the same two VMs"),
            ("\n\n", 1, "at least one row"),
        ];
        for (text, line, expected) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!((error.file.as_str(), error.line), ("a.csv", line), "{text:?}");
            assert!(error.expected.contains(expected), "{text:?}: {error}");
        }
        let long = format!("1,2,3,4,{}\n", "5".repeat(LINE_BYTES_MAX));
        assert!(parse(&long).unwrap_err().expected.contains("256 bytes"));
        assert_eq!(parse("1,2\n").unwrap_err().to_string().split(": ").next(), Some("a.csv:1"));
    }
}

//! `enroute db advise`: what a running database would do with more memory, or with less.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use wire::resp::request;

const EXAMPLES: &str = "\
EXAMPLES:
  All sizes, and the smallest with a hit ratio of at least 95 %:
    enroute db advise --connect 127.0.0.1:6379 --hit-ratio 0.95

  All sizes, and the smallest with an average disk wait of at most 20 µs:
    enroute db advise --latency 20us";

/// Print the hit ratio and disk wait that a running database would have with other memory sizes
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Address of the database; TLS is not supported
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    connect: SocketAddr,

    /// Also print the smallest size with at least this hit ratio, from 0 to 1, for example 0.95
    #[arg(long, value_name = "SHARE")]
    hit_ratio: Option<f64>,

    /// Also print the smallest size with at most this average wait for the disk, for example 50us
    /// or 1ms
    #[arg(long, value_name = "TIME", conflicts_with = "hit_ratio")]
    latency: Option<String>,

    /// Password of the user `default`. `ps` shows it to every user of the machine
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
}

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[allow(clippy::print_stdout, reason = "the advice is what was asked for")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let address = arguments.connect;
    let stream = TcpStream::connect_timeout(&address, PATIENCE).with_context(|| {
        format!("cannot connect to {address}; check that `enroute db` runs there")
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    if let Some(password) = &arguments.password {
        ask(&mut reader, &["AUTH", password])?;
    }
    let share = arguments.hit_ratio.map(|share| share.to_string());
    let mut words = vec!["RESCALE", "ADVISE"];
    words.extend(share.as_deref().or(arguments.latency.as_deref()));
    print!("{}", ask(&mut reader, &words)?);
    Ok(())
}

/// Asks and returns the text of the answer.
fn ask(reader: &mut BufReader<TcpStream>, words: &[&str]) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    request::write_command(&mut bytes, words);
    reader.get_mut().write_all(&bytes)?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    if let Some(length) = line.strip_prefix('$') {
        let length = length.parse::<usize>().ok().filter(|&length| length <= ANSWER_BYTES_MAX);
        let mut text =
            vec![0; length.context("expected a reply of up to 1 MiB, got another length")? + 2];
        reader.read_exact(&mut text)?;
        text.truncate(text.len() - 2);
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    if let Some(error) = line.strip_prefix('-') {
        bail!("{error}");
    }
    Ok(line.to_owned())
}

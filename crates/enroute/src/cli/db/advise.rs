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
  What every size would give, and the smallest that answers 95 of 100 lookups from memory:
    enroute db advise --connect 127.0.0.1:6379 --hit-ratio 0.95

  The smallest of which lookups wait 20 µs for the disk on average:
    enroute db advise --latency 20us";

/// Ask a running database what every memory size would give
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Where it listens; it must ask for no encryption
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    connect: SocketAddr,

    /// Name the smallest size that answers this share of lookups from memory
    #[arg(long, value_name = "SHARE")]
    hit_ratio: Option<f64>,

    /// Name the smallest size of which lookups wait no longer for the disk on average: 50us, 1ms
    #[arg(long, value_name = "TIME", conflicts_with = "hit_ratio")]
    latency: Option<String>,

    /// Password of the default user
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
    let stream = TcpStream::connect_timeout(&address, PATIENCE)
        .with_context(|| format!("cannot reach {address}: is `enroute db` running there?"))?;
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
        let mut text = vec![0; length.context("expected the length of an answer")? + 2];
        reader.read_exact(&mut text)?;
        text.truncate(text.len() - 2);
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    if let Some(error) = line.strip_prefix('-') {
        bail!("{error}");
    }
    Ok(line.to_owned())
}

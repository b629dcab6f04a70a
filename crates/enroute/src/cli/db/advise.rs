//! `enroute db advise`: hit ratio and disk wait of a running database at other memory sizes.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use wire::resp::{Limits, Reply};

use resp_client::blocking::Connection;

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
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
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
const REPLY_BYTES_MAX: usize = 1 << 20;

#[allow(clippy::print_stdout, reason = "the advice is what was asked for")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let address = arguments.connect;
    let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, ..Limits::default() };
    let mut database = Connection::open(address, PATIENCE, &limits).with_context(|| {
        format!("cannot connect to {address}; check that `enroute db` runs there")
    })?;
    if let Some(password) = &arguments.password {
        database.ask(&["AUTH", password])?;
    }
    let share = arguments.hit_ratio.map(|share| share.to_string());
    let mut words = vec!["RESCALE", "ADVISE"];
    words.extend(share.as_deref().or(arguments.latency.as_deref()));
    match database.ask(&words)? {
        Reply::Bytes(advice) => print!("{}", String::from_utf8_lossy(&advice)),
        other => bail!("{address}: RESCALE ADVISE: expected a text, got {other:?}"),
    }
    Ok(())
}

//! `enroute explain`: why a read of a running cache is a hit or not.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Context;
use clap::Args;

use super::admin::post;
use crate::admin::Read;

const EXAMPLES: &str = "\
EXAMPLES:
  A key of Redis, and several at once:
    enroute explain --listen 127.0.0.1:6380 GET user:42
    enroute explain --listen 127.0.0.1:6380 --database 3 MGET user:42 user:43

  A record of MongoDB, with the projection that the application uses:
    enroute explain --listen 127.0.0.1:27018 find shop.items '{\"_id\": 42}' '{\"name\": 1}'
    enroute explain --listen 127.0.0.1:27018 find shop.items '{\"_id\": {\"$oid\": \"…\"}}'

  An item of memcached, from a cache with another admin address:
    enroute explain --admin 10.0.0.1:9900 --listen 10.0.0.1:11210 get user:42

The answer says whether the read is a hit and for which clients, or why it is a miss; the age of the
entry, the staleness bound, and which writes drop the entry. The read is not carried out, the cache
is not changed, and no value is shown. Users and rights are shown as hashes.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Address of the listener that clients connect to, as `enroute cache` prints it, with or
    /// without mongodb://, redis:// or memcached:// [default: the only listener]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Address of the cache's admin endpoint
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9900")]
    admin: String,

    /// Redis: number of the database that the client has selected
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    database: u32,

    /// The read: a command of Redis; `find DATABASE.COLLECTION FILTER [PROJECTION]` of MongoDB,
    /// with JSON; or get, gets or mg of memcached
    #[arg(
        required = true,
        value_name = "REQUEST",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    request: Vec<String>,
}

#[allow(clippy::print_stdout, reason = "the explanation is the result")]
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { listen, admin, database, request } = arguments;
    let listen = listen.as_deref().map(resolved).transpose()?;
    let read = Read { listen, database: *database, request: request.clone() };
    print!("{}", String::from_utf8_lossy(&post(admin, "/explain", &read)?));
    Ok(())
}

/// The address in `listen` as the cache knows it: no scheme, no options, no host name.
fn resolved(listen: &str) -> anyhow::Result<String> {
    let (_, place) = listen.split_once("://").unwrap_or(("", listen));
    let (place, _) = place.split_once('/').unwrap_or((place, ""));
    if place.parse::<SocketAddr>().is_ok() || place.contains(' ') {
        return Ok(place.to_owned());
    }
    let mut addresses = place
        .to_socket_addrs()
        .with_context(|| format!("--listen {listen}: expected HOST:PORT of the listener"))?;
    let address = addresses.next().with_context(|| format!("{place} resolves to no address"))?;
    Ok(address.to_string())
}

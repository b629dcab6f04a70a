//! Commands that the agent answers: everything about the client's connection.

use acl::{Acl, HELLO_NO_AUTH, Identity};
use wire::resp::{Request, Version, response};

use super::client::Client;
use crate::slot::{SLOTS, Slot};

/// Version of Redis that the agent reports to clients.
const SERVER_VERSION: &str = "7.0.0";
const NAME_BYTES_MAX: usize = 256;

/// The answer to a command of [`super::route::Route::Here`].
pub(super) fn answer(
    client: &mut Client,
    command: &str,
    request: &Request<'_>,
    users: &Acl,
) -> Vec<u8> {
    let mut out = Vec::new();
    let argument = |at: usize| request.argument(at).unwrap_or_default();
    match command {
        // In this state every reply has the form of a message.
        "ping" if client.version == Version::Resp2 && client.is_subscribed() => {
            response::write_array_header(&mut out, 2);
            response::write_bulk(&mut out, b"pong");
            response::write_bulk(&mut out, argument(1));
        }
        "ping" if request.len() <= 1 => response::write_simple(&mut out, b"PONG"),
        "ping" | "echo" if request.len() == 2 => response::write_bulk(&mut out, argument(1)),
        "hello" => hello(client, request, users, &mut out),
        "select" if argument(1) == b"0" => response::write_simple(&mut out, b"OK"),
        "select" => error(&mut out, "ERR SELECT: expected database 0, the only one of a cluster"),
        "auth" => {
            let arguments: Vec<&[u8]> = request.arguments().skip(1).collect();
            match log_in(client, &arguments, users) {
                Ok(()) => response::write_simple(&mut out, b"OK"),
                Err(why) => error(&mut out, why),
            }
        }
        "acl|whoami" => response::write_bulk(&mut out, client.identity.user.as_bytes()),
        "quit" => {
            client.closing = true;
            response::write_simple(&mut out, b"OK");
        }
        "reset" => {
            (client.version, client.transaction) = (Version::Resp2, None);
            (client.identity, client.name) = (Identity::new(users), Vec::new());
            response::write_simple(&mut out, b"RESET");
        }
        // Replicas are not used, so there is nothing to switch.
        "readonly" | "readwrite" | "unwatch" => response::write_simple(&mut out, b"OK"),
        "client|setinfo" => response::write_simple(&mut out, b"OK"),
        "client|no-evict" | "client|no-touch" if request.len() == 3 => {
            response::write_simple(&mut out, b"OK");
        }
        "client|setname" if request.len() == 3 && argument(2).len() <= NAME_BYTES_MAX => {
            client.name = argument(2).to_vec();
            response::write_simple(&mut out, b"OK");
        }
        "client|getname" => response::write_bulk(&mut out, &client.name),
        "client|id" => response::write_integer(&mut out, client.id as i64),
        "cluster|slots" => slots(client, &mut out),
        "cluster|shards" => shards(client, &mut out),
        "cluster|nodes" => response::write_bulk(&mut out, nodes(client).as_bytes()),
        "cluster|info" => response::write_bulk(&mut out, INFO.as_bytes()),
        "cluster|myid" => response::write_bulk(&mut out, id(client).as_bytes()),
        "cluster|keyslot" if request.len() == 3 => {
            response::write_integer(&mut out, Slot::of(argument(2)).number() as i64);
        }
        _ if request.len() < 2 || matches!(command, "ping" | "echo") => {
            error(&mut out, &format!("ERR wrong number of arguments for '{command}' command"));
        }
        _ => error(
            &mut out,
            &format!(
                "ERR the agent does not support {}; send it to a node",
                command.replace('|', " ").to_uppercase()
            ),
        ),
    }
    out
}

const INFO: &str = "cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:16384\r\n\
    cluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n\
    cluster_known_nodes:1\r\ncluster_size:1\r\n";

fn error(out: &mut Vec<u8>, text: &str) {
    response::write_error(out, text.as_bytes());
}

fn log_in(client: &mut Client, arguments: &[&[u8]], users: &Acl) -> Result<(), &'static str> {
    let (name, user) = users.log_in(arguments)?;
    client.identity.become_user(&name, user);
    Ok(())
}

fn hello(client: &mut Client, request: &Request<'_>, users: &Acl, out: &mut Vec<u8>) {
    let version = match request.argument(1) {
        None => client.version,
        Some(b"2") => Version::Resp2,
        Some(b"3") => Version::Resp3,
        Some(_) => return error(out, "NOPROTO unsupported protocol version"),
    };
    let mut options = request.arguments().skip(2);
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"SETNAME")
            && let Some(name) = options.next().filter(|name| name.len() <= NAME_BYTES_MAX)
        {
            client.name = name.to_vec();
        } else if option.eq_ignore_ascii_case(b"AUTH")
            && let (Some(name), Some(password)) = (options.next(), options.next())
        {
            if let Err(why) = log_in(client, &[name, password], users) {
                return error(out, why);
            }
        } else {
            return error(out, "ERR Syntax error in HELLO");
        }
    }
    if !client.identity.is_let_in() {
        return error(out, HELLO_NO_AUTH);
    }
    client.version = version;
    response::write_map_header(out, 7, version);
    let mut pair = |name: &str, value: &dyn Fn(&mut Vec<u8>)| {
        response::write_bulk(out, name.as_bytes());
        value(out);
    };
    let text =
        |text: &'static str| move |out: &mut Vec<u8>| response::write_bulk(out, text.as_bytes());
    pair("server", &text("redis"));
    pair("version", &text(SERVER_VERSION));
    pair("proto", &|out| {
        response::write_integer(out, if version == Version::Resp3 { 3 } else { 2 });
    });
    pair("id", &|out| response::write_integer(out, client.id as i64));
    pair("mode", &text("cluster"));
    pair("role", &text("master"));
    pair("modules", &|out| response::write_array_header(out, 0));
}

/// Forty hexadecimal digits that stay the same for the same address.
fn id(client: &Client) -> String {
    let text = client.address.to_string();
    let hash = |seed: u64| {
        text.bytes()
            .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    format!("{:016x}{:016x}{:08x}", hash(0xcbf2_9ce4_8422_2325), hash(1), hash(2) as u32)
}

/// A cluster of one node, the agent, so that cluster-aware clients stay with it.
fn slots(client: &Client, out: &mut Vec<u8>) {
    response::write_array_header(out, 1);
    response::write_array_header(out, 3);
    response::write_integer(out, 0);
    response::write_integer(out, SLOTS as i64 - 1);
    response::write_array_header(out, 3);
    response::write_bulk(out, client.address.ip().to_string().as_bytes());
    response::write_integer(out, client.address.port().into());
    response::write_bulk(out, id(client).as_bytes());
}

fn shards(client: &Client, out: &mut Vec<u8>) {
    let ip = client.address.ip().to_string();
    response::write_array_header(out, 1);
    response::write_map_header(out, 2, client.version);
    response::write_bulk(out, b"slots");
    response::write_array_header(out, 2);
    response::write_integer(out, 0);
    response::write_integer(out, SLOTS as i64 - 1);
    response::write_bulk(out, b"nodes");
    response::write_array_header(out, 1);
    response::write_map_header(out, 7, client.version);
    for (name, value) in [("id", id(client)), ("ip", ip.clone()), ("endpoint", ip)] {
        response::write_bulk(out, name.as_bytes());
        response::write_bulk(out, value.as_bytes());
    }
    response::write_bulk(out, b"port");
    response::write_integer(out, client.address.port().into());
    response::write_bulk(out, b"role");
    response::write_bulk(out, b"master");
    response::write_bulk(out, b"replication-offset");
    response::write_integer(out, 0);
    response::write_bulk(out, b"health");
    response::write_bulk(out, b"online");
}

fn nodes(client: &Client) -> String {
    let (id, at, port) = (id(client), client.address, client.address.port());
    format!("{id} {at}@{port} myself,master - 0 0 1 connected 0-{}\n", SLOTS - 1)
}

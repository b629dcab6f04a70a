//! A client of a cluster that follows redirections, at its nodes or at the listeners before them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use redis::{Connection, Value};

/// Maximum number of redirections of one command.
const REDIRECTIONS_MAX: usize = 5;
/// Longer than any node is stopped.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Routed(HashMap<SocketAddr, Connection>);

/// What became of a command.
pub enum Answer {
    Reply(Value),
    /// An error reply, or no connection: it has not been executed.
    Refused,
    /// The connection was lost: it may have been executed.
    Unknown,
}

impl Routed {
    /// Sends a command to the node, and to where it is redirected.
    pub fn ask(&mut self, mut node: SocketAddr, command: &redis::Cmd) -> Answer {
        let mut asks = false;
        for _ in 0..REDIRECTIONS_MAX {
            let Some(mut connection) = self.0.remove(&node).or_else(|| connect(node)) else {
                return Answer::Refused;
            };
            if std::mem::take(&mut asks) && redis::cmd("ASKING").exec(&mut connection).is_err() {
                return Answer::Refused;
            }
            if connection.send_packed_command(&command.get_packed_command()).is_err() {
                return Answer::Unknown;
            }
            let Ok(reply) = connection.recv_response().map(Value::extract_error) else {
                return Answer::Unknown;
            };
            self.0.insert(node, connection);
            let error = match reply {
                Ok(reply) => return Answer::Reply(reply),
                Err(error) => error,
            };
            let Some((next, _)) = error.redirect_node() else { return Answer::Refused };
            node = next.parse().expect("an address");
            asks = error.code() == Some("ASK");
        }
        Answer::Refused
    }
}

fn connect(node: SocketAddr) -> Option<Connection> {
    let client = redis::Client::open(format!("redis://{node}/")).ok()?;
    let connection = client.get_connection_with_timeout(TIMEOUT).ok()?;
    connection.set_read_timeout(Some(TIMEOUT)).ok()?;
    Some(connection)
}

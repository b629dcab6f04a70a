//! The steps that read and write the note which lies among a slot's keys while it moves ([`state::note`]). Each is a
//! script: what a node does in one is done before anybody else is served.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use state::{
    migration::{KEYS_MAX, Outcome},
    note::{self, key},
    scripts::{MOVE, OWN, SEND, SETTLE, STABLE, TURN},
    slot::Slot,
};

use wire::resp::Reply;

use super::lease::Actor;
use crate::resp_client::blocking::Connection;

/// How long one MIGRATE may take, in milliseconds: less than a node may take to answer.
const MIGRATE_MS: &str = "1500";
/// How long a node that is to change a slot's owner may wait for an answer of the other: less than a lease has left beside
/// what a step takes.
const BUS_LIMIT: Duration = Duration::from_millis(500);
/// Between two questions whether it still waits, at first; twice as long each time, as many moves may ask one node.
const BUS_PAUSE: Duration = Duration::from_millis(5);
/// What a source's refusal of a MIGRATE begins with that is the target's.
const OF_TARGET: &str = "ERR Target instance replied with error: ";
/// The last commands of connections that may be a MIGRATE's: it says nothing else, in one piece.
const OF_MIGRATE: [&str; 4] = ["NULL", "auth", "select", "restore-asking"];

/// One slot's note, at the nodes of one cluster.
pub(super) struct Note<'a> {
    actor: Actor<'a>,
    slot: Slot,
}

/// Nodes by what SETSLOT calls them: where clients are sent, once they may be and until then.
pub(super) struct Sends<'a> {
    pub(super) to: &'a str,
    pub(super) third: &'a str,
}

impl<'a> Note<'a> {
    pub(super) fn new(actor: Actor<'a>, slot: Slot) -> Self {
        Self { actor, slot }
    }

    /// [`state::migration::Step::Turn`].
    pub(super) fn turn(
        &self,
        source: SocketAddr,
        sends: &Sends<'_>,
        turn: u64,
    ) -> anyhow::Result<Outcome> {
        let (slot, turn) = (self.slot.number().to_string(), turn.to_string());
        let words = [&slot, &key(self.slot), &turn, sends.to, sends.third];
        let noted = done(self.actor.run(source, TURN, &words)?)?;
        let elements = noted.list().iter().filter_map(|word| match word {
            Reply::Bytes(word) => Some(word.as_slice()),
            _ => None,
        });
        let noted = note::Note::read(self.slot, elements).with_context(|| source.to_string())?;
        // Nothing of a batch that is not named is to be dropped.
        let noted = noted.map(|note| Outcome::Noted(note.batch.unwrap_or_default(), note.keys));
        Ok(noted.unwrap_or(Outcome::Done))
    }

    /// [`state::migration::Step::Settle`].
    pub(super) fn settle(
        &self,
        target: SocketAddr,
        batch: u64,
        keys: &[Vec<u8>],
    ) -> anyhow::Result<Outcome> {
        // A new connection: those a MIGRATE opened before are older, and so are known to the node.
        let mut node = self.actor.cluster.connect(target)?;
        fence(&mut node)?;
        let (note, batch) = (key(self.slot), batch.to_string());
        let mut words = vec![note.as_bytes(), batch.as_bytes()];
        words.extend(keys.iter().map(Vec::as_slice));
        done(self.actor.run_at(&mut node, SETTLE, &words)?)?;
        Ok(Outcome::Done)
    }

    /// [`state::migration::Step::Send`].
    pub(super) fn send(&self, source: SocketAddr, to: &str, turn: u64) -> anyhow::Result<Outcome> {
        let (turn, next) = (turn.to_string(), (turn + 1).to_string());
        let words = [&self.slot.number().to_string(), &key(self.slot), &turn, &next, to];
        done(self.actor.run(source, SEND, &words)?)?;
        Ok(Outcome::Done)
    }

    /// [`state::migration::Step::Move`], to the node at `target`.
    pub(super) fn migrate(
        &self,
        source: SocketAddr,
        target: SocketAddr,
        sends: &Sends<'_>,
        turn: u64,
    ) -> anyhow::Result<Outcome> {
        let (slot, note) = (self.slot.number().to_string(), key(self.slot));
        let (turn, next) = (turn.to_string(), (turn + 1).to_string());
        let (ip, port) = (target.ip().to_string(), target.port().to_string());
        // The note is one of them.
        let keys_max = (KEYS_MAX + 1).to_string();
        let words: [&str; 13] = [
            &slot,
            &note,
            &turn,
            &next,
            sends.to,
            sends.third,
            &keys_max,
            &ip,
            &port,
            "",
            "0",
            MIGRATE_MS,
            "REPLACE",
        ];
        let mut words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        if let Some(login) = self.actor.cluster.login() {
            words.extend([&b"AUTH2"[..], &login.user, &login.password]);
        }
        words.push(b"KEYS");
        match self.actor.run(source, MOVE, &words)? {
            Reply::Integer(left) => Ok(Outcome::Left(left.unsigned_abs())),
            Reply::Error(error) => match error.strip_prefix(OF_TARGET) {
                Some(why) => Ok(Outcome::Refused(format!("{target} refuses keys: {why}"))),
                None => bail!("{source} refuses MIGRATE: {error}"),
            },
            other => {
                bail!("{source}: MIGRATE: expected a number of keys or an error, got {other:?}")
            }
        }
    }

    /// [`state::migration::Step::Own`]; `other` is the move's other node.
    pub(super) fn own(
        &self,
        node: SocketAddr,
        owner: &str,
        other: &str,
    ) -> anyhow::Result<Outcome> {
        self.once_answered(node, other, &[owner])
    }

    /// Waits until `node` is owed no answer by `other`: who asks before it is a slot's owner that gives it up leaves the
    /// slot nobody's for a shorter time.
    pub(super) fn answered(&self, node: SocketAddr, other: &str) -> anyhow::Result<Outcome> {
        self.once_answered(node, other, &[])
    }

    fn once_answered(
        &self,
        node: SocketAddr,
        other: &str,
        more: &[&str],
    ) -> anyhow::Result<Outcome> {
        let start = Instant::now();
        let (note, slot) = (key(self.slot), self.slot.number().to_string());
        let words = [&[&note, &slot, other], more].concat();
        let mut pause = BUS_PAUSE;
        while done(self.actor.run(node, OWN, &words)?)? == Reply::Integer(0) {
            if start.elapsed() > BUS_LIMIT {
                bail!("{node} got no reply from {other} over the cluster bus within {BUS_LIMIT:?}");
            }
            thread::sleep(pause);
            pause *= 2;
        }
        Ok(Outcome::Done)
    }

    /// [`state::migration::Step::Stable`].
    pub(super) fn stable(&self, node: SocketAddr) -> anyhow::Result<Outcome> {
        let words = [key(self.slot), self.slot.number().to_string()];
        done(self.actor.run(node, STABLE, &words)?)?;
        Ok(Outcome::Done)
    }
}

/// Has the node close connections over which keys may still come that a source sent before it gave up.
fn fence(node: &mut Connection) -> anyhow::Result<()> {
    let clients = node.ask(&["CLIENT", "LIST", "TYPE", "normal"])?.text().unwrap_or_default();
    let kill = |client: &str| {
        let field = |name: &str| client.split(' ').find_map(|field| field.strip_prefix(name));
        let id = field("id=")?.to_owned();
        OF_MIGRATE
            .contains(&field("cmd=")?)
            .then(|| ["CLIENT".to_owned(), "KILL".to_owned(), "ID".to_owned(), id].to_vec())
    };
    let kills: Vec<Vec<String>> = clients.lines().filter_map(kill).collect();
    node.ask_all(&kills)?;
    Ok(())
}

pub(super) fn done(reply: Reply) -> anyhow::Result<Reply> {
    match reply {
        Reply::Error(error) => bail!("the node refuses the step: {error}"),
        reply => Ok(reply),
    }
}

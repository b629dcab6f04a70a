//! The steps that read and write the note which lies among a slot's keys while it moves: whose turn it is, the
//! turn of the latest batch, and of which of its keys nobody knows where they are. Each is a script: what a
//! node does in one is done before anybody else is served.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use state::{
    migration::{KEYS_MAX, Outcome},
    slot::Slot,
};

use super::{
    cluster::Cluster,
    node::{Node, Reply},
};

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

/// First nobody is sent to the target, whether or not the node serves anybody. A note can only be read and
/// made while the slot is not open; DEL lets a node write that has no memory left.
const TURN: &str = "\
    local slot, note, turn, to, third = unpack(ARGV) \
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', third) \
    redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
    local noted, wrote = redis.pcall('LRANGE', note, 0, -1), {} \
    if #noted > 0 then wrote = redis.pcall('LSET', note, 0, turn) \
    elseif not noted.err then \
      redis.pcall('DEL', note) \
      wrote = redis.pcall('RPUSH', note, turn, turn) \
    end \
    local failed = noted.err and noted or type(wrote) == 'table' and wrote.err and wrote \
    local sends = (failed or #noted > 0) and third or to \
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', sends) \
    return failed or noted";

/// That clients are sent to a third node is on disk before MIGRATE begins: a source that is killed in it
/// has all keys afterwards and knows of nothing else. With nothing left of a batch there is none. Where no
/// node is a third, clients may write at the target what then must not be dropped: the note names no batch.
/// Once no key is left there is no note either: a node that hears by its bus that it has lost the slot would
/// forget it, find it in its log when it starts again, and take that for a slot that is coming.
const MOVE: &str = "\
    local slot, note, turn, next, to, third = unpack(ARGV) \
    if redis.call('LINDEX', note, 0) ~= turn then return redis.error_reply('ERR not its turn') end \
    local keys = {} \
    for _, key in ipairs(redis.call('CLUSTER', 'GETKEYSINSLOT', slot, ARGV[7])) do \
      if key ~= note then keys[#keys + 1] = key end \
    end \
    if #keys == 0 then redis.call('DEL', note) return 0 end \
    redis.call('LTRIM', note, 0, 0) \
    redis.call('RPUSH', note, third ~= to and turn or '', unpack(keys)) \
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', third) \
    redis.call('CLUSTER', 'SAVECONFIG') \
    local words = {unpack(ARGV, 8)} \
    words[#words + 1] = note \
    for _, key in ipairs(keys) do words[#words + 1] = key end \
    local said, left = redis.pcall('MIGRATE', unpack(words)), {} \
    redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
    redis.call('DEL', note) \
    if said.err then \
      for _, key in ipairs(keys) do \
        if redis.call('EXISTS', key) == 1 then left[#left + 1] = key end \
      end \
      redis.call('RPUSH', note, turn, #left > 0 and turn or next, unpack(left)) \
      redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', third) \
      return said \
    end \
    local rest = redis.call('CLUSTER', 'COUNTKEYSINSLOT', slot) \
    if rest > 0 then redis.call('RPUSH', note, next, next) end \
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to) \
    return rest";

const SEND: &str = "\
    local slot, note, turn, next, to = unpack(ARGV) \
    if redis.call('LINDEX', note, 0) ~= turn then return redis.error_reply('ERR not its turn') end \
    redis.call('DEL', note) \
    redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
    redis.call('RPUSH', note, next, next) \
    redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to) \
    return redis.status_reply('OK')";

/// The note came ahead of its batch: where it is not, nothing is.
const SETTLE: &str = "\
    local noted = redis.call('LRANGE', ARGV[1], 0, -1) \
    if noted[2] ~= ARGV[2] then return redis.status_reply('OK') end \
    local keys = #ARGV > 2 and ARGV or noted \
    for i = 3, #keys do redis.call('DEL', keys[i]) end \
    redis.call('DEL', ARGV[1]) \
    return redis.status_reply('OK')";

/// While the node waits for an answer of the other, a claim of that may be on its way. Asked ahead of time: with no owner
/// named.
const OWN: &str = "\
    local note, slot, other, owner = unpack(ARGV) \
    local sent = string.match(redis.call('CLUSTER', 'NODES'), other .. ' %S+ %S+ %S+ (%d+) ') \
    if sent and sent ~= '0' then return 0 end \
    if not owner then return 1 end \
    redis.pcall('DEL', note) \
    return redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', owner)";

const STABLE: &str = "\
    redis.pcall('DEL', ARGV[1]) \
    return redis.call('CLUSTER', 'SETSLOT', ARGV[2], 'STABLE')";

/// The note's key.
pub(super) fn key(slot: Slot) -> String {
    format!("{{{}}}:enroute:moves", slot.tag())
}

/// One slot's note, at the nodes of one cluster.
pub(super) struct Note<'a> {
    cluster: &'a Cluster,
    slot: Slot,
}

/// Nodes by what SETSLOT calls them: where clients are sent, once they may be and until then.
pub(super) struct Sends<'a> {
    pub(super) to: &'a str,
    pub(super) third: &'a str,
}

impl<'a> Note<'a> {
    pub(super) fn new(cluster: &'a Cluster, slot: Slot) -> Self {
        Self { cluster, slot }
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
        let noted = done(run(self.cluster, source, TURN, &words)?)?;
        let mut words = noted.list().iter().filter_map(|word| match word {
            Reply::Text(word) => Some(word.clone()),
            _ => None,
        });
        let (Some(_), Some(batch)) = (words.next(), words.next()) else { return Ok(Outcome::Done) };
        // Nothing where nothing of it is to be dropped.
        let batch = str::from_utf8(&batch).ok().and_then(|batch| batch.parse().ok());
        let batch = batch.unwrap_or_default();
        Ok(Outcome::Noted(batch, words.collect()))
    }

    /// [`state::migration::Step::Settle`].
    pub(super) fn settle(
        &self,
        target: SocketAddr,
        batch: u64,
        keys: &[Vec<u8>],
    ) -> anyhow::Result<Outcome> {
        // A new connection: those a MIGRATE opened before are older, and so are known to the node.
        let mut node = self.cluster.connect(target)?;
        fence(&mut node)?;
        let (note, batch) = (key(self.slot), batch.to_string());
        let mut words = vec![note.as_bytes(), batch.as_bytes()];
        words.extend(keys.iter().map(Vec::as_slice));
        done(run_at(&mut node, SETTLE, &words)?)?;
        Ok(Outcome::Done)
    }

    /// [`state::migration::Step::Send`].
    pub(super) fn send(&self, source: SocketAddr, to: &str, turn: u64) -> anyhow::Result<Outcome> {
        let (turn, next) = (turn.to_string(), (turn + 1).to_string());
        let words = [&self.slot.number().to_string(), &key(self.slot), &turn, &next, to];
        done(run(self.cluster, source, SEND, &words)?)?;
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
        if let Some(login) = self.cluster.login() {
            words.extend([&b"AUTH2"[..], &login.user, &login.password]);
        }
        words.push(b"KEYS");
        match run(self.cluster, source, MOVE, &words)? {
            Reply::Integer(left) => Ok(Outcome::Left(left.unsigned_abs())),
            Reply::Error(error) => match error.strip_prefix(OF_TARGET) {
                Some(why) => Ok(Outcome::Refused(format!("{target} refuses keys: {why}"))),
                None => bail!("{source} refuses MIGRATE: {error}"),
            },
            other => bail!("{source} does not say what came of a MIGRATE: {other:?}"),
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
        while done(run(self.cluster, node, OWN, &words)?)? == Reply::Integer(0) {
            if start.elapsed() > BUS_LIMIT {
                bail!("{node} waits for an answer of {other} over their bus");
            }
            thread::sleep(pause);
            pause *= 2;
        }
        Ok(Outcome::Done)
    }

    /// [`state::migration::Step::Stable`].
    pub(super) fn stable(&self, node: SocketAddr) -> anyhow::Result<Outcome> {
        let words = [key(self.slot), self.slot.number().to_string()];
        done(run(self.cluster, node, STABLE, &words)?)?;
        Ok(Outcome::Done)
    }
}

/// Has the node close connections over which keys may still come that a source sent before it gave up.
fn fence(node: &mut Node) -> anyhow::Result<()> {
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

/// Has a node run a script that says which keys it uses to nobody. What it answers may be an error.
pub(super) fn run(
    cluster: &Cluster,
    node: SocketAddr,
    script: &str,
    words: &[impl AsRef<[u8]>],
) -> anyhow::Result<Reply> {
    let replies = cluster.ask_all(node, &commands(script, words))?;
    replies.into_iter().next_back().context("no answer")
}

fn run_at(node: &mut Node, script: &str, words: &[impl AsRef<[u8]>]) -> anyhow::Result<Reply> {
    node.ask_all(&commands(script, words))?.into_iter().next_back().context("no answer")
}

/// A node that does not own the slot does nothing with its keys for who does not say so.
fn commands<'a>(script: &'a str, words: &'a [impl AsRef<[u8]>]) -> [Vec<&'a [u8]>; 2] {
    let mut command: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"0"];
    command.extend(words.iter().map(AsRef::as_ref));
    [vec![b"ASKING"], command]
}

pub(super) fn done(reply: Reply) -> anyhow::Result<Reply> {
    match reply {
        Reply::Error(error) => bail!("a step is refused: {error}"),
        reply => Ok(reply),
    }
}

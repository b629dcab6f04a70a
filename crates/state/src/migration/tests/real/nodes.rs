//! Two real nodes, and the scripts that set and read their state.

use std::{path::Path, thread};

use super::{
    server::{self, Connection},
    *,
};
use crate::{
    lease::Token,
    members,
    note::{self, Note},
    query::{Error, Query, Word, words},
    scripts::{ASKING, Call},
    steps::{self, Names},
};

/// Sets a node's state. Arguments: slot, the node itself, owner, the owner of the other slots, the
/// target and the source of a migration or nothing, the elements of the note after their number,
/// keys and values.
const SET_UP: &str = "\
    local slot, me, owner, to, from, note = unpack(ARGV) \
    local function set(...) return redis.call('CLUSTER', 'SETSLOT', slot, ...) end \
    set('STABLE') set('NODE', me) \
    for _, key in ipairs(redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 1000)) do \
      redis.call('DEL', key) \
    end \
    if owner ~= me then set('NODE', owner) set('IMPORTING', owner) end \
    local elements = tonumber(ARGV[7]) \
    for i = 8, 7 + elements do redis.call('RPUSH', note, ARGV[i]) end \
    for i = 8 + elements, #ARGV, 2 do redis.call('SET', ARGV[i], ARGV[i + 1]) end \
    set('STABLE') \
    if to ~= '' then set('MIGRATING', to) end \
    if from ~= '' then set('IMPORTING', from) end \
    return redis.status_reply('OK')";

/// Reads all keys of a slot with their values, and the note; opens the slot. Arguments: slot, the
/// node itself, owner, note.
const READ_ALL: &str = "\
    local slot, me, owner, note = unpack(ARGV) \
    redis.call('CLUSTER', 'SETSLOT', slot, 'STABLE') \
    if owner ~= me then redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', owner) end \
    local all = {redis.call('LRANGE', note, 0, -1)} \
    for _, key in ipairs(redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 1000)) do \
      if key ~= note then \
        all[#all + 1] = key \
        all[#all + 1] = redis.call('GET', key) \
        all[#all + 1] = redis.call('DUMP', key) \
      end \
    end \
    return all";

/// A node that both nodes know and that never replies.
const SILENT: &str = "dddddddddddddddddddddddddddddddddddddddd";

struct Real {
    server: server::Server,
    connection: Connection,
    _fence: Connection,
}

pub(super) struct Nodes {
    source: Real,
    target: Real,
    channel: String,
    /// The DUMP of each value.
    dumps: BTreeMap<u64, Vec<u8>>,
}

/// A node's id: forty hexadecimal digits.
fn id(node: Node) -> String {
    char::from(b'a' + node.0 as u8).to_string().repeat(40)
}

fn key(key: u8) -> Vec<u8> {
    format!("{{{}}}:{key}", slot().tag()).into_bytes()
}

/// The model's name of a real key.
fn number(real: &[u8]) -> Vec<u8> {
    let digit = real.last().expect("a key");
    vec![digit - b'0']
}

/// As `number`, for several keys, sorted; nodes return them in any order.
fn model_keys(real: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = real.iter().map(|key| number(key)).collect();
    keys.sort();
    keys
}

impl Nodes {
    pub(super) fn start(program: &Path) -> Self {
        let channel = Token { number: 1, holder: 1 }.channel("test");
        let [source, target] = [SOURCE, TARGET].map(|node| Real::start(program, node, &channel));
        let mut nodes = Self { source, target, channel, dumps: BTreeMap::new() };
        // All values that can occur.
        let mut all = Cluster::new(0);
        all.at(SOURCE).keys = (0..5).map(|value| (value as u8, value)).collect();
        nodes.set_up(&mut all, SOURCE);
        nodes.read(SOURCE, SOURCE);
        nodes
    }

    fn at(&mut self, node: Node) -> &mut Real {
        if node == SOURCE { &mut self.source } else { &mut self.target }
    }

    /// Sets the nodes to the states of the model, executes the step, and compares states and
    /// outcome with the model's. Returns the differences.
    pub(super) fn compare(&mut self, before: &Cluster, at: Node, step: &Step) -> Option<String> {
        let mut model = before.clone();
        for node in [SOURCE, TARGET] {
            self.set_up(&mut model, node);
        }
        let expected = match model.run(at, step) {
            Outcome::Refused(_) => Outcome::Refused(String::new()),
            outcome => outcome,
        };
        let outcome = self.run(at, step);
        let mut differ = String::new();
        if outcome != expected {
            differ += &format!("\n  comes to {outcome:?}, in the model to {expected:?}");
        }
        for node in [SOURCE, TARGET] {
            let owner = Node(model.at(node).owner.1);
            let expected = model.at(node).clone();
            let found = self.read(node, owner);
            let Server { keys, migrating, importing, note, .. } = expected;
            let is_owner = owner == node;
            let expected = (is_owner, migrating, importing, note, keys);
            if found != expected {
                differ +=
                    &format!("\n  leaves {node:?} as {found:?}, in the model as {expected:?}");
            }
        }
        let before = |node: Node| {
            let server = &before.servers[usize::from(node.0)];
            let Server { owner, migrating, importing, note, keys, .. } = server;
            format!("\n  {node:?}: {:?}", (owner.1, migrating, importing, note, keys))
        };
        let before = [SOURCE, TARGET].map(before).concat();
        (!differ.is_empty()).then(|| format!("{step:?} at {at:?} of{before}{differ}"))
    }

    /// A node that waits for a reply of the other does not change the owner.
    pub(super) fn owes_an_answer(&mut self) {
        let mut cluster = Cluster::new(0);
        cluster.at(TARGET).importing = Some(SOURCE);
        self.set_up(&mut cluster, TARGET);
        for (other, waits) in [(SILENT.to_owned(), true), (id(SOURCE), false)] {
            let answered = self.query(TARGET, steps::answered(slot(), &other));
            assert_eq!(answered.expect("a reply").is_none(), waits);
        }
        let (from, to, third) = (id(SOURCE), id(TARGET), id(THIRD));
        let target = self.target.server.address();
        let names =
            Names { from: &from, to: &to, third: &third, other: SILENT, target, login: None };
        let step = Step::Own { owner: TARGET };
        let outcome = self.query(TARGET, steps::call(&step, slot(), names));
        assert_eq!(outcome.expect("a reply"), None);
        assert_eq!(self.read(TARGET, SOURCE).2, Some(SOURCE));
    }

    fn set_up(&mut self, cluster: &mut Cluster, node: Node) {
        let Server { keys, migrating, importing, owner, note, .. } = cluster.at(node).clone();
        let open = |open: Option<Node>| open.map(id).unwrap_or_default();
        let elements = note.map_or_else(Vec::new, |(turn, batch, keys)| {
            let keys = keys.iter().map(|number| key(number[0])).collect();
            Note { turn, batch: Some(batch), keys }.elements()
        });
        let mut words = words!["EVAL", SET_UP, 0, slot(), id(node), id(Node(owner.1))];
        words.extend(words![open(migrating), open(importing), note::key(slot())]);
        words.push(Word::from(elements.len() as u64));
        let keys: Vec<(Vec<u8>, u64)> =
            keys.iter().map(|(&number, &value)| (key(number), value)).collect();
        words.extend(elements.iter().map(|element| Word::from(&element[..])));
        words.extend(keys.iter().flat_map(|(key, value)| words![&key[..], *value]));
        let connection = &mut self.at(node).connection;
        connection.ask(&[ASKING]);
        let reply = connection.ask(&words);
        assert_eq!(reply, Reply::Bytes(b"OK".to_vec()), "{node:?}");
    }

    /// Whether the node owns the slot, the target and the source of its migration, the note, and
    /// the keys.
    #[expect(clippy::type_complexity, reason = "compared as a whole")]
    fn read(
        &mut self,
        node: Node,
        owner: Node,
    ) -> (bool, Option<Node>, Option<Node>, Option<Noted>, BTreeMap<u8, u64>) {
        let address = self.at(node).server.address();
        let connection = &mut self.at(node).connection;
        let query = members::oneself(address);
        let said = connection.ask(query.words());
        let member = query.read(said).expect("its own line").0.expect("a node");
        let open = |open: &[(Slot, String)]| {
            let other = open.iter().find(|(open, _)| *open == slot()).map(|(_, id)| id.clone())?;
            [SOURCE, THIRD, TARGET].into_iter().find(|node| id(*node) == other)
        };
        let (migrating, importing) = (open(&member.migrating), open(&member.importing));
        connection.ask(&[ASKING]);
        let owner = if member.owns(slot()) { node } else { owner };
        let words = words!["EVAL", READ_ALL, 0, slot(), id(node), id(owner), note::key(slot())];
        let reply = connection.ask(&words);
        let [noted, rest @ ..] = reply.list() else { panic!("{reply:?}") };
        let bytes = |reply: &Reply| match reply {
            Reply::Bytes(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        let noted: Vec<Vec<u8>> = noted.list().iter().map(bytes).collect();
        let note = Note::read(slot(), noted.iter().map(Vec::as_slice)).expect("a note");
        let note = note
            .map(|Note { turn, batch, keys }| (turn, batch.unwrap_or_default(), model_keys(&keys)));
        let mut keys = BTreeMap::new();
        for entry in rest.chunks_exact(3) {
            let value = entry[1].text().expect("a value").parse().expect("a number");
            keys.insert(number(&bytes(&entry[0]))[0], value);
            self.dumps.insert(value, bytes(&entry[2]));
        }
        (member.owns(slot()), migrating, importing, note, keys)
    }

    /// Executes a step at a node, with real keys and values for the model's.
    fn run(&mut self, at: Node, step: &Step) -> Outcome {
        let real_keys = |keys: &[Vec<u8>]| keys.iter().map(|number| key(number[0])).collect();
        let step = match step.clone() {
            Step::Settle { batch, keys } => Step::Settle { batch, keys: real_keys(&keys) },
            Step::Read { from, keys } => Step::Read { from, keys: real_keys(&keys) },
            Step::Drop { from, keys } => Step::Drop { from, keys: real_keys(&keys) },
            Step::Restore { to, mut values } => {
                for value in &mut values {
                    value.key = key(value.key[0]);
                    let number = u64::from_le_bytes(value.value[..].try_into().expect("a value"));
                    value.value.clone_from(&self.dumps[&number]);
                }
                Step::Restore { to, values }
            }
            step => step,
        };
        let (from, to, third) = (id(SOURCE), id(TARGET), id(THIRD));
        let other = if at == TARGET { &from } else { &to };
        let target = self.target.server.address();
        let names = Names { from: &from, to: &to, third: &third, other, target, login: None };
        let outcome = self.query(at, steps::call(&step, slot(), names));
        match outcome {
            Err(_) => Outcome::Failed,
            Ok(None) => panic!("no reply is expected"),
            Ok(Some(Outcome::Refused(_))) => Outcome::Refused(String::new()),
            Ok(Some(Outcome::Noted(batch, keys))) => Outcome::Noted(batch, model_keys(&keys)),
            Ok(Some(Outcome::Keys(keys))) => Outcome::Keys(model_keys(&keys)),
            Ok(Some(Outcome::Values(mut values))) => {
                for value in &mut values {
                    let dumps = |(_, dump): &(&u64, &Vec<u8>)| **dump == value.value;
                    let known = self.dumps.iter().find(dumps).expect("a known value").0;
                    (value.key, value.value) = (number(&value.key), known.to_le_bytes().to_vec());
                    value.expires_ms = 0;
                }
                Outcome::Values(values)
            }
            Ok(Some(outcome)) => outcome,
        }
    }

    fn query<'a, T: 'a>(&mut self, at: Node, call: Call<'a, T>) -> Result<T, Error> {
        let channel = self.channel.clone();
        let query: Query<'_, T> = call.behind(&channel);
        let connection = &mut self.at(at).connection;
        connection.ask(&[ASKING]);
        let reply = connection.ask(query.words());
        query.read(reply)
    }
}

impl Real {
    /// Starts a node that knows the others only by name.
    fn start(program: &Path, own: Node, channel: &str) -> Self {
        let line = |node: Node| {
            let (flags, slots) =
                (if node == own { "myself,master" } else { "master,noaddr" }, node);
            let slots = if slots == SOURCE { slot().number().to_string() } else { String::new() };
            format!("{} 127.0.0.1:1@1 {flags} - 0 0 {} connected {slots}\n", id(node), node.0 + 1)
        };
        let mut nodes: String = [SOURCE, THIRD, TARGET].map(line).concat();
        nodes += &format!("{SILENT} 127.0.0.1:1@1 master,noaddr - 1 0 9 connected\n");
        nodes += "vars currentEpoch 9 lastVoteEpoch 0\n";
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "3600000"];
        // A node that loses its last slot stays a primary.
        let alone = ["--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration"];
        let options = [&options[..], &alone, &["no"]].concat();
        let server = server::Server::start(program, &options, &[("nodes.conf", nodes)]);
        let mut connection = server.connect();
        let up = |connection: &mut Connection| {
            let said = connection.ask(&["CLUSTER", "INFO"]);
            said.text().is_some_and(|said| said.contains("cluster_state:ok"))
        };
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while !up(&mut connection) {
            assert!(std::time::Instant::now() < until, "the node is not ready");
            thread::sleep(Duration::from_millis(20));
        }
        let mut fence = server.connect();
        for query in crate::fence::subscribe(channel) {
            let reply = fence.ask(query.words());
            query.read(reply).expect("a subscriber");
        }
        Self { server, connection, _fence: fence }
    }
}

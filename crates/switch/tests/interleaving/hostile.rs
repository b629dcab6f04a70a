//! Packets of an attacker that is neither agent, switch nor controller, with any source address and
//! on any path.

use wire::netcache::{Flags, Message, Op, Party};

use super::{Broken, End, KEY, Packet, State};

/// The attacker's own address.
const HOSTILE: End = End::Client(99);
/// Versions that the attacker chooses, one of them that of a write after another. The real ones are
/// random, and it cannot read the network.
const GUESSES: [u64; 3] = [1, 2, 1 << 62];
const SEQUENCE: u32 = 1;

/// Where a forged message enters the network.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Bypasses the switch, or is in a packet that the program does not parse.
    ToAgent,
    /// On the clients' interface.
    FromClients,
    /// On the servers' interface.
    FromServers,
    ToController,
}

impl State {
    pub(super) fn steps_of_hostility(
        &self,
        broken: Broken,
        step: &mut impl FnMut(String, &dyn Fn(&mut Self)),
    ) {
        if self.budgets.forgeries == 0 {
            return;
        }
        let newest = self.entry.as_ref().map_or(0, |entry| entry.version);
        let read = [newest, newest + 1].into_iter().filter(|_| broken.readable);
        for version in GUESSES.into_iter().chain(read) {
            for (op, flags) in forgeries() {
                for (from, way) in ways(op) {
                    let forged =
                        Message { flags, version, value: &[66], ..Message::new(op, SEQUENCE, KEY) };
                    let bytes = forged.bytes();
                    step(format!("forge {op:?} {version} of {from:?} {way:?}"), &|next| {
                        next.budgets.forgeries -= 1;
                        next.take_forged(from, way, &bytes, broken);
                    });
                }
            }
        }
    }

    fn take_forged(&mut self, from: End, way: Way, bytes: &[u8], broken: Broken) {
        let forged = Message::decode(bytes).expect("our own");
        let to = match way {
            Way::ToAgent => End::Agent,
            Way::ToController => End::Controller,
            Way::FromClients | Way::FromServers => End::Switch,
        };
        let comes_in = match way {
            Way::ToAgent | Way::ToController => true,
            Way::FromClients => forged.op.sender() == Party::Client,
            Way::FromServers => matches!(forged.op.sender(), Party::Client | Party::Agent),
        };
        if comes_in || broken.takes_all {
            self.deliver(
                &Packet { from, to, bytes: bytes.to_vec(), promise: self.promise },
                broken,
            );
        }
    }
}

/// Every operation, with both values of a boolean reply.
fn forgeries() -> impl Iterator<Item = (Op, Flags)> {
    let yes = Flags::FOUND.with(Flags::STORED, true).with(Flags::CACHED, true);
    Op::ALL.iter().flat_map(move |op| {
        let says = matches!(op, Op::Update | Op::UpdateAck | Op::InvalidateAck);
        [(*op, yes), (*op, Flags::default())].into_iter().take(1 + usize::from(says))
    })
}

fn ways(op: Op) -> Vec<(End, Way)> {
    let mut ways = vec![(HOSTILE, Way::ToAgent), (HOSTILE, Way::FromClients)];
    match op.sender() {
        Party::Client => {}
        Party::DataPlane => ways.push((End::Switch, Way::ToAgent)),
        Party::Controller => ways.push((End::Controller, Way::ToAgent)),
        Party::Agent if op.receiver() == Party::Controller => {
            ways.push((End::Agent, Way::ToController));
        }
        Party::Agent => {
            ways.extend([(End::Agent, Way::FromClients), (End::Agent, Way::FromServers)]);
        }
    }
    ways
}

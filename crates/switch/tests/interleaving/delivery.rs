//! Processing of a packet by the switch and the controller.

use wire::netcache::{Flags, Message, Op, TAGS_AHEAD_MAX};

use super::{ASKED, Broken, End, Entry, KEY, Packet, State, at};

impl State {
    pub(super) fn deliver(&mut self, packet: &Packet, broken: Broken) {
        let message = Message::decode(&packet.bytes).expect("our own");
        match packet.to {
            End::Agent => {
                self.agent.receive(at(packet.from), &message, &mut self.store, self.now);
                self.flush_agent();
            }
            End::Switch => self.at_switch(packet.from, &message, broken),
            End::Controller => self.at_controller(&message, packet.promise, broken),
            End::Client(_) => {}
        }
    }

    fn at_switch(&mut self, from: End, message: &Message<'_>, broken: Broken) {
        match message.op {
            Op::Put | Op::Delete => {
                let mut on = message.clone();
                if let Some(entry) = &mut self.entry {
                    entry.version += 1;
                    if !broken.no_tags {
                        let deletes = message.op == Op::Delete;
                        on.op = if deletes { Op::DeleteCached } else { Op::PutCached };
                        on.version = entry.version;
                    }
                }
                self.send(from, End::Agent, &on);
            }
            // Forwarded only if the switch accepts it on this side.
            Op::PutCached | Op::DeleteCached => self.send(from, End::Agent, message),
            Op::Update | Op::Invalidate if from != End::Agent => {}
            Op::Update => {
                let mut flags = Flags::default();
                if let Some(entry) = &mut self.entry {
                    flags = flags.with(Flags::CACHED, true);
                    if entry.version == message.version || broken.any_update {
                        entry.valid_version = entry.version;
                        entry.value =
                            message.flags.has(Flags::FOUND).then(|| message.value.to_vec());
                    }
                }
                let ack = Message {
                    flags,
                    version: message.version,
                    ..Message::new(Op::UpdateAck, message.sequence, KEY)
                };
                self.send(End::Switch, End::Agent, &ack);
            }
            Op::Invalidate => {
                let mut ack = Message::new(Op::InvalidateAck, message.sequence, KEY);
                ack.version = message.version;
                if let Some(entry) = &mut self.entry {
                    if entry.version.wrapping_sub(message.version) > TAGS_AHEAD_MAX {
                        return;
                    }
                    entry.version += 1;
                    (ack.version, ack.flags) = (entry.version, Flags::CACHED);
                }
                self.send(End::Switch, End::Agent, &ack);
            }
            // A reply to the attacker that used this address.
            _ => {}
        }
    }

    fn at_controller(&mut self, message: &Message<'_>, promise: u8, broken: Broken) {
        match message.op {
            Op::Fetched => {
                let version = message.version;
                if self.pending == Some(version) || (broken.late_install && self.entry.is_none()) {
                    self.pending = None;
                    let value = message.flags.has(Flags::FOUND).then(|| message.value.to_vec());
                    self.entry =
                        Some(Entry { admitted: version, version, valid_version: version, value });
                }
                let is_there = self.entry.as_ref().is_some_and(|entry| entry.admitted == version);
                let op = if is_there { Op::Installed } else { Op::Abandoned };
                let told = Message { version, ..Message::new(op, message.sequence, KEY) };
                self.send(End::Controller, End::Agent, &told);
            }
            Op::Leased if message.sequence == ASKED => {
                if message.version == self.generation {
                    self.lease |= promise == self.promise;
                } else if message.version > self.generation {
                    if !broken.keeps_entries {
                        self.entry = None;
                        self.pending = None;
                    }
                    self.generation = message.version;
                }
            }
            _ => {}
        }
    }
}

//! Carries out what [`state::lease`] asks for. Each step of a move is sent by an [`Actor`], which names the fence.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use state::{
    lease::{Answer, Ask, LEASE, Lease as Rules, Raised, Token},
    scripts::{FENCED, RELEASE, RENEW, Script},
};
use tracing::{info, warn};
use wire::resp::Reply;

use super::{
    cluster::{Cluster, View},
    fence::{self, Fence},
    report::PLACER,
};
use crate::resp_client::blocking::Connection;

/// A lease, held or not.
pub(super) struct Lease {
    name: String,
    /// The value of the lease's key: the name, and a number unique to this process.
    holder: String,
    start: Instant,
    state: Mutex<State>,
}

struct State {
    rules: Rules,
    fence: Option<Fence>,
    fenced_off: BTreeSet<String>,
    /// Why the latest attempt failed.
    obstacle: Option<String>,
}

impl Lease {
    pub(super) fn new(name: String) -> Self {
        let number = RandomState::new().hash_one(std::process::id());
        let state = State {
            rules: Rules::new(number),
            fence: None,
            fenced_off: BTreeSet::new(),
            obstacle: None,
        };
        let holder = format!("{name} {number:016x}");
        Self { name, holder, start: Instant::now(), state: Mutex::new(state) }
    }

    /// Whether the lease is held and its fence stands, for long enough to begin a step. Takes, renews and fences where due; of
    /// many callers one does that, and the others wait for its result.
    pub(super) fn assure(&self, cluster: &Cluster, view: &View) -> bool {
        let state = &mut *self.state.lock();
        let mut looked = false;
        loop {
            let now = self.start.elapsed();
            let went_on = match state.rules.next(now) {
                Ask::Nothing => return state.rules.token(now).is_some(),
                ask @ (Ask::Take | Ask::Renew) => {
                    let held = self.ask(state, ask, now, cluster, view);
                    if held && !std::mem::replace(&mut looked, true) {
                        state.look(view);
                    }
                    held
                }
                Ask::Fence(token) => self.raise(state, token, cluster, view),
            };
            if !went_on {
                return state.rules.token(self.start.elapsed()).is_some();
            }
        }
    }

    /// Takes or renews the lease. Returns whether it is held.
    fn ask(
        &self,
        state: &mut State,
        ask: Ask,
        now: Duration,
        cluster: &Cluster,
        view: &View,
    ) -> bool {
        let milliseconds = LEASE.as_millis().to_string();
        let words: &[&str] = match ask {
            Ask::Take => &["SET", PLACER, &self.holder, "NX", "PX", &milliseconds],
            _ => &["EVAL", RENEW, "1", PLACER, &self.holder, &milliseconds],
        };
        state.obstacle = None;
        let (answer, leads) = match cluster.ask_owner(view, PLACER.as_bytes(), words) {
            Ok(Reply::Integer(1)) => (Answer::Held, None),
            Ok(Reply::Bytes(_)) if ask == Ask::Take => (Answer::Held, None),
            Ok(reply) => (Answer::Refused, reply.text()),
            Err(error) => {
                warn!("cannot take or renew the placer lease: {error:#}");
                state.obstacle = Some(format!("{error:#}"));
                (Answer::Unknown, None)
            }
        };
        if state.rules.answered(answer, now) {
            state.fence = None;
            let leads = leads.map(|holder| named(&holder)).filter(|name| !name.is_empty());
            let leads = leads.unwrap_or_else(|| "unknown: the lease is gone".to_owned());
            warn!(
                name = self.name,
                leads, "another placer leads now; this placer stops moving slots"
            );
        }
        answer == Answer::Held
    }

    /// Raises a fence. Returns whether to go on.
    fn raise(&self, state: &mut State, token: Token, cluster: &Cluster, view: &View) -> bool {
        // Closes what stands of the older one.
        state.fence = None;
        match Fence::raise(cluster, view, token, &self.name) {
            Ok(fence::Raised::Everywhere(fence)) => {
                state.rules.raised(Raised::Everywhere);
                let off: Vec<&str> = fence.fenced_off.iter().map(String::as_str).collect();
                let off = if off.is_empty() { "none".to_owned() } else { off.join(", ") };
                info!(
                    name = self.name,
                    token = token.number,
                    fenced_off = off,
                    "this placer leads now"
                );
                state.fenced_off.extend(fence.fenced_off.iter().cloned());
                state.fence = Some(fence);
                true
            }
            Ok(fence::Raised::Outranked(by)) => {
                state.rules.raised(Raised::Outranked(by));
                true
            }
            Err(error) => {
                warn!(
                    name = self.name,
                    "cannot raise the fence at all primaries, no slot is moved: {error:#}"
                );
                state.obstacle =
                    Some(format!("cannot raise the fence at all primaries: {error:#}"));
                state.rules.raised(Raised::Failed);
                false
            }
        }
    }

    /// Takes the lease without its key, if no node owns the key's slot: no other placer can take or renew it then. The caller has
    /// waited for as long as a lease lasts.
    pub(super) fn take_without_key(&self, cluster: &Cluster, view: &View) -> bool {
        let state = &mut *self.state.lock();
        let now = self.start.elapsed();
        state.rules.answered(Answer::Held, now);
        while let Ask::Fence(token) = state.rules.next(now) {
            if !self.raise(state, token, cluster, view) {
                return false;
            }
            state.rules.answered(Answer::Held, now);
        }
        true
    }

    /// Name of its holder, by its key.
    pub(super) fn holder(cluster: &Cluster, view: &View) -> anyhow::Result<Option<String>> {
        let said = cluster.ask_owner(view, PLACER.as_bytes(), &["GET", PLACER])?.text();
        Ok(said.map(|holder| named(&holder)))
    }

    /// Why the latest attempt failed, if not because another placer has it.
    pub(super) fn obstacle(&self) -> Option<String> {
        self.state.lock().obstacle.clone()
    }

    /// Names of placers fenced off since the last call.
    pub(super) fn fenced_off(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.state.lock().fenced_off)
    }

    /// Gives it up at once.
    pub(super) fn release(&self, cluster: &Cluster, view: &View) {
        let state = &mut *self.state.lock();
        state.fence = None;
        if state.rules.release() {
            let words = ["EVAL", RELEASE, "1", PLACER, &self.holder];
            if let Err(error) = cluster.ask_owner(view, PLACER.as_bytes(), &words) {
                warn!("cannot release the placer lease, it expires by itself: {error:#}");
            }
        }
    }

    /// The fence to name in a step.
    fn fence(&self) -> anyhow::Result<(Token, String)> {
        let state = self.state.lock();
        let token = state.rules.token(self.start.elapsed());
        let fence = state.fence.as_ref().filter(|fence| Some(fence.token) == token);
        let fence =
            fence.context("expected the lease and its fence, found none: no step is taken")?;
        Ok((fence.token, fence.channel.clone()))
    }

    fn refused(&self, token: Token, node: SocketAddr) {
        self.state.lock().rules.refused(token);
        warn!(
            name = self.name,
            %node,
            token = token.number,
            "fenced off: the node refuses the steps of this placer, because another placer has taken over or \
             the node has restarted; requesting the lease again"
        );
    }
}

impl State {
    /// A fence that has lost a subscriber, or that does not stand at a new primary, is raised anew.
    fn look(&mut self, view: &View) {
        if let Some(fence) = self.fence.take_if(|fence| !fence.stands(view)) {
            self.rules.refused(fence.token);
        }
    }
}

/// The name in the value of the lease's key.
fn named(holder: &str) -> String {
    holder.rsplit_once(' ').map_or(holder, |(name, _)| name).to_owned()
}

/// Moves slots between the nodes of a view, under a lease.
#[derive(Clone, Copy)]
pub(super) struct Actor<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) view: &'a View,
    pub(super) lease: &'a Lease,
}

impl Actor<'_> {
    /// Whether a step may still be begun.
    pub(super) fn may(&self) -> bool {
        self.lease.assure(self.cluster, self.view)
    }

    /// Executes a script at a node. The reply may be an error.
    pub(super) fn run(
        &self,
        node: SocketAddr,
        script: Script,
        words: &[impl AsRef<[u8]>],
    ) -> anyhow::Result<Reply> {
        self.say(node, script, words, |commands| self.cluster.ask_all(node, commands))
    }

    /// The same over this connection.
    pub(super) fn run_at(
        &self,
        node: &mut Connection,
        script: Script,
        words: &[impl AsRef<[u8]>],
    ) -> anyhow::Result<Reply> {
        self.say(node.address(), script, words, |commands| node.ask_all(commands))
    }

    fn say(
        &self,
        node: SocketAddr,
        script: Script,
        words: &[impl AsRef<[u8]>],
        ask: impl FnOnce(&[Vec<&[u8]>]) -> anyhow::Result<Vec<Reply>>,
    ) -> anyhow::Result<Reply> {
        let (token, channel) = self.lease.fence()?;
        let mut command: Vec<&[u8]> =
            vec![b"EVAL", script.text().as_bytes(), b"0", channel.as_bytes()];
        command.extend(words.iter().map(AsRef::as_ref));
        // Without it a node that does not own the slot refuses access to its keys.
        let replies = ask(&[vec![b"ASKING"], command])?;
        match replies.into_iter().next_back().context("expected a reply, got none")? {
            Reply::Error(error) if error.starts_with(FENCED) => {
                self.lease.refused(token, node);
                bail!("{node} refuses the step: {error}")
            }
            reply => Ok(reply),
        }
    }
}

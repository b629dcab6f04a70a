//! Carries out what [`state::lease`] asks for. Each step of a move is sent by an [`Actor`], which
//! names the fence.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use parking_lot::Mutex;
use state::{
    lease::{
        Answer, Ask, Lease as Rules, Raised, Token,
        key::{self, KEY},
    },
    query::{Query, Word},
    scripts::{ASKING, Call},
    view::View,
};
use tracing::{info, warn};
use wire::resp::Reply;

use super::{
    cluster::Cluster,
    fence::{self, Fence},
};
use resp_client::blocking::Connection;

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
    /// Reason why the latest attempt failed.
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
        let holder = key::value(&name, number);
        Self { name, holder, start: Instant::now(), state: Mutex::new(state) }
    }

    /// Whether the lease is held and its fence is up, for long enough to begin a step. Takes,
    /// renews and fences where due; one of several callers does that, and the others wait for its
    /// result.
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
        state.obstacle = None;
        let asked = cluster.query_owner(view, KEY.as_bytes(), key::ask(ask, &self.holder));
        let (answer, leads) = match asked {
            Ok(answered) => answered,
            Err(error) => {
                warn!("cannot take or renew the placer lease: {error:#}");
                state.obstacle = Some(format!("{error:#}"));
                (Answer::Unknown, None)
            }
        };
        if state.rules.answered(answer, now) {
            state.fence = None;
            let leads = leads.unwrap_or_else(|| "unknown: the lease is gone".to_owned());
            warn!(
                name = self.name,
                leads, "another placer leads now; this placer stops moving slots"
            );
        }
        answer == Answer::Held
    }

    /// Raises a fence. Returns whether to continue.
    fn raise(&self, state: &mut State, token: Token, cluster: &Cluster, view: &View) -> bool {
        // Closes the remaining subscribers of the older one.
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

    /// Takes the lease without its key, if no node owns the key's slot: no other placer can take or
    /// renew it then. The caller has waited for as long as a lease lasts.
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
        cluster.query_owner(view, KEY.as_bytes(), key::holder())
    }

    /// Reason why the latest attempt failed, unless another placer holds the lease.
    pub(super) fn obstacle(&self) -> Option<String> {
        self.state.lock().obstacle.clone()
    }

    /// Names of placers fenced off since the last call.
    pub(super) fn fenced_off(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.state.lock().fenced_off)
    }

    /// Releases the lease at once.
    pub(super) fn release(&self, cluster: &Cluster, view: &View) {
        let state = &mut *self.state.lock();
        state.fence = None;
        if state.rules.release() {
            let released = cluster.query_owner(view, KEY.as_bytes(), key::release(&self.holder));
            if let Err(error) = released {
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
    /// Raises a fence again that has lost a subscriber, or that is missing at a new primary.
    fn look(&mut self, view: &View) {
        if let Some(fence) = self.fence.take_if(|fence| !fence.stands(view)) {
            self.rules.refused(fence.token);
        }
    }
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

    /// Executes a script at a node.
    pub(super) fn run<'a, T: 'a>(&self, node: SocketAddr, call: Call<'a, T>) -> anyhow::Result<T> {
        self.say(node, call, |commands| {
            self.cluster.with(node, |connection| connection.ask_all(commands))
        })
    }

    /// The same over this connection.
    pub(super) fn run_at<'a, T: 'a>(
        &self,
        node: &mut Connection,
        call: Call<'a, T>,
    ) -> anyhow::Result<T> {
        self.say(node.address(), call, |commands| node.ask_all(commands))
    }

    fn say<'a, T: 'a>(
        &self,
        node: SocketAddr,
        call: Call<'a, T>,
        ask: impl FnOnce(&[&[Word<'_>]]) -> anyhow::Result<Vec<Reply>>,
    ) -> anyhow::Result<T> {
        let (token, channel) = self.lease.fence()?;
        let query: Query<'_, T> = call.behind(&channel);
        let replies = ask(&[&[Word::from(ASKING)], query.words()])?;
        let reply = replies.into_iter().next_back().context("expected a reply, got none")?;
        query.read(reply).map_err(|error| {
            if error.is_fenced() {
                self.lease.refused(token, node);
            }
            anyhow!(error).context(node)
        })
    }
}

//! Whom a connection speaks for: answers are never shared between users.

use wire::mongo::{bson::Document, request::Request};

/// The user of a connection.
#[derive(Debug, Default)]
pub(super) struct Principal {
    state: State,
    /// Conversations that are under way.
    unsettled: u32,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody has logged in.
    #[default]
    Anonymous,
    /// The conversation of this claim has begun.
    Claimed(Claim),
    /// The claim was proven.
    Known(Claim),
    /// Somebody logged in in a way that does not tell who.
    Unknown,
}

/// Who somebody says they are: database, NUL, name. Empty if that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim(Box<[u8]>);

/// What the origin said in a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Told {
    /// No, or nothing about it.
    #[default]
    No,
    /// Go on.
    Continue,
    /// Welcome.
    Done,
}

impl Told {
    /// Reads a reply to `saslStart`, `saslContinue`, `authenticate` or to a `hello` that carries the
    /// first of them.
    pub(super) fn by(body: &Document<'_>, ok: bool) -> Self {
        if !ok {
            return Self::No;
        }
        let speculative = body.element("speculativeAuthenticate").ok().flatten();
        let conversation = match speculative.and_then(|element| element.document()) {
            Some(conversation) => conversation,
            None => *body,
        };
        let has = |name| conversation.element(name).ok().flatten();
        match (has("done"), has("conversationId").is_some(), has("hello").or(has("ismaster"))) {
            (Some(done), ..) if done.is_true() => Self::Done,
            (Some(_), ..) | (None, true, _) => Self::Continue,
            // `authenticate` has no conversation: ok is all it says. A hello without the answer to
            // its speculation says nothing.
            (None, false, None) if has("helloOk").is_none() && has("maxWireVersion").is_none() => {
                Self::Done
            }
            _ => Self::No,
        }
    }
}

impl Principal {
    /// What tells this user's answers from others'; none while that is not settled.
    pub(super) fn mark(&self) -> Option<&[u8]> {
        match &self.state {
            _ if self.unsettled > 0 => None,
            State::Anonymous => Some(b""),
            State::Known(claim) => Some(&claim.0),
            State::Claimed(_) | State::Unknown => None,
        }
    }

    pub(super) fn is_anonymous(&self) -> bool {
        matches!(self.state, State::Anonymous) && self.unsettled == 0
    }

    /// The client began or continued to log in.
    pub(super) fn begin(&mut self) {
        self.unsettled += 1;
    }

    /// The origin answered.
    pub(super) fn settle(&mut self, claim: Option<&Claim>, told: Told) {
        self.unsettled = self.unsettled.saturating_sub(1);
        let claim = claim.filter(|claim| !claim.0.is_empty()).cloned();
        let state = std::mem::take(&mut self.state);
        self.state = match (told, claim, state) {
            (Told::Done, Some(claim), _) => State::Known(claim),
            (Told::Done, None, State::Claimed(claim)) => State::Known(claim),
            (Told::Done, None, _) => State::Unknown,
            (Told::Continue, Some(claim), _) => State::Claimed(claim),
            (Told::Continue, None, state @ State::Claimed(_)) => state,
            (Told::Continue, None, _) => State::Unknown,
            // Refused: whoever it was before stays.
            (Told::No, _, State::Claimed(_)) => State::Anonymous,
            (Told::No, _, state) => state,
        };
    }
}

impl Claim {
    /// Who `saslStart`, `authenticate`, or the same inside a `hello`, says it is; none for a request
    /// that only continues, or for a `hello` without it.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let speculative = request.body.element("speculativeAuthenticate").ok().flatten();
        let (body, database) = match speculative.and_then(|element| element.document()) {
            Some(body) => {
                let database = body.element("db").ok().flatten().and_then(|db| db.str());
                (body, database.unwrap_or(request.namespace.database))
            }
            None => (request.body, request.namespace.database),
        };
        let field = |name| body.element(name).ok().flatten();
        let name = match field("payload").and_then(|payload| payload.binary()) {
            Some((_, payload)) if field("saslStart").is_some() => user(payload),
            Some(_) => return None,
            None => field("user").and_then(|user| user.str()).map(str::as_bytes),
        };
        if name.is_none() && field("mechanism").is_none() {
            return None;
        }
        let mut claim = Vec::new();
        if let Some(name) = name {
            claim.extend_from_slice(database.as_bytes());
            claim.push(0);
            claim.extend_from_slice(name);
        }
        Some(Self(claim.into()))
    }
}

/// The name in a SCRAM client-first message (`n,,n=name,r=nonce`) or a PLAIN one (`NUL name NUL …`).
fn user(payload: &[u8]) -> Option<&[u8]> {
    if let Some(plain) = payload.strip_prefix(b"\0") {
        return plain.split(|byte| *byte == 0).next();
    }
    let bare = payload.strip_prefix(b"n,,").or_else(|| payload.strip_prefix(b"y,,"))?;
    bare.split(|byte| *byte == b',').find_map(|part| part.strip_prefix(b"n="))
}

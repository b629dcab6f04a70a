//! Login state of a connection: claims of the client and replies of the origin. The rights of a
//! user are queried in `check`.

use wire::mongo::{bson::Document, request::Request};

use crate::principal::Login;

/// The user of a connection.
#[derive(Debug, Default)]
pub(super) struct Identity {
    state: State,
    /// Number of conversations in progress.
    unsettled: u32,
    /// A name was proven, and there was no logout since.
    proven: bool,
}

#[derive(Debug, Default)]
enum State {
    /// No user is logged in.
    #[default]
    Anonymous,
    /// The conversation of this claim has begun.
    Claimed(Claim),
    /// The claim was proven.
    Known(Claim),
    /// A login whose method does not reveal the user.
    Unknown,
}

/// The claimed user: database, NUL, name. Empty if it could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim(Box<[u8]>);

/// Authentication step of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// `saslStart` or `authenticate`, or one of them inside a `hello`.
    Start(Claim),
    /// `saslContinue`.
    Continue,
    /// `logout`.
    Logout,
}

/// Reply of the origin to a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Told {
    /// Refused, or no statement.
    #[default]
    No,
    /// Continue.
    Continue,
    /// Accepted.
    Done,
}

impl Told {
    /// Reads the reply to a step; inside a `hello` it is a nested document.
    pub(super) fn by(body: &Document<'_>, ok: bool, speculative: bool) -> Self {
        let conversation = match speculative {
            true => body.element("speculativeAuthenticate").ok().flatten(),
            false => None,
        };
        let conversation = conversation.and_then(|element| element.document());
        let Some(conversation) = conversation.or((!speculative).then_some(*body)).filter(|_| ok)
        else {
            return Self::No;
        };
        let has = |name| conversation.element(name).ok().flatten();
        match (has("done"), has("conversationId")) {
            (Some(done), _) if done.is_true() => Self::Done,
            (Some(_), _) | (None, Some(_)) => Self::Continue,
            // `authenticate` and `logout` have no conversation: `ok` is their only result.
            (None, None) => Self::Done,
        }
    }
}

impl Identity {
    /// The user: an empty name without a login; `None` while a login is in progress.
    pub(super) fn name(&self) -> Option<&[u8]> {
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

    /// Whether no step is in progress.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Whether no conversation is in progress.
    pub(super) fn is_followed(&self) -> bool {
        self.is_settled() && !matches!(self.state, State::Claimed(_))
    }

    /// Whether any user is logged in.
    pub(super) fn is_proven(&self) -> bool {
        self.proven
    }

    /// The client takes a step.
    pub(super) fn begin(&mut self) {
        self.unsettled += 1;
    }

    /// The client took a step that will not be answered.
    pub(super) fn lose_track(&mut self) {
        self.proven = false;
        self.state = State::Unknown;
    }

    /// The origin answered a step; returns the login state if it has changed.
    ///
    /// Only a single login is followed: a connection with a second login or a logout is treated as
    /// having unique rights.
    pub(super) fn settle(&mut self, step: &Step, told: Told) -> Option<Login> {
        self.unsettled = self.unsettled.saturating_sub(1);
        let state = std::mem::take(&mut self.state);
        let is_logged_out = matches!(state, State::Anonymous | State::Claimed(_));
        self.state = match (step, told, state) {
            (_, Told::No, State::Claimed(_)) => State::Anonymous,
            (_, Told::No, state) => state,
            (Step::Start(claim), ..) if claim.0.is_empty() || !is_logged_out => State::Unknown,
            (Step::Start(claim), Told::Continue, _) => State::Claimed(claim.clone()),
            (Step::Start(claim), Told::Done, _) => State::Known(claim.clone()),
            (Step::Continue, Told::Continue, State::Claimed(claim)) => State::Claimed(claim),
            (Step::Continue, Told::Done, State::Claimed(claim)) => State::Known(claim),
            (Step::Logout, _, State::Anonymous) => State::Anonymous,
            (Step::Continue | Step::Logout, ..) => State::Unknown,
        };
        let login = match (step, told) {
            (Step::Logout, _) => Login::Unknown,
            (_, Told::Done) => Login::Accepted,
            _ => return None,
        };
        self.proven = login == Login::Accepted;
        Some(login)
    }
}

impl Step {
    /// The authentication step of a command; `None` if it has none.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        match request.name {
            "saslStart" | "authenticate" => {
                Some(Self::Start(Claim::of(&request.body, request.namespace.database)))
            }
            "saslContinue" => Some(Self::Continue),
            "logout" => Some(Self::Logout),
            _ => None,
        }
    }

    /// The first step inside a `hello`, if there is one.
    pub(super) fn inside(request: &Request<'_>) -> Option<Self> {
        let body = request.body.element("speculativeAuthenticate").ok()??;
        // The origin cannot read an invalid document either.
        let Some(body) = body.document() else { return Some(Self::Start(Claim(Box::default()))) };
        let database = body.element("db").ok().flatten().and_then(|database| database.str());
        Some(Self::Start(Claim::of(&body, database.unwrap_or(request.namespace.database))))
    }
}

impl Claim {
    /// The user claimed in `saslStart` or `authenticate`.
    fn of(body: &Document<'_>, database: &str) -> Self {
        let field = |name| body.element(name).ok().flatten();
        let mechanism = field("mechanism").and_then(|mechanism| mechanism.str());
        let payload = field("payload").and_then(|payload| payload.binary());
        let name = match (mechanism, payload) {
            (Some("SCRAM-SHA-1" | "SCRAM-SHA-256"), Some((_, payload))) => scram(payload),
            (Some("PLAIN"), Some((_, payload))) => plain(payload),
            (Some("MONGODB-X509"), None) => {
                field("user").and_then(|user| user.str()).map(str::as_bytes)
            }
            _ => None,
        };
        let Some(name) = name else { return Self(Box::default()) };
        Self([database.as_bytes(), &[0], name].concat().into())
    }
}

/// The name in a SCRAM client-first message, `n,,n=name,r=nonce`.
fn scram(payload: &[u8]) -> Option<&[u8]> {
    let bare = payload.strip_prefix(b"n,,").or_else(|| payload.strip_prefix(b"y,,"))?;
    bare.split(|byte| *byte == b',').next()?.strip_prefix(b"n=")
}

/// The name in a PLAIN message, `NUL name NUL password`.
fn plain(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_prefix(b"\0")?.split(|byte| *byte == 0).next()
}

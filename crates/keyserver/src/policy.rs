//! Access policy: which edge may use which key by which operation. What no rule allows is denied.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use wire::ski::{KeyId, Method, Request};

use crate::{
    SigningKey,
    key::name_fits,
    rate::{Limiter, Rate},
};

/// Keys whose rates are watched at once; where more are in use, the next one is denied.
const KEY_BUCKETS_MAX: usize = 1 << 16;

/// The whole policy. Empty, it denies everything.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The permissions of each edge, by the name in its certificate.
    pub edges: HashMap<String, Edge>,
    /// Whether RSA decryption is enabled at all, regardless of the rules.
    pub premaster_decryption: bool,
}

/// The permissions of one edge.
#[derive(Debug, Clone, Default)]
pub struct Edge {
    /// Requests of all kinds together.
    pub rate: Option<Rate>,
    /// The first rule that fits allows.
    pub rules: Vec<Rule>,
}

/// One thing that is allowed.
#[derive(Debug, Clone)]
pub struct Rule {
    /// On which keys.
    pub keys: Keys,
    /// By which methods.
    pub methods: Vec<Method>,
    /// Only for these names, and then the request must say one; empty: for any. `*.` in front
    /// stands for one label.
    pub server_names: Vec<String>,
    /// Requests for each key.
    pub rate: Option<Rate>,
}

/// Which keys a rule is about.
#[derive(Debug, Clone)]
pub enum Keys {
    /// Every key.
    All,
    /// These.
    These(HashSet<KeyId>),
}

/// Why a request is denied; for log and audit, never for the edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The policy does not know the edge.
    #[error("the policy has no such edge")]
    UnknownEdge,
    /// RSA decryption is switched off.
    #[error("premaster_decryption is off")]
    DecryptionOff,
    /// No rule allows it.
    #[error("no rule of the edge allows it")]
    NoRule,
    /// The edge asks too often.
    #[error("the edge exceeds its requests_per_second")]
    EdgeRate,
    /// Too many requests for the key.
    #[error("the edge exceeds its requests_per_second_and_key")]
    KeyRate,
    /// The key is not for the name the request gives.
    #[error("the key is not for this server name")]
    ServerName,
}

/// Rates used so far.
pub struct Rates {
    edges: Limiter<String>,
    keys: Limiter<(String, KeyId)>,
}

impl Rates {
    /// Nothing used yet; `edges` is how many edges the policy has.
    pub fn new(edges: usize) -> Self {
        Self { edges: Limiter::new(edges), keys: Limiter::new(KEY_BUCKETS_MAX) }
    }
}

impl Policy {
    /// Whether `request` of `edge` may be answered now. It counts against the rates unless it is
    /// denied for another reason.
    pub fn admit(
        &self,
        edge: &str,
        request: &Request,
        rates: &mut Rates,
        now: Duration,
    ) -> Result<(), Denial> {
        let rules = self.edges.get(edge).ok_or(Denial::UnknownEdge)?;
        let method = request.operation.method();
        if method == Method::Rsa && !self.premaster_decryption {
            return Err(Denial::DecryptionOff);
        }
        let rule = rules.rules.iter().find(|rule| rule.fits(request)).ok_or(Denial::NoRule)?;
        let edge = edge.to_owned();
        if rules.rate.is_some_and(|rate| !rates.edges.take(&edge, rate, now)) {
            return Err(Denial::EdgeRate);
        }
        if rule.rate.is_some_and(|rate| !rates.keys.take(&(edge, request.key), rate, now)) {
            return Err(Denial::KeyRate);
        }
        Ok(())
    }
}

/// Whether `key` may serve the name in `request`, if there is one.
pub fn check_server_name(key: &SigningKey, request: &Request) -> Result<(), Denial> {
    match &request.server_name {
        Some(name) if !key.is_for(name) => Err(Denial::ServerName),
        _ => Ok(()),
    }
}

impl Rule {
    fn fits(&self, request: &Request) -> bool {
        let key = match &self.keys {
            Keys::All => true,
            Keys::These(keys) => keys.contains(&request.key),
        };
        let name = self.server_names.is_empty()
            || request
                .server_name
                .as_deref()
                .is_some_and(|name| self.server_names.iter().any(|own| name_fits(own, name)));
        key && name && self.methods.contains(&request.operation.method())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ski::{Operation, Scheme, TranscriptHash};

    const KEY: KeyId = KeyId([7; 32]);

    fn request(server_name: Option<&str>) -> Request {
        Request {
            key: KEY,
            server_name: server_name.map(str::to_owned),
            operation: Operation::CertificateVerify {
                transcript_hash: TranscriptHash::Sha256([1; 32]),
                scheme: Scheme::EcdsaP256Sha256,
            },
        }
    }

    fn rule() -> Rule {
        Rule {
            keys: Keys::These(HashSet::from([KEY])),
            methods: vec![Method::CertificateVerify, Method::Rsa],
            server_names: vec![],
            rate: None,
        }
    }

    fn admit(rule: Rule, edge: &str, request: &Request, decryption: bool) -> Result<(), Denial> {
        let edges = HashMap::from([("edge".to_owned(), Edge { rate: None, rules: vec![rule] })]);
        let policy = Policy { edges, premaster_decryption: decryption };
        policy.admit(edge, request, &mut Rates::new(1), Duration::ZERO)
    }

    #[test]
    fn what_no_rule_allows_is_denied() {
        let asked = request(None);
        assert_eq!(admit(rule(), "edge", &asked, false), Ok(()));
        assert_eq!(admit(rule(), "other", &asked, false), Err(Denial::UnknownEdge));
        let other = Request { key: KeyId([8; 32]), ..asked.clone() };
        assert_eq!(admit(rule(), "edge", &other, false), Err(Denial::NoRule));
        assert_eq!(admit(Rule { keys: Keys::All, ..rule() }, "edge", &other, false), Ok(()));
        let ecdhe = Rule { methods: vec![Method::Ecdhe], ..rule() };
        assert_eq!(admit(ecdhe, "edge", &asked, false), Err(Denial::NoRule));
        let empty = Policy::default().admit("edge", &asked, &mut Rates::new(0), Duration::ZERO);
        assert_eq!(empty, Err(Denial::UnknownEdge));
    }

    #[test]
    fn decryption_needs_its_switch_and_a_rule() {
        let operation = Operation::Premaster { encrypted: vec![0; 256] };
        let asked = Request { operation, ..request(None) };
        assert_eq!(admit(rule(), "edge", &asked, false), Err(Denial::DecryptionOff));
        assert_eq!(admit(rule(), "edge", &asked, true), Ok(()));
        let other = Rule { methods: vec![Method::CertificateVerify], ..rule() };
        assert_eq!(admit(other, "edge", &asked, true), Err(Denial::NoRule));
    }

    #[test]
    fn a_rule_with_names_wants_one_of_them() {
        let named = || Rule { server_names: vec!["*.example.org".to_owned()], ..rule() };
        for (name, allowed) in [
            (Some("www.example.org"), true),
            (Some("a.b.example.org"), false),
            (Some("example.org"), false),
            (Some("www.example.com"), false),
            (None, false),
        ] {
            let outcome = admit(named(), "edge", &request(name), false);
            assert_eq!(outcome.is_ok(), allowed, "{name:?}");
        }
    }

    #[test]
    fn rates_hold_for_the_edge_and_for_each_key() {
        let rate = Rate { per_second: 1.0, burst: 2.0 };
        let any = Rule { keys: Keys::All, rate: Some(Rate { burst: 1.0, ..rate }), ..rule() };
        let edges =
            HashMap::from([("edge".to_owned(), Edge { rate: Some(rate), rules: vec![any] })]);
        let policy = Policy { edges, premaster_decryption: false };
        let mut rates = Rates::new(1);
        let mut ask = |key| {
            let asked = Request { key: KeyId([key; 32]), ..request(None) };
            policy.admit("edge", &asked, &mut rates, Duration::ZERO)
        };
        assert_eq!(ask(1), Ok(()));
        assert_eq!(ask(1), Err(Denial::KeyRate));
        assert_eq!(ask(2), Err(Denial::EdgeRate));
    }

    #[test]
    fn a_rate_for_each_key_is_of_one_edge_and_one_key() {
        let rate = Some(Rate { per_second: 1.0, burst: 1.0 });
        let any = Edge { rate: None, rules: vec![Rule { keys: Keys::All, rate, ..rule() }] };
        let edges = ["a", "b"].map(|name| (name.to_owned(), any.clone()));
        let policy = Policy { edges: HashMap::from(edges), premaster_decryption: false };
        let mut rates = Rates::new(2);
        for (edge, key, outcome) in
            [("a", 1, Ok(())), ("a", 1, Err(Denial::KeyRate)), ("a", 2, Ok(())), ("b", 1, Ok(()))]
        {
            let asked = Request { key: KeyId([key; 32]), ..request(None) };
            let admitted = policy.admit(edge, &asked, &mut rates, Duration::ZERO);
            assert_eq!(admitted, outcome, "{edge} {key}");
        }
    }

    #[test]
    fn what_is_denied_for_another_reason_takes_nothing_of_the_rate() {
        let rate = Some(Rate { per_second: 1.0, burst: 1.0 });
        let edges = HashMap::from([("edge".to_owned(), Edge { rate, rules: vec![rule()] })]);
        let policy = Policy { edges, premaster_decryption: false };
        let mut rates = Rates::new(1);
        let mut ask = |key| {
            let asked = Request { key, ..request(None) };
            policy.admit("edge", &asked, &mut rates, Duration::ZERO)
        };
        assert_eq!(ask(KeyId([8; 32])), Err(Denial::NoRule));
        assert_eq!(ask(KEY), Ok(()));
        assert_eq!(ask(KEY), Err(Denial::EdgeRate));
    }
}

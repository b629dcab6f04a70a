//! The policy file: TOML to `keyserver::Policy`. The guide shows one.

use std::{fs, path::Path};

use anyhow::{Context, anyhow, bail};
use keyserver::{
    Policy,
    policy::{Edge, Keys, Rule},
    rate::Rate,
};
use notation::place;
use serde::Deserialize;
use wire::ski::{KeyId, Method};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    premaster_decryption: bool,
    edge: Vec<EdgeDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeDocument {
    name: String,
    requests_per_second: Option<f64>,
    allow: Vec<RuleDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDocument {
    keys: Vec<String>,
    methods: Vec<String>,
    #[serde(default)]
    server_names: Vec<String>,
    requests_per_second_and_key: Option<f64>,
}

/// Reads the policy at `path`.
pub fn read(path: &Path) -> anyhow::Result<Policy> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the policy {}", path.display()))?;
    parse(&text).with_context(|| format!("{}", path.display()))
}

fn parse(text: &str) -> anyhow::Result<Policy> {
    let document: Document = toml::from_str(text)
        .map_err(|error| anyhow!("{}: {}", place(text, error.span()), error.message()))?;
    let mut policy =
        Policy { premaster_decryption: document.premaster_decryption, ..Policy::default() };
    for edge in document.edge {
        let rules = edge
            .allow
            .iter()
            .map(RuleDocument::rule)
            .collect::<anyhow::Result<_>>()
            .with_context(|| format!("edge {:?}", edge.name))?;
        let rate = edge.requests_per_second.map(rate).transpose()?;
        let name = edge.name.to_ascii_lowercase();
        if policy.edges.insert(name, Edge { rate, rules }).is_some() {
            bail!(
                "edge {:?} is configured twice; use several [[edge.allow]] in one [[edge]]",
                edge.name
            );
        }
    }
    Ok(policy)
}

impl RuleDocument {
    fn rule(&self) -> anyhow::Result<Rule> {
        let keys = match &self.keys[..] {
            [all] if all == "*" => Keys::All,
            ids => Keys::These(ids.iter().map(|id| key_id(id)).collect::<Result<_, _>>()?),
        };
        let methods = self.methods.iter().map(|name| {
            Method::named(name).with_context(|| {
                format!("method {name:?}: expected ECDHE, CertificateVerify or RSA")
            })
        });
        Ok(Rule {
            keys,
            methods: methods.collect::<Result<_, _>>()?,
            server_names: self.server_names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            rate: self.requests_per_second_and_key.map(rate).transpose()?,
        })
    }
}

fn key_id(text: &str) -> anyhow::Result<KeyId> {
    KeyId::decode(text)
        .with_context(|| format!("key {text:?}: expected 64 hexadecimal digits, or \"*\" alone"))
}

/// A second's worth may come at once.
fn rate(per_second: f64) -> anyhow::Result<Rate> {
    if !per_second.is_finite() || per_second <= 0.0 {
        bail!("requests per second: expected more than 0, got {per_second}");
    }
    Ok(Rate { per_second, burst: per_second.max(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_s_policy_is_understood() {
        let guide = include_str!("../../../docs/guide/keyserver.md");
        let (_, rest) = guide.split_once("```toml\n").expect("a policy in the guide");
        let (text, _) = rest.split_once("```").expect("its end");
        let policy = parse(text).unwrap();
        assert!(!policy.premaster_decryption);
        assert_eq!(policy.edges["edge1.example"].rules.len(), 2);
    }

    #[test]
    fn mistakes_are_named() {
        let edge = |rest: &str| format!("[[edge]]\nname = \"a\"\n[[edge.allow]]\n{rest}");
        for (text, named) in [
            ("", "edge"),
            (&edge("keys = [\"*\"]"), "methods"),
            (&edge("keys = [\"12\"]\nmethods = [\"RSA\"]"), "64 hexadecimal digits"),
            (&edge("keys = [\"*\"]\nmethods = [\"SIGN\"]"), "SIGN"),
            (&edge("keys = [\"*\"]\nmethods = []\nserver_name = 1"), "server_name"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}

//! The address of a primary that Sentinels name.

/// Sentinels and the primary that they monitor: `HOST,HOST:PORT/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentinels {
    /// The Sentinels, each `host:port`.
    pub hosts: Vec<String>,
    /// Name of the primary.
    pub name: String,
}

/// The port of a Sentinel, unless an address says another.
const PORT: u16 = 26379;

impl Sentinels {
    /// Reads what follows `redis+sentinel://`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (hosts, name) = text.split_once('/').unwrap_or((text, ""));
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_valid) {
            return Err(
                "has no name of a primary; expected redis+sentinel://HOST,HOST/NAME, NAME of \
                 letters, digits, `-`, `_` and `.`"
                    .to_owned(),
            );
        }
        let hosts: Vec<String> =
            hosts.split(',').map(|host| super::with_port(host, PORT)).collect::<Result<_, _>>()?;
        if let Some(twice) = hosts.iter().enumerate().find(|(at, host)| hosts[..*at].contains(host))
        {
            return Err(format!("names the Sentinel {} twice", twice.1));
        }
        Ok(Self { hosts, name: name.to_owned() })
    }
}

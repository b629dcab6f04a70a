//! SCRAM-SHA-256, the client's side of it (RFC 5802, RFC 7677): the login of connections of our
//! own.
//!
//! Logins of clients are forwarded unchanged. This module is for the feed of an origin, which has
//! its own user. A password with characters outside ASCII must be in the form of SASLprep (RFC
//! 4013).

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::reader::malformed;
use crate::Result;

/// The mechanism's name in `saslStart`.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// Fewer iterations than RFC 7677 allows make a stolen conversation easy to search.
const ITERATIONS_MIN: u32 = 4_096;
/// Servers use 15,000. Each costs about a microsecond, and the origin chooses the number.
const ITERATIONS_MAX: u32 = 1_000_000;

type Key = [u8; 32];

/// One login.
pub struct Client {
    password: String,
    nonce: String,
    /// The first message without its header.
    first: String,
    /// The signature that only a server that knows the password can produce.
    expected: Option<Key>,
    verified: bool,
}

impl Client {
    /// The login of `user`. `nonce` must be unpredictable, printable, and used once.
    #[must_use]
    pub fn new(user: &str, password: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        Self { password: password.to_owned(), nonce, first, expected: None, verified: false }
    }

    /// The first message.
    #[must_use]
    pub fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The answer to the server's challenge.
    ///
    /// # Errors
    /// The challenge is none, answers another login, or asks for too few or too many iterations.
    pub fn answer(&mut self, challenge: &[u8]) -> Result<String> {
        let refused = |expected, got: &str| malformed(0, expected, got);
        let text = std::str::from_utf8(challenge).unwrap_or_default();
        let nonce = field(text, "r=").filter(|nonce| nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or_else(|| refused("a SCRAM challenge to this login", "another"))?;
        let salt = field(text, "s=").and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let salt = salt.ok_or_else(|| refused("a SCRAM challenge with a salt", "none"))?;
        let count = field(text, "i=").unwrap_or_default();
        let iterations: u32 = count.parse().unwrap_or(0);
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(refused("4,096 to 1,000,000 SCRAM iterations", count));
        }
        let salted = salted(self.password.as_bytes(), &salt, iterations);
        let client_key = sign(&salted, b"Client Key");
        // `biws` is the header `n,,` in base64.
        let last = format!("c=biws,r={nonce}");
        let conversation = format!("{},{text},{last}", self.first);
        let signature = sign(&Sha256::digest(client_key).into(), conversation.as_bytes());
        let proof = BASE64_STANDARD.encode(xor(client_key, &signature));
        self.expected = Some(sign(&sign(&salted, b"Server Key"), conversation.as_bytes()));
        Ok(format!("{last},p={proof}"))
    }

    /// Checks that the server knows the password too.
    ///
    /// # Errors
    /// It does not, or refuses the login.
    pub fn verify(&mut self, last: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(last).unwrap_or_default();
        let signed = field(text, "v=").and_then(|signature| BASE64_STANDARD.decode(signature).ok());
        match (&self.expected, signed) {
            (Some(expected), Some(signed)) if signed == expected => {
                self.verified = true;
                Ok(())
            }
            _ => Err(malformed(0, "a server that proves to know the password", "no proof")),
        }
    }

    /// Whether the challenge was answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.expected.is_some()
    }

    /// Whether the server has proven that it knows the password.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.verified
    }
}

/// Shows no password.
impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Client").finish_non_exhaustive()
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(',').find_map(|field| field.strip_prefix(name))
}

/// RFC 5802's `Hi`: PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut block = sign_with(password, &[salt, &1_u32.to_be_bytes()]);
    let mut salted = block;
    for _ in 1..iterations {
        block = sign_with(password, &[&block]);
        salted = xor(salted, &block);
    }
    salted
}

fn sign(key: &Key, text: &[u8]) -> Key {
    sign_with(key, &[text])
}

fn sign_with(key: &[u8], parts: &[&[u8]]) -> Key {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Key::default() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn xor(mut one: Key, other: &Key) -> Key {
    one.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    one
}

#[cfg(test)]
mod tests {
    use super::Client;

    const CHALLENGE: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn login() -> Client {
        Client::new("user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_owned())
    }

    #[test]
    fn the_conversation_is_that_of_rfc_7677() {
        let mut client = login();
        assert_eq!(client.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        assert_eq!(
            client.answer(CHALLENGE).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(client.is_answered() && !client.is_verified());
        for wrong in [&b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="[..], b"e=other-error", b""]
        {
            client.verify(wrong).unwrap_err();
        }
        assert!(!client.is_verified());
        client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(client.is_verified());
    }

    #[test]
    fn a_name_is_escaped_and_a_password_is_not_shown() {
        let client = Client::new("a=b,c", "secret", "n".to_owned());
        assert_eq!(client.first(), "n,,n=a=3Db=2Cc,r=n");
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[test]
    fn a_challenge_of_another_login_or_with_other_costs_is_refused() {
        let challenge = String::from_utf8(CHALLENGE.to_vec()).unwrap();
        for wrong in [
            challenge.replace("r=rOprNG", "r=xOprNG"),
            challenge.replace("i=4096", "i=4095"),
            challenge.replace("i=4096", "i=4000000000"),
            challenge.replace("i=4096", "i=x"),
            challenge.replace("s=W22", "s=*"),
            String::new(),
        ] {
            login().answer(wrong.as_bytes()).unwrap_err();
        }
        login().verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap_err();
    }
}

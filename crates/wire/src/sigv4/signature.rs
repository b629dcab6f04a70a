//! Signatures in the header `Authorization`.

use std::{fmt, str, time::Duration};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::{Credentials, asymmetric, credentials::Credential, request::DAYS_TO_1970};
use crate::http1::{Head, RequestHead};

/// Maximum difference between the time of a signature and the time of day.
pub const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
pub(super) const END: &str = "aws4_request";
pub(super) const TOKEN: &str = "x-amz-security-token";
pub(super) const DAY_S: i64 = 24 * 3_600;

/// Why a signature was not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no signature.
    Absent,
    /// The signature has another form, or is of another algorithm.
    Form,
    /// A header that must be signed is not.
    Unsigned,
    /// The access key is not known, has expired, or belongs to another session.
    UnknownKey,
    /// The signature is older or newer than [`SKEW_MAX`].
    Skew,
    /// The signature is that of another request, or of another secret.
    Mismatch,
}

/// What a verified signature states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer<'a, 'c> {
    /// The access key.
    pub access_key: &'a str,
    /// The same for all access keys that are declared to have the same rights.
    pub holder: &'c str,
    /// The region that the request is for; of version 4A the set of regions, as it is stated.
    pub region: &'a str,
    /// Whether the signature is of version 4A: no other request can be signed for this signer.
    pub by_key_pair: bool,
}

/// Verifies signatures. Keeps the keys derived for the last signer.
#[derive(Default)]
pub struct Verifier {
    last: Option<Box<Derived>>,
    public: asymmetric::Key,
}

struct Derived {
    access_key: String,
    /// Date, region and service.
    scope: String,
    mac: Hmac<Sha256>,
}

enum Signature {
    Symmetric([u8; 32]),
    /// Version 4A, in DER.
    Asymmetric(Vec<u8>),
}

/// A signature as the request states it.
struct Claim<'a> {
    access_key: &'a str,
    /// Date, region, service and terminator, separated by slashes; without the region in version
    /// 4A.
    scope: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    /// Names in lower case and in order, separated by semicolons.
    signed: &'a str,
    /// The same one by one.
    names: Vec<&'a str>,
    signature: Signature,
    /// As the header `X-Amz-Date` has it.
    time: &'a str,
}

impl Verifier {
    /// Verifies the signature of a request for `service`, whose body is `body` without its
    /// framing. `now` is the time since 1970.
    ///
    /// # Errors
    /// Why it could not be verified.
    pub fn verify<'a, 'c>(
        &mut self,
        request: &RequestHead<'a>,
        body: &[u8],
        service: &str,
        credentials: &'c Credentials,
        now: Duration,
    ) -> Result<Signer<'a, 'c>, Refusal> {
        let claim = Claim::of(&request.head)?;
        if claim.service != service || request.target != "/" {
            return Err(Refusal::Form);
        }
        claim.check_signed(&request.head)?;
        let credential = credentials.of(claim.access_key).ok_or(Refusal::UnknownKey)?;
        if credential.token.is_some() != request.head.one(TOKEN).is_some() {
            return Err(Refusal::UnknownKey);
        }
        if credential.until.is_some_and(|until| until <= now) {
            return Err(Refusal::UnknownKey);
        }
        let signed_at = seconds(claim.time).ok_or(Refusal::Form)?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now_s.abs_diff(signed_at) > SKEW_MAX.as_secs() {
            return Err(Refusal::Skew);
        }
        let by_key_pair = match &claim.signature {
            Signature::Symmetric(stated) => {
                let mac = self.mac(&claim, request, body, credential)?;
                // In constant time.
                mac.verify_slice(stated).map_err(|_| Refusal::Mismatch)?;
                false
            }
            Signature::Asymmetric(stated) => {
                let canonical = claim.canonical(request, body, credential)?;
                let message = claim.message(asymmetric::ALGORITHM, &canonical).concat();
                self.public.verify(claim.access_key, credential, &message, stated)?;
                true
            }
        };
        let (access_key, region) = (claim.access_key, claim.region);
        Ok(Signer { access_key, holder: &credential.holder, region, by_key_pair })
    }

    /// The signature, in hexadecimal, with which the signer of a request that was verified would
    /// have signed `request`: the same but for its body and the headers that state it.
    ///
    /// # Errors
    /// Why it cannot be signed.
    pub fn sign(
        &mut self,
        request: &RequestHead<'_>,
        body: &[u8],
        credentials: &Credentials,
    ) -> Result<[u8; 64], Refusal> {
        let claim = Claim::of(&request.head)?;
        if matches!(claim.signature, Signature::Asymmetric(_)) {
            return Err(Refusal::Form);
        }
        let credential = credentials.of(claim.access_key).ok_or(Refusal::UnknownKey)?;
        let mac = self.mac(&claim, request, body, credential)?;
        Ok(hex(&mac.finalize().into_bytes().into()))
    }

    /// What the signature of a claim must be.
    fn mac(
        &mut self,
        claim: &Claim<'_>,
        request: &RequestHead<'_>,
        body: &[u8],
        credential: &Credential,
    ) -> Result<Hmac<Sha256>, Refusal> {
        let canonical = claim.canonical(request, body, credential)?;
        let mut mac = self.derived(claim, credential)?;
        for part in claim.message(ALGORITHM, &canonical) {
            mac.update(part);
        }
        Ok(mac)
    }

    /// The key for the scope of a claim.
    fn derived(
        &mut self,
        claim: &Claim<'_>,
        credential: &Credential,
    ) -> Result<Hmac<Sha256>, Refusal> {
        let is_same = |derived: &&Derived| {
            derived.access_key == claim.access_key && derived.scope == claim.scope
        };
        if let Some(derived) = self.last.as_deref().filter(is_same) {
            return Ok(derived.mac.clone());
        }
        let mut key = keyed([b"AWS4", credential.secret.as_bytes()].concat().as_slice())?;
        for part in [claim.date, claim.region, claim.service, END] {
            key.update(part.as_bytes());
            key = keyed(&key.finalize().into_bytes())?;
        }
        let (access_key, scope) = (claim.access_key.to_owned(), claim.scope.to_owned());
        self.last = Some(Box::new(Derived { access_key, scope, mac: key.clone() }));
        Ok(key)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Verifier").finish_non_exhaustive()
    }
}

fn keyed(key: &[u8]) -> Result<Hmac<Sha256>, Refusal> {
    // A key of any length is valid.
    Hmac::new_from_slice(key).map_err(|_| Refusal::Form)
}

impl<'a> Claim<'a> {
    fn of(head: &Head<'a>) -> Result<Self, Refusal> {
        let mut stated = head.all("authorization");
        let first = stated.next().ok_or(Refusal::Absent)?;
        let text = str::from_utf8(first).ok().filter(|_| stated.next().is_none());
        text.and_then(|text| Self::parse(text, head)).ok_or(Refusal::Form)
    }

    fn parse(text: &'a str, head: &Head<'a>) -> Option<Self> {
        let (algorithm, text) = text.split_once(' ')?;
        let mut parts = text.split(',').map(str::trim);
        let credential = parts.next()?.strip_prefix("Credential=")?;
        let signed = parts.next()?.strip_prefix("SignedHeaders=")?;
        let signature = parts.next()?.strip_prefix("Signature=")?;
        let (access_key, scope) = credential.split_once('/')?;
        let mut scopes = scope.split('/');
        let date = scopes.next()?;
        let (region, signature) = match algorithm {
            ALGORITHM => (scopes.next()?, Signature::Symmetric(unhex(signature)?)),
            asymmetric::ALGORITHM => {
                let signature = Signature::Asymmetric(asymmetric::unhex(signature)?);
                (asymmetric::regions(head)?, signature)
            }
            _ => return None,
        };
        let (service, end) = (scopes.next()?, scopes.next());
        let time = str::from_utf8(head.one("x-amz-date")?).ok()?;
        let is_whole = parts.next().is_none() && scopes.next().is_none() && end == Some(END);
        let is_whole = is_whole && !access_key.is_empty() && time.get(..8) == Some(date);
        is_whole.then_some(Self {
            access_key,
            scope,
            date,
            region,
            service,
            signed,
            names: signed.split(';').collect(),
            signature,
            time,
        })
    }

    /// Checks that the list of signed headers is in order, and has those that must be in it.
    fn check_signed(&self, head: &Head<'_>) -> Result<(), Refusal> {
        let names = &self.names;
        let is_lower =
            |name: &&str| !name.is_empty() && !name.bytes().any(|b| b.is_ascii_uppercase());
        if !names.iter().all(is_lower) || !names.is_sorted_by(|one, next| one < next) {
            return Err(Refusal::Form);
        }
        let is_signed = |wanted: &str| names.iter().any(|name| name.eq_ignore_ascii_case(wanted));
        let must_be =
            |name: &&str| name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
        let mut needed = head.headers.iter().map(|(name, _)| *name).filter(must_be);
        let all = is_signed("host") && needed.all(is_signed);
        all.then_some(()).ok_or(Refusal::Unsigned)
    }

    /// What is signed.
    fn message<'m>(&'m self, algorithm: &'m str, canonical: &'m [u8; 64]) -> [&'m [u8]; 7] {
        let [algorithm, time, scope] = [algorithm, self.time, self.scope].map(str::as_bytes);
        [algorithm, b"\n", time, b"\n", scope, b"\n", canonical]
    }

    /// The hash of the canonical request, in hexadecimal.
    fn canonical(
        &self,
        request: &RequestHead<'_>,
        body: &[u8],
        credential: &Credential,
    ) -> Result<[u8; 64], Refusal> {
        let payload = hex(&Sha256::digest(body).into());
        let stated = request.head.all("x-amz-content-sha256");
        if stated.into_iter().any(|stated| stated != payload) {
            // Not signed, signed in chunks, or that of another body.
            return Err(Refusal::Mismatch);
        }
        let mut text = Vec::with_capacity(request.head.bytes + FRAMING_BYTES);
        for part in [request.method, "\n/\n\n"] {
            text.extend_from_slice(part.as_bytes());
        }
        for name in &self.names {
            text.extend_from_slice(name.as_bytes());
            let mut values = request.head.all(name).peekable();
            if values.peek().is_none() {
                return Err(Refusal::Form);
            }
            // The token of a client that knows the secret and another token is not compared with
            // that of the session, but replaced by it: the signature differs then.
            let token = credential.token.as_deref().filter(|_| *name == TOKEN);
            for (place, value) in values.enumerate() {
                text.push(if place == 0 { b':' } else { b',' });
                write_trimmed(token.map_or(value, str::as_bytes), &mut text);
            }
            text.push(b'\n');
        }
        for part in [b"\n", self.signed.as_bytes(), b"\n", &payload] {
            text.extend_from_slice(part);
        }
        // At once: a hash that is fed in small parts copies each of them.
        Ok(hex(&Sha256::digest(&text).into()))
    }
}

/// Length of a canonical request beyond that of the head, usually: the hash of the body, and the
/// names again.
const FRAMING_BYTES: usize = 256;

/// Appends the value of a header; several blanks in a row count as one.
fn write_trimmed(value: &[u8], text: &mut Vec<u8>) {
    if memchr::memchr2(b' ', b'\t', value).is_none() {
        return text.extend_from_slice(value);
    }
    let words = value.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    for (place, word) in words.enumerate() {
        if place > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(word);
    }
}

pub(super) fn hex(bytes: &[u8; 32]) -> [u8; 64] {
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    let mut out = [0; 64];
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    out
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let (mut out, mut all) = ([0; 32], 0);
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        for &digit in pair {
            // No jumps: a processor cannot foresee digits.
            let number = digit.wrapping_sub(b'0');
            let letter = digit.wrapping_sub(b'a').saturating_add(10);
            let nibble = if number < 10 { number } else { letter };
            all |= nibble;
            *byte = *byte << 4 | nibble & 15;
        }
    }
    (all < 16).then_some(out)
}

/// Seconds from 1970 to `20150830T123600Z`.
pub(super) fn seconds(time: &str) -> Option<i64> {
    let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, length| {
        let is_plain = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| is_plain)
    };
    let (date, clock) = (numbers(date, 8)?, numbers(clock, 6)?);
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let (hour, minute, second) = (clock / 10_000, clock / 100 % 100, clock % 100);
    let is_time = hour < 24 && minute < 60 && second < 61;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !is_time {
        return None;
    }
    // Years begin in March, so that the leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970;
    Some(days * DAY_S + hour * 3_600 + minute * 60 + second)
}

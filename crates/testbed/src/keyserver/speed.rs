//! Speed of each operation on one core, and how well RSA decryption hides the padding. Measure both
//! before a machine is given keys.

use std::time::Duration;

use anyhow::Context;
use keyserver::{SigningKey, key};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use serde::Serialize;
use wire::ski::{KeyKind, Operation, PREMASTER_BYTES, Scheme, TranscriptHash};

use crate::{clock::processor_time, services::Random};

/// Number of operations between two readings of the clock.
const BATCH: u64 = 16;

/// Operations per second of processor time, and the timing of invalid padding.
#[derive(Debug, Serialize)]
pub struct Report {
    /// ECDSA P-256 CertificateVerify signatures.
    pub ecdsa_p256: f64,
    /// ECDSA P-384 signatures.
    pub ecdsa_p384: f64,
    /// Ed25519 signatures.
    pub ed25519: f64,
    /// RSA-2048 PSS signatures.
    pub rsa2048: f64,
    /// RSA-2048 premaster decryptions.
    pub rsa2048_premaster: f64,
    /// Decryption time of valid padding beside each kind of invalid padding.
    pub padding: Vec<Padding>,
}

/// Decryption of premasters with one fault and of valid ones, in random order.
#[derive(Debug, Serialize)]
pub struct Padding {
    /// The fault in the padding.
    pub fault: &'static str,
    /// Minimum number of decryptions of each kind.
    pub samples: usize,
    /// Median time of valid ones, in ns.
    pub good_ns: f64,
    /// Median time of invalid ones, in ns.
    pub bad_ns: f64,
    /// Welch's t of the means without the slowest tenth; below 4.5 there is no evidence of a
    /// difference (the usual bound of leakage tests).
    pub t: f64,
}

/// Measures on the current core: `each` of processor time per operation, `samples` decryptions per
/// fault.
///
/// # Errors
/// The thread cannot be pinned to a core, or the cryptographic library fails.
pub fn measure(each: Duration, samples: usize, random: Random) -> anyhow::Result<Report> {
    let mut core = CpuSet::new();
    core.set(sched_getcpu());
    sched_setaffinity(None, &core).context("cannot pin the thread to one core")?;
    let sign = |kind, scheme| {
        let operation = Operation::CertificateVerify {
            transcript_hash: TranscriptHash::Sha256([7; 32]),
            scheme,
        };
        rate(&make(kind)?, &operation, each)
    };
    let rsa = make(KeyKind::Rsa)?;
    let good = Operation::Premaster { encrypted: encrypted(&rsa, Fault::None, random)? };
    Ok(Report {
        ecdsa_p256: sign(KeyKind::EcdsaP256, Scheme::EcdsaP256Sha256)?,
        ecdsa_p384: sign(KeyKind::EcdsaP384, Scheme::EcdsaP384Sha384)?,
        ed25519: sign(KeyKind::Ed25519, Scheme::Ed25519)?,
        rsa2048: sign(KeyKind::Rsa, Scheme::RsaPssSha256)?,
        rsa2048_premaster: rate(&rsa, &good, each)?,
        padding: [Fault::None, Fault::Version, Fault::Length, Fault::Padding]
            .into_iter()
            .map(|fault| compare(&rsa, fault, samples, random))
            .collect::<anyhow::Result<_>>()?,
    })
}

fn make(kind: KeyKind) -> anyhow::Result<SigningKey> {
    Ok(SigningKey::from_pkcs8(&key::generate(kind)?, Vec::new())?)
}

fn rate(key: &SigningKey, operation: &Operation, each: Duration) -> anyhow::Result<f64> {
    let (began, mut done) = (processor_time(), 0);
    loop {
        for _ in 0..BATCH {
            perform(key, operation)?;
        }
        done += BATCH;
        let spent = processor_time() - began;
        if spent >= each {
            return Ok(done as f64 / spent.as_secs_f64());
        }
    }
}

fn perform(key: &SigningKey, operation: &Operation) -> anyhow::Result<()> {
    std::hint::black_box(key.perform(operation)?);
    Ok(())
}

#[derive(Clone, Copy)]
enum Fault {
    /// No fault: the difference between two measurements of the same.
    None,
    Version,
    Length,
    Padding,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none (control)",
            Self::Version => "version",
            Self::Length => "length 47",
            Self::Padding => "padding",
        }
    }
}

/// A new ciphertext each time, so that no cache contains it.
fn encrypted(key: &SigningKey, fault: Fault, random: Random) -> anyhow::Result<Vec<u8>> {
    let mut secret = [0; PREMASTER_BYTES];
    random(&mut secret);
    secret[..2].copy_from_slice(if matches!(fault, Fault::Version) { &[3, 1] } else { &[3, 3] });
    let length = if matches!(fault, Fault::Length) { PREMASTER_BYTES - 1 } else { PREMASTER_BYTES };
    let mut encrypted = key::encrypt_premaster(&key.public_key()?, &secret[..length])?;
    if matches!(fault, Fault::Padding) {
        // Any other number below the modulus: its block begins with 00 02 in one of 65,536 cases.
        let last = encrypted.len() - 1;
        encrypted[last] ^= 1;
    }
    Ok(encrypted)
}

fn compare(
    key: &SigningKey,
    fault: Fault,
    samples: usize,
    random: Random,
) -> anyhow::Result<Padding> {
    let mut times = [Vec::with_capacity(samples), Vec::with_capacity(samples)];
    while times.iter().any(|kind| kind.len() < samples) {
        // In random order: the library renews its blinding every 32 operations, which with a fixed
        // order would always hit the same kind.
        let mut coin = [0];
        random(&mut coin);
        let is_bad = coin[0] & 1 == 1;
        let fault = if is_bad { fault } else { Fault::None };
        let operation = Operation::Premaster { encrypted: encrypted(key, fault, random)? };
        let began = processor_time();
        perform(key, &operation)?;
        times[usize::from(is_bad)].push((processor_time() - began).as_nanos() as f64);
    }
    let [good, bad] = &mut times;
    for kind in [&mut *good, &mut *bad] {
        kind.sort_by(f64::total_cmp);
        // The slowest are due to other load on the machine.
        kind.truncate(kind.len() - kind.len() / 10);
    }
    let (good_mean, good_error) = mean(good);
    let (bad_mean, bad_error) = mean(bad);
    Ok(Padding {
        fault: fault.name(),
        samples,
        good_ns: good[good.len() / 2],
        bad_ns: bad[bad.len() / 2],
        t: (good_mean - bad_mean) / (good_error + bad_error).sqrt(),
    })
}

/// Mean and its squared standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0) / count)
}

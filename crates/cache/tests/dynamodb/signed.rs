//! Requests as DynamoDB's clients sign them: written without the code that verifies signatures.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use aws_lc_rs::{
    agreement::{ECDH_P256, PrivateKey},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use wire::sigv4::Credentials;

/// When requests are signed, and the time of day at time zero of the cache: 2015-08-30 12:36:00.
pub(crate) const CLOCK: Duration = Duration::from_secs(1_440_938_160);
const TIME: &str = "20150830T123600Z";
/// 20 minutes before.
const EARLY: &str = "20150830T121600Z";

/// The access keys that the cache knows: A, B, the temporary T, and C and D, which are a group.
pub(crate) fn credentials() -> Credentials {
    const FILE: &str = "[a]\naws_access_key_id = A\naws_secret_access_key = secret of A\n\
                        [b]\naws_access_key_id = B\naws_secret_access_key = secret of B\n\
                        [t]\naws_access_key_id = T\naws_secret_access_key = secret of T\n\
                        aws_session_token = token\n\
                        [c]\naws_access_key_id = C\naws_secret_access_key = secret of C\n\
                        enroute_group = A\n\
                        [d]\naws_access_key_id = D\naws_secret_access_key = secret of D\n\
                        enroute_group = A\n";
    Credentials::parse(FILE).expect("valid")
}

/// A request, signed by the access key `signer`; other names are those of
/// `conversation/dynamodb.rs`.
pub(crate) fn request(signer: &str, operation: &str, body: &str) -> Vec<u8> {
    let time = if signer == "late" { EARLY } else { TIME };
    let mut headers = vec![
        ("content-type", "application/x-amz-json-1.0".to_owned()),
        ("host", "dynamodb.example".to_owned()),
        ("x-amz-date", time.to_owned()),
    ];
    let regions = match signer {
        "pair" => Some("eu-central-1"),
        "pairs" => Some("eu-central-1,us-west-*"),
        _ => None,
    };
    headers.extend(regions.map(|regions| ("x-amz-region-set", regions.to_owned())));
    if signer == "T" {
        headers.push(("x-amz-security-token", "token".to_owned()));
    }
    headers.push(("x-amz-target", format!("DynamoDB_20120810.{operation}")));
    if signer != "unsigned" {
        headers.push(("authorization", signature(signer, time, &headers, body)));
    }
    if signer == "close" {
        headers.push(("connection", "close".to_owned()));
    }
    if signer == "digest" {
        headers.push(("content-md5", "any".to_owned()));
    }
    let codings = match signer {
        "gzip" => Some("gzip, deflate"),
        "only" => Some("gzip, identity;q=0"),
        "br" => Some("gzip, br"),
        _ => None,
    };
    headers.extend(codings.map(|codings| ("accept-encoding", codings.to_owned())));
    if signer == "coded" {
        headers.push(("content-encoding", "gzip".to_owned()));
    }
    headers.push(("content-length", body.len().to_string()));
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("POST / HTTP/1.1\r\n{headers}\r\n{body}").into_bytes()
}

/// The header that signs `headers`, which are in order, and `body`.
fn signature(signer: &str, time: &str, headers: &[(&str, String)], body: &str) -> String {
    let access_key = match signer {
        "B" | "C" | "D" | "T" | "other" => signer,
        _ => "A",
    };
    let secret = match signer {
        "forged" => "a guess".to_owned(),
        _ => format!("secret of {access_key}"),
    };
    let hash = |bytes: &[u8]| hex(&Sha256::digest(bytes));
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let signed = names.join(";");
    let canonical = format!("POST\n/\n\n{lines}\n{signed}\n{}", hash(body.as_bytes()));
    if signer.starts_with("pair") {
        let scope = format!("{}/dynamodb/aws4_request", &time[..8]);
        let hash = hash(canonical.as_bytes());
        let text = format!("AWS4-ECDSA-P256-SHA256\n{time}\n{scope}\n{hash}");
        return format!(
            "AWS4-ECDSA-P256-SHA256 Credential={access_key}/{scope}, SignedHeaders={signed}, \
             Signature={}",
            by_key_pair(access_key, &secret, text.as_bytes())
        );
    }
    let region = if signer == "west" { "us-west-2" } else { "eu-central-1" };
    let scope = format!("{}/{region}/dynamodb/aws4_request", &time[..8]);
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(canonical.as_bytes()));
    let parts = scope.split('/');
    let key = parts.fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &text));
    format!(
        "AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={signed}, \
         Signature={signature}"
    )
}

/// Signatures of version 4A, which are random: a request that is written again has the same one.
static MADE: Mutex<BTreeMap<Vec<u8>, String>> = Mutex::new(BTreeMap::new());

/// A signature of version 4A.
fn by_key_pair(access_key: &str, secret: &str, message: &[u8]) -> String {
    let mut made = MADE.lock().expect("no panic");
    let sign = || sign_by_key_pair(access_key, secret, message);
    made.entry(message.to_vec()).or_insert_with(sign).clone()
}

fn sign_by_key_pair(access_key: &str, secret: &str, message: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(format!("AWS4A{secret}").as_bytes());
    let mac = mac.as_mut().expect("any length");
    mac.update(&[0, 0, 0, 1]);
    mac.update(format!("AWS4-ECDSA-P256-SHA256\0{access_key}\u{1}").as_bytes());
    mac.update(&[0, 0, 1, 0]);
    let mut number = mac.clone().finalize().into_bytes();
    // It is in range for almost all secrets.
    let last = number.iter().rposition(|byte| *byte != 255).expect("no such number");
    number[last..].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
    let private = PrivateKey::from_private_key(&ECDH_P256, &number).expect("in range");
    let public = private.compute_public_key().expect("a point");
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &number, public.as_ref());
    let signature = pair.expect("a pair").sign(&SystemRandom::new(), message);
    hex(signature.expect("a signature").as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! A private key, parsed: what it can do, and doing it.

use std::fmt;

use aws_lc_rs::{
    agreement::{self, ECDH_P256, ECDH_P384},
    digest::{SHA256, digest},
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
        RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
    },
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use subtle::Choice;
use wire::ski::{Curve, KeyId, KeyKind, Operation, Params, Refusal, Scheme, Signature};
use zeroize::Zeroizing;

use crate::{
    Error, Result, message,
    premaster::{self, Rejection},
    raw_rsa::RawRsa,
};

/// Bytes of the largest modulus, RSA-4096.
const MODULUS_BYTES_MAX: usize = 512;

/// A parsed private key with the server names it is for. Wiped when dropped.
pub struct SigningKey {
    id: KeyId,
    server_names: Vec<String>,
    pair: Pair,
}

enum Pair {
    Rsa { pair: rsa::KeyPair, raw: RawRsa, rejection: Rejection },
    Ecdsa(EcdsaKeyPair, KeyKind),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey({:?} {})", self.kind(), self.id)
    }
}

impl SigningKey {
    /// The names it is for; any, if there are none.
    pub fn server_names(&self) -> &[String] {
        &self.server_names
    }

    /// Reads a PKCS #8 document in DER. `server_names` may be empty: then it is for any.
    pub fn from_pkcs8(der: &[u8], server_names: Vec<String>) -> Result<Self> {
        let pair = Pair::from_pkcs8(der)?;
        let id = KeyId(digest_of(&pair.public_key()?));
        Ok(Self { id, server_names, pair })
    }

    /// The SHA-256 of its public half.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Returns the type of the key.
    pub fn kind(&self) -> KeyKind {
        match &self.pair {
            Pair::Rsa { .. } => KeyKind::Rsa,
            Pair::Ecdsa(_, kind) => *kind,
            Pair::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// Its SubjectPublicKeyInfo in DER.
    pub fn public_key(&self) -> Result<Vec<u8>> {
        self.pair.public_key()
    }

    /// Whether it may serve `name`. Names may begin with `*.`, which stands for one label.
    pub fn is_for(&self, name: &str) -> bool {
        self.server_names.is_empty() || self.server_names.iter().any(|own| name_fits(own, name))
    }

    /// Whether it costs so little that it can be done where it was asked: a fraction of what an RSA
    /// operation takes.
    pub fn is_quick(&self) -> bool {
        matches!(self.kind(), KeyKind::EcdsaP256 | KeyKind::Ed25519)
    }

    /// Does `operation`: a signature as TLS carries it, or a premaster secret. A refusal is about
    /// the request, which asks what such a key cannot do, except [`Refusal::Unspecified`].
    pub fn perform(&self, operation: &Operation) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        match operation {
            Operation::ServerKeyExchange { client_random, server_random, params, signature } => {
                let scheme = match *signature {
                    Signature::Scheme(scheme) => scheme,
                    Signature::Hash(hash) => {
                        Scheme::of_hash(hash, self.kind()).ok_or(Refusal::Malformed)?
                    }
                };
                if !is_on_curve(params) {
                    return Err(Refusal::Malformed);
                }
                let message = message::server_key_exchange(client_random, server_random, params);
                self.sign(&message, scheme)
            }
            Operation::CertificateVerify { transcript_hash, scheme } => {
                self.sign(&message::certificate_verify(transcript_hash), *scheme)
            }
            Operation::Premaster { encrypted } => self.decrypt(encrypted),
        }
    }

    fn sign(&self, message: &[u8], scheme: Scheme) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        if scheme.key_kind() != self.kind() {
            return Err(Refusal::Malformed);
        }
        let random = SystemRandom::new();
        let failed = |_| Refusal::Unspecified;
        let signature = match &self.pair {
            Pair::Ecdsa(pair, _) => pair.sign(&random, message).map_err(failed)?.as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.try_sign(message).map_err(failed)?.as_ref().to_vec(),
            Pair::Rsa { pair, .. } => {
                let encoding = encoding(scheme).ok_or(Refusal::Malformed)?;
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).map_err(failed)?;
                signature
            }
        };
        Ok(Zeroizing::new(signature))
    }

    /// The same steps for every cipher text as long as the modulus; see [`premaster`].
    fn decrypt(&self, encrypted: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let Pair::Rsa { pair, raw, rejection } = &self.pair else {
            return Err(Refusal::Malformed);
        };
        if encrypted.len() != pair.public_modulus_len() {
            return Err(Refusal::Malformed);
        }
        let instead = rejection.secret(encrypted);
        let mut block = Zeroizing::new(vec![0; encrypted.len()]);
        let decrypted = Choice::from(u8::from(raw.decrypt(encrypted, &mut block)));
        let secret = Zeroizing::new(premaster::unpad(&block, decrypted, &instead));
        Ok(Zeroizing::new(secret.to_vec()))
    }
}

impl Pair {
    fn from_pkcs8(der: &[u8]) -> Result<Self> {
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self::Ed25519(pair));
        }
        for (algorithm, kind) in [
            (&ECDSA_P256_SHA256_ASN1_SIGNING, KeyKind::EcdsaP256),
            (&ECDSA_P384_SHA384_ASN1_SIGNING, KeyKind::EcdsaP384),
        ] {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, der) {
                return Ok(Self::Ecdsa(pair, kind));
            }
        }
        let wrong = Error::Key { got: "something else, or a key of another kind or size" };
        let pair = rsa::KeyPair::from_pkcs8(der).map_err(|_| wrong.clone())?;
        if pair.public_modulus_len() > MODULUS_BYTES_MAX {
            return Err(wrong);
        }
        Ok(Self::Rsa { pair, raw: RawRsa::from_pkcs8(der)?, rejection: Rejection::of_key(der) })
    }

    fn public_key(&self) -> Result<Vec<u8>> {
        let der = match self {
            Self::Rsa { pair, .. } => pair.public_key().as_der(),
            Self::Ecdsa(pair, _) => pair.public_key().as_der(),
            Self::Ed25519(pair) => pair.public_key().as_der(),
        };
        Ok(der.map_err(|_| Error::Library("encode a public key"))?.as_ref().to_vec())
    }
}

/// A new private key as a PKCS #8 document; RSA with 2048 bits.
pub fn generate(kind: KeyKind) -> Result<Zeroizing<Vec<u8>>> {
    let failed = |_| Error::Library("generate a key");
    let ecdsa = |algorithm| EcdsaKeyPair::generate(algorithm)?.to_pkcs8v1();
    let document = match kind {
        KeyKind::Rsa => {
            let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).map_err(failed)?;
            let document = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).map_err(failed)?;
            return Ok(Zeroizing::new(document.as_ref().to_vec()));
        }
        KeyKind::EcdsaP256 => ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING),
        KeyKind::EcdsaP384 => ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING),
        KeyKind::Ed25519 => Ed25519KeyPair::generate().and_then(|pair| pair.to_pkcs8v1()),
    };
    Ok(Zeroizing::new(document.map_err(failed)?.as_ref().to_vec()))
}

/// Encrypts `secret` for the RSA key with this SubjectPublicKeyInfo, as a TLS 1.2 client does.
pub fn encrypt_premaster(public_key: &[u8], secret: &[u8]) -> Result<Vec<u8>> {
    let wrong = Error::Key { got: "no RSA public key" };
    let key = rsa::PublicEncryptingKey::from_der(public_key).map_err(|_| wrong.clone())?;
    let key = rsa::Pkcs1PublicEncryptingKey::new(key).map_err(|_| wrong)?;
    let mut encrypted = vec![0; key.ciphertext_size()];
    key.encrypt(secret, &mut encrypted).map_err(|_| Error::Library("encrypt a secret"))?;
    Ok(encrypted)
}

/// The PKCS #8 document in `bytes`, a file in PEM or DER.
pub fn pkcs8_of(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    if !bytes.starts_with(b"\x30") {
        let document = PrivatePkcs8KeyDer::from_pem_slice(bytes)
            .map_err(|_| Error::Key { got: "no BEGIN PRIVATE KEY" })?;
        return Ok(Zeroizing::new(document.secret_pkcs8_der().to_vec()));
    }
    Ok(Zeroizing::new(bytes.to_vec()))
}

/// Whether `name` is `pattern`, which may begin with `*.` for one label of any kind.
pub(crate) fn name_fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(rest) => name.split_once('.').is_some_and(|(_, parent)| parent == rest),
        None => pattern == name,
    }
}

fn encoding(scheme: Scheme) -> Option<&'static dyn RsaEncoding> {
    Some(match scheme {
        Scheme::RsaPssSha256 => &RSA_PSS_SHA256,
        Scheme::RsaPssSha384 => &RSA_PSS_SHA384,
        Scheme::RsaPssSha512 => &RSA_PSS_SHA512,
        Scheme::RsaPkcs1Sha256 => &RSA_PKCS1_SHA256,
        Scheme::RsaPkcs1Sha384 => &RSA_PKCS1_SHA384,
        Scheme::RsaPkcs1Sha512 => &RSA_PKCS1_SHA512,
        _ => return None,
    })
}

/// Every 32 bytes are a point of X25519.
fn is_on_curve(params: &Params) -> bool {
    let algorithm = match params.curve() {
        Curve::P256 => &ECDH_P256,
        Curve::P384 => &ECDH_P384,
        _ => return true,
    };
    let point = agreement::UnparsedPublicKey::new(algorithm, params.point());
    agreement::ParsedPublicKey::try_from(point).is_ok()
}

fn digest_of(bytes: &[u8]) -> [u8; 32] {
    let mut id = [0; 32];
    id.copy_from_slice(digest(&SHA256, bytes).as_ref());
    id
}

#[cfg(test)]
mod tests;

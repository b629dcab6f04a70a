//! TLS signature schemes, and the type of key for each.

/// The type of the signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// RSA of 2048 to 4096 bits.
    Rsa,
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// Ed25519.
    Ed25519,
}

/// A hash as named in SKI's `hash` field. SHA-1 and SHA-224, which the draft also has, are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hash {
    /// `SHA-256`
    Sha256,
    /// `SHA-384`
    Sha384,
    /// `SHA-512`
    Sha512,
}

impl Hash {
    /// Every hash and its name in a request.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Sha256, "SHA-256"), (Self::Sha384, "SHA-384"), (Self::Sha512, "SHA-512")];

    /// The hash of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(hash, _)| *hash)
    }
}

/// A signature scheme (RFC 8446 §4.2.3), by its name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `ecdsa_secp256r1_sha256`
    EcdsaP256Sha256,
    /// `ecdsa_secp384r1_sha384`
    EcdsaP384Sha384,
    /// `ed25519`
    Ed25519,
    /// `rsa_pss_rsae_sha256`
    RsaPssSha256,
    /// `rsa_pss_rsae_sha384`
    RsaPssSha384,
    /// `rsa_pss_rsae_sha512`
    RsaPssSha512,
    /// `rsa_pkcs1_sha256`, TLS 1.2 only
    RsaPkcs1Sha256,
    /// `rsa_pkcs1_sha384`, TLS 1.2 only
    RsaPkcs1Sha384,
    /// `rsa_pkcs1_sha512`, TLS 1.2 only
    RsaPkcs1Sha512,
}

/// Name, number in a handshake and key type of each scheme.
const TABLE: [(Scheme, &str, u16, KeyKind); 9] = [
    (Scheme::EcdsaP256Sha256, "ecdsa_secp256r1_sha256", 0x0403, KeyKind::EcdsaP256),
    (Scheme::EcdsaP384Sha384, "ecdsa_secp384r1_sha384", 0x0503, KeyKind::EcdsaP384),
    (Scheme::Ed25519, "ed25519", 0x0807, KeyKind::Ed25519),
    (Scheme::RsaPssSha256, "rsa_pss_rsae_sha256", 0x0804, KeyKind::Rsa),
    (Scheme::RsaPssSha384, "rsa_pss_rsae_sha384", 0x0805, KeyKind::Rsa),
    (Scheme::RsaPssSha512, "rsa_pss_rsae_sha512", 0x0806, KeyKind::Rsa),
    (Scheme::RsaPkcs1Sha256, "rsa_pkcs1_sha256", 0x0401, KeyKind::Rsa),
    (Scheme::RsaPkcs1Sha384, "rsa_pkcs1_sha384", 0x0501, KeyKind::Rsa),
    (Scheme::RsaPkcs1Sha512, "rsa_pkcs1_sha512", 0x0601, KeyKind::Rsa),
];

impl Scheme {
    /// The scheme of that name.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, known, ..)| *known == name).map(|(scheme, ..)| *scheme)
    }

    /// The scheme of that number, as used by a TLS library.
    pub fn numbered(number: u16) -> Option<Self> {
        TABLE.iter().find(|(_, _, known, _)| *known == number).map(|(scheme, ..)| *scheme)
    }

    /// Every scheme.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(scheme, ..)| *scheme)
    }

    /// Its name in a request.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type of key that it needs.
    pub fn key_kind(self) -> KeyKind {
        self.row().3
    }

    /// Whether TLS 1.3 allows it in a CertificateVerify.
    pub fn is_of_tls13(self) -> bool {
        !matches!(self, Self::RsaPkcs1Sha256 | Self::RsaPkcs1Sha384 | Self::RsaPkcs1Sha512)
    }

    /// Returns the scheme of a TLS 1.2 key exchange that states only SKI's `hash`, signed by such a
    /// key.
    pub fn of_hash(hash: Hash, key: KeyKind) -> Option<Self> {
        match (key, hash) {
            (KeyKind::Rsa, Hash::Sha256) => Some(Self::RsaPkcs1Sha256),
            (KeyKind::Rsa, Hash::Sha384) => Some(Self::RsaPkcs1Sha384),
            (KeyKind::Rsa, Hash::Sha512) => Some(Self::RsaPkcs1Sha512),
            (KeyKind::EcdsaP256, Hash::Sha256) => Some(Self::EcdsaP256Sha256),
            (KeyKind::EcdsaP384, Hash::Sha384) => Some(Self::EcdsaP384Sha384),
            _ => None,
        }
    }

    fn row(self) -> (Self, &'static str, u16, KeyKind) {
        TABLE.into_iter().find(|(scheme, ..)| *scheme == self).unwrap_or(TABLE[0])
    }
}

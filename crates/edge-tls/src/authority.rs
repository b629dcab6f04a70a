//! Certificates for demonstrations and measurements; real ones come from a real authority.

use boring::{
    asn1::Asn1Time,
    bn::{BigNum, MsbOption},
    ec::{EcGroup, EcKey},
    error::ErrorStack,
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    rsa::Rsa,
    x509::{
        X509, X509Builder, X509NameBuilder,
        extension::{BasicConstraints, SubjectAlternativeName},
    },
};

use crate::Error;

/// Validity of its certificates, in days.
const DAYS: u32 = 2;
/// Bits of a serial number, positive and at most 20 bytes (RFC 5280 §4.1.2.2).
const SERIAL_BITS: i32 = 159;

/// An authority made a moment ago.
pub struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate and its key, in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its key, PKCS#8.
    pub key: Vec<u8>,
}

/// The kind of an issued key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256.
    EcdsaP256,
    /// RSA of 2048 bits.
    Rsa2048,
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn new() -> Result<Self, Error> {
        let made = || -> Result<Self, ErrorStack> {
            let key = generate(KeyKind::EcdsaP256)?;
            let mut builder = begin("enroute demonstration authority", &key)?;
            let constraints = BasicConstraints::new().critical().ca().build()?;
            builder.append_extension(&constraints)?;
            let name = name("enroute demonstration authority")?;
            builder.set_issuer_name(&name)?;
            builder.sign(&key, MessageDigest::sha256())?;
            Ok(Self { certificate: builder.build(), key })
        };
        made().map_err(setup)
    }

    /// Its own certificate in PEM.
    ///
    /// # Errors
    /// There is no memory.
    pub fn certificate(&self) -> Result<Vec<u8>, Error> {
        self.certificate.to_pem().map_err(setup)
    }

    /// A certificate for `domain`.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn issue(&self, domain: &str, kind: KeyKind) -> Result<Issued, Error> {
        let issued = || -> Result<Issued, ErrorStack> {
            let key = generate(kind)?;
            let mut builder = begin(domain, &key)?;
            builder.set_issuer_name(self.certificate.subject_name())?;
            let names = {
                let context = builder.x509v3_context(Some(&self.certificate), None);
                SubjectAlternativeName::new().dns(domain).build(&context)?
            };
            builder.append_extension(&names)?;
            builder.sign(&self.key, MessageDigest::sha256())?;
            let certificate = builder.build().to_pem()?;
            Ok(Issued { certificate, key: key.private_key_to_pem_pkcs8()? })
        };
        issued().map_err(setup)
    }
}

fn generate(kind: KeyKind) -> Result<PKey<Private>, ErrorStack> {
    match kind {
        KeyKind::EcdsaP256 => {
            let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
            PKey::from_ec_key(EcKey::generate(&group)?)
        }
        KeyKind::Rsa2048 => PKey::from_rsa(Rsa::generate(2048)?),
    }
}

fn begin(subject: &str, key: &PKey<Private>) -> Result<X509Builder, ErrorStack> {
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let mut serial = BigNum::new()?;
    serial.rand(SERIAL_BITS, MsbOption::MAYBE_ZERO, false)?;
    let serial = serial.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    let (from, to) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(DAYS)?);
    builder.set_not_before(&from)?;
    builder.set_not_after(&to)?;
    let name = name(subject)?;
    builder.set_subject_name(&name)?;
    builder.set_pubkey(key)?;
    Ok(builder)
}

fn name(common: &str) -> Result<boring::x509::X509Name, ErrorStack> {
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, common)?;
    Ok(name.build())
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn setup(error: ErrorStack) -> Error {
    Error::Setup(error.to_string())
}

/// Random bytes as hexadecimal digits.
///
/// # Errors
/// There are none to be had.
pub fn random_hex(bytes: usize) -> Result<String, Error> {
    let mut random = vec![0; bytes];
    boring::rand::rand_bytes(&mut random).map_err(setup)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

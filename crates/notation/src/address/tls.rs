//! TLS in the address of a database.

use std::path::PathBuf;

/// TLS as the address of an origin asks for it: `rediss://`, `mongodb://HOST/?tls=true`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressTls {
    /// `tlsCAFile`: authorities.
    pub ca: Option<PathBuf>,
    /// `tlsCertificateKeyFile`: certificate and key in one file.
    pub identity: Option<PathBuf>,
}

impl AddressTls {
    /// Reads the options of a `mongodb://` address; `None` if they do not ask for TLS.
    pub(super) fn parse(options: &str) -> Result<Option<Self>, String> {
        let (mut tls, mut asked) = (Self::default(), None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name.to_ascii_lowercase().as_str(), value) {
                ("tls" | "ssl", "true") if asked != Some(false) => asked = Some(true),
                ("tls" | "ssl", "false") if asked != Some(true) => asked = Some(false),
                ("tlscafile", path) => tls.ca = Some(file(path)?),
                ("tlscertificatekeyfile", path) => tls.identity = Some(file(path)?),
                (
                    "tlsinsecure" | "tlsallowinvalidcertificates" | "tlsallowinvalidhostnames",
                    "false",
                ) => {}
                ("tlsinsecure" | "tlsallowinvalidcertificates" | "tlsallowinvalidhostnames", _) => {
                    return Err(format!(
                        "has {name}: the certificate of the origin is always verified; set \
                         tlsCAFile or `origin_tls = {{ ca, name }}` instead"
                    ));
                }
                ("tls" | "ssl", _) => {
                    return Err(format!("has {option}, expected tls=true or tls=false once"));
                }
                _ => {
                    return Err(format!(
                        "has the option {name}, expected tls, ssl, tlsCAFile or \
                         tlsCertificateKeyFile"
                    ));
                }
            }
        }
        match asked {
            Some(true) => Ok(Some(tls)),
            _ if tls != Self::default() => Err("names TLS files without tls=true".to_owned()),
            _ => Ok(None),
        }
    }
}

/// A path in an address, whose special characters are written `%2F`.
fn file(written: &str) -> Result<PathBuf, String> {
    let mut bytes = Vec::new();
    let mut rest = written.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
                let digits = std::str::from_utf8(&digits).ok();
                digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(|| {
                    format!("has the file {written}, expected two hexadecimal digits after %")
                })?
            }
            byte => byte,
        });
    }
    let path = String::from_utf8(bytes).ok().filter(|path| !path.is_empty());
    path.map(PathBuf::from).ok_or_else(|| format!("has the file \"{written}\", expected a path"))
}

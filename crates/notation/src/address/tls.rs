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

/// The options of a `mongodb://` address that concern TLS, while they are read.
#[derive(Debug, Default)]
pub(super) struct Options {
    files: AddressTls,
    asked: Option<bool>,
}

impl Options {
    /// Takes an option; false if it does not concern TLS. `name` is in lower case.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match (name, value) {
            ("tls" | "ssl", "true") if self.asked != Some(false) => self.asked = Some(true),
            ("tls" | "ssl", "false") if self.asked != Some(true) => self.asked = Some(false),
            ("tls" | "ssl", _) => {
                return Err(format!("has {name}={value}, expected tls=true or tls=false once"));
            }
            ("tlscafile", path) => self.files.ca = Some(file(path)?),
            ("tlscertificatekeyfile", path) => self.files.identity = Some(file(path)?),
            (
                "tlsinsecure" | "tlsallowinvalidcertificates" | "tlsallowinvalidhostnames",
                "false",
            ) => {}
            ("tlsinsecure" | "tlsallowinvalidcertificates" | "tlsallowinvalidhostnames", _) => {
                return Err(format!(
                    "has {name}: the certificate of the origin is always verified; set tlsCAFile \
                     or `origin_tls = {{ ca, name }}` instead"
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// TLS, if the options ask for it; `default` if they do not say.
    pub(super) fn finish(self, default: bool) -> Result<Option<AddressTls>, String> {
        match self.asked.unwrap_or(default) {
            true => Ok(Some(self.files)),
            false if self.files != AddressTls::default() => {
                Err("names TLS files without tls=true".to_owned())
            }
            false => Ok(None),
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

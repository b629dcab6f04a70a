//! TLS in the address of a database.

use std::path::PathBuf;

use super::Address;

/// TLS as the address of an origin asks for it: `rediss://`, `mongodb://HOST/?tls=true`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressTls {
    /// `tlsCAFile`: authorities.
    pub ca: Option<PathBuf>,
    /// `tlsCertificateKeyFile`: certificate and key in one file.
    pub identity: Option<PathBuf>,
}

impl Address {
    /// Host and port as the header `Host` of HTTP has them: the port only if it is not that of the
    /// protocol.
    #[must_use]
    pub fn host(&self) -> String {
        let usual = if self.tls.is_some() { ":443" } else { ":80" };
        self.host_port.strip_suffix(usual).unwrap_or(&self.host_port).to_owned()
    }
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

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn the_header_host_has_a_port_unless_it_is_the_usual_one() {
        for (address, expected) in [
            (
                "dynamodbs://dynamodb.eu-central-1.amazonaws.com",
                "dynamodb.eu-central-1.amazonaws.com",
            ),
            ("dynamodbs://h:8443", "h:8443"),
            ("dynamodb://h", "h:8000"),
            ("dynamodb://h:80", "h"),
            ("dynamodb://h:443", "h:443"),
        ] {
            assert_eq!(address.parse::<Address>().unwrap().host(), expected);
        }
    }
}

//! A directory of a test for files that openssl makes: authorities, certificates, keys.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use super::directory::{TemporaryDirectory, on_path};

pub struct Workshop(TemporaryDirectory);

/// `None`, with the reason printed, if a tool is not installed.
pub fn workshop() -> Option<Workshop> {
    for tool in ["openssl", "curl"] {
        if on_path(tool).is_none() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} should be on PATH");
            eprintln!("SKIPPED: {tool} is not on PATH; `make deps` installs it");
            return None;
        }
    }
    Some(Workshop(TemporaryDirectory::create()))
}

impl Workshop {
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).expect("a writable temporary directory");
        // Keys are among these files, and must be accessible to their owner only.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its own file");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a shell command in the directory; returns its output. Panics if it fails.
    pub fn sh(&self, command: &str) -> String {
        String::from_utf8_lossy(&self.bytes(command)).into_owned()
    }

    /// As `sh`, for binary output.
    pub fn bytes(&self, command: &str) -> Vec<u8> {
        let output = Command::new("sh").args(["-ec", command]).current_dir(self.0.path()).output();
        let output = output.expect("a shell");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {}\n{told}", output.status);
        output.stdout
    }

    /// Makes `DOMAIN.pem` and `DOMAIN.key`, self-signed; `kind` is `ec` or `rsa:2048`.
    pub fn certificate(&self, domain: &str, kind: &str) {
        let curve = if kind == "ec" { "-pkeyopt ec_paramgen_curve:P-256" } else { "" };
        self.sh(&format!(
            "openssl req -x509 -newkey {kind} {curve} -nodes -keyout {domain}.key -days 2 \
             -out {domain}.pem -subj /CN={domain} -addext subjectAltName=DNS:{domain}"
        ));
    }

    /// Makes `NAME.pem` and `NAME.key`, signed by the authority of another certificate.
    pub fn signed(&self, name: &str, authority: &str) {
        self.write("extensions", &format!("subjectAltName=DNS:{name}\n"));
        self.sh(&format!(
            "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key \
             -out {name}.csr -subj /CN={name} && \
             openssl x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key \
             -CAcreateserial -days 2 -extfile extensions -out {name}.pem"
        ));
    }

    /// Changes the validity of `NAME.pem`, which [`Self::signed`] made: it expires this number of
    /// seconds from now.
    pub fn ends_in(&self, name: &str, authority: &str, seconds: i64) {
        self.write(
            "authority.conf",
            "[ca]\ndefault_ca = a\n[a]\ndatabase = index\nnew_certs_dir = .\nrand_serial = yes\n\
             default_md = sha256\nunique_subject = no\npolicy = p\n[p]\ncommonName = supplied\n",
        );
        self.write("extensions", &format!("subjectAltName=DNS:{name}\n"));
        self.sh(&format!(
            "touch index; openssl ca -batch -notext -config authority.conf -cert {authority}.pem \
             -keyfile {authority}.key -in {name}.csr -out {name}.pem -extfile extensions \
             -startdate 20200101000000Z -enddate $(date -u -d '{seconds} seconds' +%Y%m%d%H%M%SZ)"
        ));
    }
}

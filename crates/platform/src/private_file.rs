//! Files with secrets or access rules: rejected if other users of the machine can access them.
//!
//! The rule is that of PostgreSQL: only the owner may read or write the file; the group may read it
//! if root owns it.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use anyhow::{Context, bail};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use zeroize::Zeroizing;

use crate::directory;

/// What users other than the owner can do with an open file.
struct Exposure {
    mode: u32,
    readable: bool,
    writable: bool,
}

impl Exposure {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mode = metadata.mode() & 0o7777;
        let group_may_read = metadata.uid() == 0;
        let readable = mode & if group_may_read { 0o004 } else { 0o044 } != 0;
        Ok(Self { mode, readable, writable: mode & 0o022 != 0 })
    }
}

/// Reads a file with a secret, which `what` names.
///
/// # Errors
/// It cannot be read, or other users can read or write it.
pub fn read_secret(path: &Path, what: &str) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let shown = path.display();
    let (mut file, exposure) =
        open(path).with_context(|| format!("cannot read the {what} {shown}"))?;
    if exposure.readable || exposure.writable {
        bail!(
            "{what} {shown}: other users of this machine can {} it (mode {:04o}, expected 0600). Run `chmod 600 \
             {shown}`; if they may have read it, replace the secret",
            if exposure.readable { "read" } else { "write" },
            exposure.mode
        );
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes).with_context(|| format!("cannot read the {what} {shown}"))?;
    Ok(bytes)
}

/// Like [`read_secret`], as text.
///
/// # Errors
/// As there, or it is no text.
pub fn read_secret_text(path: &Path, what: &str) -> anyhow::Result<Zeroizing<String>> {
    let bytes = read_secret(path, what)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| anyhow::anyhow!("{what} {}: expected text in UTF-8", path.display()))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// The first line of a file with a password.
///
/// # Errors
/// As [`read_secret`], or the line is empty.
pub fn read_password(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let text = read_secret_text(path, "password file")?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        bail!("password file {}: its first line is empty, expected the password", path.display());
    }
    Ok(Zeroizing::new(password.to_owned()))
}

/// A private key of TLS, in PEM.
///
/// # Errors
/// As [`read_secret`], or it is no such key.
pub fn read_private_key(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    let bytes = read_secret(path, "private key")?;
    // The cause could show what the file holds.
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| anyhow::anyhow!("{}: expected a private key in PEM", path.display()))
}

/// Reads a file of users and their rights. It is refused if other users of the machine can write
/// it; a warning is logged if they can read it.
///
/// # Errors
/// It cannot be read, or others can write it.
pub fn read_rights(path: &Path) -> io::Result<String> {
    let (mut file, exposure) = open(path)?;
    let (shown, mode) = (path.display(), exposure.mode);
    if exposure.writable {
        return Err(io::Error::other(format!(
            "other users of this machine can write it (mode {mode:04o}, expected 0600): run `chmod 600 {shown}`"
        )));
    }
    if exposure.readable {
        tracing::warn!(
            "{shown} has mode {mode:04o}, expected 0600: other users of this machine can read the password \
             hashes in it; run `chmod 600 {shown}`"
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file for its owner only (mode 0600), atomically and durably, by way of one beside it
/// with the extension `new`.
///
/// # Errors
/// It cannot be written; then the file is as it was.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("expected the path of a file"))?;
    let new = Path::new(name).with_extension("new");
    directory::replace(File::open(directory::parent(path))?, name, &new, text)
}

/// The open file is checked, not the path, which may refer to another file later.
fn open(path: &Path) -> io::Result<(File, Exposure)> {
    let file = File::open(path)?;
    // The rights of a directory or a device say nothing about a secret, and its mode must not be
    // changed for one. A pipe is fine: `<(command)`.
    let kind = file.metadata()?.file_type();
    if kind.is_dir() || kind.is_char_device() || kind.is_block_device() {
        let found = if kind.is_dir() { "a directory" } else { "a device" };
        return Err(io::Error::other(format!("expected a file, found {found}")));
    }
    let exposure = Exposure::of(&file)?;
    Ok((file, exposure))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_replaced_file_is_its_owners_alone_whatever_was_left_beside_it() {
        let directory = std::env::temp_dir().join(format!("private-{}", std::process::id()));
        fs::create_dir(&directory).expect("made");
        let [users, new, other] =
            ["users.acl", "users.new", "other"].map(|name| directory.join(name));
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
        fs::write(&users, "older").expect("written");
        fs::write(&new, "left by a crash").expect("written");
        assert_ne!((mode(&users) | mode(&new)) & 0o077, 0, "others may read them");
        replace(&users, "first").expect("replaced");
        assert_eq!(
            (fs::read_to_string(&users).expect("read"), mode(&users)),
            ("first".into(), 0o600)
        );
        fs::write(&other, "not ours").expect("written");
        symlink(&other, &new).expect("made");
        replace(&users, "second").expect("replaced");
        assert_eq!(read_rights(&users).expect("read"), "second");
        assert!(!users.is_symlink() && !new.exists());
        assert_eq!(fs::read_to_string(&other).expect("read"), "not ours");
        fs::remove_dir_all(&directory).expect("removed");
        replace(&users, "third").expect_err("there is no directory");
    }
}

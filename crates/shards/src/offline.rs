//! What is done with the files of a database, or of a backup, that no process serves.

use std::{fs::File, path::Path};

use anyhow::{Context, bail};
use store::{
    FileDevice,
    device::FileName,
    elastic::{
        Listing,
        backup::{self, Contents, Findings},
        shard_name,
    },
};

use crate::directory;

/// Copies a backup to a directory that is empty, or does not exist.
///
/// # Errors
/// The backup is incomplete or damaged; the directory has something in it, or cannot be written.
pub fn restore(backup: &Path, target: &Path) -> anyhow::Result<Contents> {
    let (within, contents) = open_backup(backup)?;
    let mut findings = Findings::default();
    for (index, stored) in contents.shards.iter().enumerate() {
        let name = shard_name(index);
        findings.compare(&name, stored, &FileDevice::open_in(&within, &name)?);
    }
    if !findings.damage.is_empty() {
        let damage = findings.damage.join("\n");
        bail!("{} is damaged, nothing was restored:\n{damage}", backup.display());
    }
    let (directory, _lock) = directory::open_empty(target)?;
    for (index, stored) in contents.shards.iter().enumerate() {
        let name = shard_name(index);
        let to = FileDevice::open_in(&directory, &name)?;
        backup::restore(stored, &FileDevice::open_in(&within, &name)?, &to).with_context(|| {
            format!("{name}: {} is incomplete; empty it before you try again", target.display())
        })?;
    }
    // Last: without the list of shards, the directory is not served.
    let identities = contents.shards.iter().map(|stored| stored.identity).collect();
    directory::list(&directory, &Listing::Shards(identities))?;
    Ok(contents)
}

/// Reads everything in the directory of a database or of a backup, and changes nothing.
///
/// # Errors
/// A process serves the directory, or it is neither of both.
pub fn check(path: &Path) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    if path.join(FileName::Backup.to_string()).exists() {
        let (within, contents) = open_backup(path)?;
        for (index, stored) in contents.shards.iter().enumerate() {
            let name = shard_name(index);
            let device = FileDevice::open_in(&within, &name)?;
            findings.compare(&name, stored, &device);
            findings.check(&name, Some(stored.identity), &device);
        }
        return Ok(findings);
    }
    let (directory, _lock, listed) =
        directory::open_existing(path, "the data directory of a database, or a backup")?;
    for (index, identity) in listed.into_iter().enumerate() {
        let name = shard_name(index);
        if directory.has(&name) {
            findings.check(&name, identity, &FileDevice::open_in(&directory, &name)?);
        } else {
            findings.damage.push(format!("{name} is missing; restore it from a backup"));
        }
    }
    Ok(findings)
}

fn open_backup(path: &Path) -> anyhow::Result<(File, Contents)> {
    let shown = path.display();
    let within = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let contents = Contents::load(&FileDevice::open(path)?);
    Ok((within, contents.with_context(|| format!("{shown} is no complete backup"))?))
}

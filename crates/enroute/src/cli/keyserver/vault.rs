//! `enroute keyserver import`, `list`, `remove`, `rotate` and `audit`.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, bail};
use clap::Args;
use keyserver::vault::{self, Listed, Rotated, Sealing};
use platform::{harden::harden, random};
use testbed::report::Progress;
use wire::ski::KeyId;

use super::{Storage, Vault};
use keyservice::{audit as log, database::Database, vault as files};

#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(flatten)]
    vault: Vault,

    /// Restrict the keys to this server name; *.NAME allows any one label before NAME. Repeatable
    /// [default: any name]
    #[arg(long, value_name = "NAME")]
    server_name: Vec<String>,

    /// Overwrite existing records of these keys, including their server names. Without this option
    /// an existing record is kept and the command fails
    #[arg(long)]
    replace: bool,

    /// Private keys in PKCS #8, PEM or DER. A file that other users of the machine can read is
    /// refused
    #[arg(value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
}

#[allow(clippy::print_stdout, reason = "the ids are what was asked for")]
pub(super) fn import(arguments: &Import) -> anyhow::Result<()> {
    harden()?;
    let keyring = files::keyring(arguments.vault.kek_file.as_deref())?;
    let database = Database::new(arguments.vault.storage.place()?);
    let sealing = Sealing {
        keyring: &keyring,
        server_names: &arguments.server_name,
        replace: arguments.replace,
    };
    let mut progress = Progress::stderr();
    let began = Instant::now();
    runtime()?.block_on(async {
        for (number, path) in arguments.keys.iter().enumerate() {
            let id = files::import(path, sealing, &database).await?;
            println!("{id}  {}", path.display());
            if arguments.keys.len() > 100 {
                let line = format!("imported {} of {}", number + 1, arguments.keys.len());
                progress.show(&[line], began.elapsed());
            }
        }
        Ok(())
    })
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    vault: Vault,
}

#[allow(clippy::print_stdout, reason = "the keys are what was asked for")]
pub(super) fn list(arguments: &List) -> anyhow::Result<()> {
    harden()?;
    let keyring = files::keyring(arguments.vault.kek_file.as_deref())?;
    let database = Database::new(arguments.vault.storage.place()?);
    let hex = |kek: [u8; 8]| kek.map(|byte| format!("{byte:02x}")).concat();
    for Listed { id, sealed_under, opened } in
        runtime()?.block_on(vault::list(&keyring, &database))?
    {
        let kek = sealed_under.map_or_else(|| "unknown".to_owned(), hex);
        match opened {
            Ok((kind, names)) if names.is_empty() => println!("{id}  {kind}  kek {kek}  any name"),
            Ok((kind, names)) => println!("{id}  {kind}  kek {kek}  {}", names.join(" ")),
            Err(why) => println!("{id}  unknown  kek {kek}  not opened: {why}"),
        }
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    #[command(flatten)]
    storage: Storage,

    /// Ids of the keys, as `enroute keyserver list` shows them
    #[arg(value_name = "ID", required = true, value_parser = key_id)]
    keys: Vec<KeyId>,
}

fn key_id(text: &str) -> Result<KeyId, String> {
    KeyId::decode(text).ok_or_else(|| "expected 64 hexadecimal digits".into())
}

pub(super) fn remove(arguments: &Remove) -> anyhow::Result<()> {
    let database = Database::new(arguments.storage.place()?);
    runtime()?.block_on(async {
        for id in &arguments.keys {
            if !vault::remove(*id, &database).await? {
                bail!(
                    "{id}: the database has no record of this key; `enroute keyserver list` \
                       shows all keys"
                );
            }
            eprintln!("removed {id}; send SIGHUP to the key servers, which may keep it in memory");
        }
        Ok(())
    })
}

#[derive(Debug, Args)]
pub(super) struct Rotate {
    #[command(flatten)]
    vault: Vault,
}

pub(super) fn rotate(arguments: &Rotate) -> anyhow::Result<()> {
    harden()?;
    let keyring = files::keyring(arguments.vault.kek_file.as_deref())?;
    let database = Database::new(arguments.vault.storage.place()?);
    let mut progress = Progress::stderr();
    let began = Instant::now();
    let show = |done: u64| {
        if done.is_multiple_of(500) {
            progress.show(&[format!("{done} records examined")], began.elapsed());
        }
    };
    let rotated =
        runtime()?.block_on(vault::rotate(&keyring, &database, &mut random::fill, show))?;
    let Rotated { anew, already, left, nameless } = rotated;
    eprintln!("{anew} records sealed under the first key; {already} were sealed under it already");
    if left.is_empty() && nameless == 0 {
        return Ok(());
    }
    for (id, why) in &left {
        eprintln!("record not sealed: {id}: {why}");
    }
    if nameless > 0 {
        eprintln!(
            "entries whose key name the database cannot read: {nameless}; the log of the database \
             names their places"
        );
    }
    bail!(
        "records not sealed under the first key-encryption key: {}; keep the older keys, import or restore \
         these records, then run `enroute keyserver rotate` again",
        left.len() as u64 + nameless
    )
}

#[derive(Debug, Args)]
pub(super) struct Audit {
    /// Fail unless the last log ends with this line number; detects missing lines at the end
    #[arg(long, value_name = "COUNT", requires = "head")]
    count: Option<u64>,

    /// Fail unless the last line has this chain value, 64 hexadecimal digits
    #[arg(long, value_name = "HASH", requires = "count")]
    head: Option<String>,

    /// Audit logs, oldest first
    #[arg(value_name = "FILE", required = true)]
    logs: Vec<PathBuf>,
}

#[allow(clippy::print_stdout, reason = "count and head are what was asked for")]
pub(super) fn audit(arguments: &Audit) -> anyhow::Result<()> {
    let chain = log::verify(&arguments.logs)?;
    if let (Some(count), Some(head)) = (arguments.count, &arguments.head) {
        let head = KeyId::decode(head).context("--head: expected 64 hexadecimal digits")?;
        if (chain.count, chain.head) != (count, head.0) {
            bail!(
                "the log ends at line {} with head {}, not at {count} with {head}: lines are missing",
                chain.count,
                KeyId(chain.head),
            );
        }
    }
    println!("{} lines, head {}", chain.count, KeyId(chain.head));
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")
}

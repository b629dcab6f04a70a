//! `enroute keyserver`: private keys that never leave, and what goes with them.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};

mod load;
mod serve;
mod vault;

use crate::keyserver::{database, harden, speed, vault::KEK_VARIABLE};

/// The environment variable with the database's address.
const DATABASE_VARIABLE: &str = "ENROUTE_DATABASE";

const EXAMPLES: &str = "\
EXAMPLES:
  A key-encryption key, then a private key into the database; prints the key's id:
    (umask 077; openssl rand -hex 32 >kek)
    enroute keyserver import --database redis://127.0.0.1:6379 --kek-file kek \\
      --server-name www.example.org site.key

  Serve edges that an authority of yours has signed:
    enroute keyserver serve --listen 0.0.0.0:7443 --database redis://127.0.0.1:6379 \\
      --kek-file kek --certificate server.pem --key server.key --edge-authorities edges-ca.pem \\
      --policy policy.toml --audit audit.log

  Ask it as an edge does:
    curl --cacert ca.pem --cert edge.pem --key edge.key https://keys.example:7443/ -d @request.json

  Which keys are stored, and under which key-encryption key; remove one:
    enroute keyserver list --database redis://127.0.0.1:6379 --kek-file kek
    enroute keyserver remove --database redis://127.0.0.1:6379 ID

  Rotate: a new line on top of the file, then every record, then the old line goes:
    (umask 077; { openssl rand -hex 32; cat kek; } >kek.new) && mv kek.new kek
    kill -HUP KEYSERVER && enroute keyserver rotate --database redis://127.0.0.1:6379 --kek-file kek
    sed -i '2,$d' kek && kill -HUP KEYSERVER

  Was the audit log touched?
    enroute keyserver audit audit.log.1 audit.log";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer edges
    Serve(serve::Arguments),
    /// Seal private keys and store them; prints the id of each
    Import(vault::Import),
    /// List the stored keys: id, algorithm, id of the key-encryption key each is sealed under, server names
    List(vault::List),
    /// Remove keys from the database; send SIGHUP to key servers, so that they forget them, too
    Remove(vault::Remove),
    /// Seal every stored key's data key under the first key-encryption key
    Rotate(vault::Rotate),
    /// Verify audit logs, oldest first; prints how many lines there are and the head of the chain
    Audit(vault::Audit),
    /// Measure what one core can do, and whether RSA decryption shows the padding in time
    Speed(Speed),
    /// Ask a key server as often as it can answer, or at a rate
    Load(load::Arguments),
}

/// Where keys are.
#[derive(Debug, Args)]
struct Storage {
    /// The database with the sealed keys: redis://[[USER:]PASSWORD@]HOST:PORT, rediss:// for TLS
    /// [default: $ENROUTE_DATABASE, where a password is not seen by everybody]
    #[arg(long, value_name = "ADDRESS")]
    database: Option<database::Address>,

    /// Authorities that may have signed the database's certificate, PEM; with rediss://
    #[arg(long, value_name = "FILE")]
    database_authorities: Option<PathBuf>,

    /// Certificate shown to a database that asks for one, PEM
    #[arg(long, value_name = "FILE", requires_all = ["database_authorities", "database_key"])]
    database_certificate: Option<PathBuf>,

    /// The key of --database-certificate, PEM
    #[arg(long, value_name = "FILE", requires = "database_certificate")]
    database_key: Option<PathBuf>,
}

/// Where keys are and what seals them.
#[derive(Debug, Args)]
struct Vault {
    #[command(flatten)]
    storage: Storage,

    /// Key-encryption keys, 64 hexadecimal digits a line, the first seals [default: $ENROUTE_KEK]. Refused if
    /// other users of the machine can read the file
    #[arg(long, value_name = "FILE")]
    kek_file: Option<PathBuf>,
}

impl Storage {
    fn place(&self) -> anyhow::Result<database::Place> {
        let address = match &self.database {
            Some(address) => address.clone(),
            None => std::env::var(DATABASE_VARIABLE)
                .map_err(|_| anyhow!("no database: say --database or set {DATABASE_VARIABLE}"))?
                .parse()
                .context(DATABASE_VARIABLE)?,
        };
        let identity = self.database_certificate.as_deref().zip(self.database_key.as_deref());
        database::Place::new(address, self.database_authorities.as_deref(), identity)
    }
}

#[derive(Debug, Args)]
struct Speed {
    /// Processor time spent on each operation
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,

    /// Decryptions compared for each fault of a padding
    #[arg(long, default_value_t = 2000, value_name = "COUNT", value_parser = at_least_100)]
    samples: usize,
}

fn at_least_100(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count >= 100).ok_or_else(|| "expected 100 or more".into())
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    debug_assert_eq!(KEK_VARIABLE, "ENROUTE_KEK", "the help above names it");
    match &arguments.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Import(arguments) => vault::import(arguments),
        Command::List(arguments) => vault::list(arguments),
        Command::Remove(arguments) => vault::remove(arguments),
        Command::Rotate(arguments) => vault::rotate(arguments),
        Command::Audit(arguments) => vault::audit(arguments),
        Command::Speed(arguments) => measure(arguments),
        Command::Load(arguments) => load::run(arguments),
    }
}

#[allow(clippy::print_stdout, reason = "the report is what was asked for")]
fn measure(arguments: &Speed) -> anyhow::Result<()> {
    harden::harden()?;
    let each = std::time::Duration::try_from_secs_f64(arguments.seconds)?;
    let report = speed::measure(each, arguments.samples)?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

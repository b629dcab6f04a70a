//! `enroute keyserver`: the key server and its tools.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use notation::DatabaseUrl;
use testbed::{
    command,
    services::{KeyClient, KeyServer},
};
use wire::ski;

mod serve;
mod vault;

use platform::{harden, random};

use keyservice::{Client, ClientConfiguration, ClientError, database, vault::KEK_VARIABLE};

/// The environment variable with the database's address.
const DATABASE_VARIABLE: &str = "ENROUTE_DATABASE";

const EXAMPLES: &str = "\
EXAMPLES:
  Create a key-encryption key and import a private key into the database; prints the key's id:
    (umask 077; openssl rand -hex 32 >kek)
    enroute keyserver import --database redis://127.0.0.1:6379 --kek-file kek \\
      --server-name www.example.org site.key

  Serve edges whose certificates your authority has signed:
    enroute keyserver serve --listen 0.0.0.0:7443 --database redis://127.0.0.1:6379 \\
      --kek-file kek --certificate server.pem --key server.key --edge-authorities edges-ca.pem \\
      --policy policy.toml --audit audit.log

  Send a request as an edge does:
    curl --cacert ca.pem --cert edge.pem --key edge.key https://keys.example:7443/ -d @request.json

  List the stored keys and their key-encryption keys; remove one:
    enroute keyserver list --database redis://127.0.0.1:6379 --kek-file kek
    enroute keyserver remove --database redis://127.0.0.1:6379 ID

  Rotate the key-encryption key: add a new first line, seal all records anew, remove the old line:
    (umask 077; { openssl rand -hex 32; cat kek; } >kek.new) && mv kek.new kek
    kill -HUP KEYSERVER && enroute keyserver rotate --database redis://127.0.0.1:6379 --kek-file kek
    sed -i '2,$d' kek && kill -HUP KEYSERVER

  Verify the audit log:
    enroute keyserver audit audit.log.1 audit.log

  Measure operations per second of one core; load a running key server, at 500 requests per second:
    enroute keyserver speed
    enroute keyserver load --server keys.example:7443 --authorities ca.pem --certificate edge.pem \\
      --key edge.key --spki ID --rate 500";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the key server
    Serve(serve::Arguments),
    /// Seal private keys and store them in the database; prints the id of each
    Import(vault::Import),
    /// List the stored keys: id, algorithm, id of the key-encryption key, server names
    List(vault::List),
    /// Remove keys from the database. Key servers keep parsed keys in memory: send them SIGHUP
    Remove(vault::Remove),
    /// Seal all records under the first key-encryption key of the keyring
    Rotate(vault::Rotate),
    /// Verify audit logs; prints the number of lines and the head of the chain
    Audit(vault::Audit),
    /// Measure operations per second of one core, and whether the time of an RSA decryption depends
    /// on its padding
    Speed(command::speed::Arguments),
    /// Generate load for a key server, at its maximum throughput or at a fixed rate
    Load(command::load::Arguments),
}

/// Location of the sealed keys.
#[derive(Debug, Args)]
struct Storage {
    /// Database with the sealed keys: redis://[[USER:]PASSWORD@]HOST:PORT, or rediss:// for TLS.
    /// Prefer the environment variable for a password: `ps` shows options to every user [default:
    /// $ENROUTE_DATABASE]
    #[arg(long, value_name = "ADDRESS")]
    database: Option<DatabaseUrl>,

    /// Authorities that may have signed the certificate of the database, PEM; required with
    /// rediss://
    #[arg(long, value_name = "FILE")]
    database_authorities: Option<PathBuf>,

    /// Client certificate for a database that requires one, PEM
    #[arg(long, value_name = "FILE", requires_all = ["database_authorities", "database_key"])]
    database_certificate: Option<PathBuf>,

    /// Private key of --database-certificate, PEM
    #[arg(long, value_name = "FILE", requires = "database_certificate")]
    database_key: Option<PathBuf>,
}

/// Location of the keys, and the keyring that seals them.
#[derive(Debug, Args)]
struct Vault {
    #[command(flatten)]
    storage: Storage,

    /// File with the keyring: one key-encryption key per line, 64 hexadecimal digits. The first
    /// seals new records. Refused if other users of the machine can read it [default: the lines in
    /// $ENROUTE_KEK]
    #[arg(long, value_name = "FILE")]
    kek_file: Option<PathBuf>,
}

impl Storage {
    fn place(&self) -> anyhow::Result<database::Place> {
        let address = match &self.database {
            Some(address) => address.clone(),
            None => std::env::var(DATABASE_VARIABLE)
                .map_err(|_| {
                    anyhow!("expected --database or the environment variable {DATABASE_VARIABLE}")
                })?
                .parse()
                .map_err(anyhow::Error::msg)
                .context(DATABASE_VARIABLE)?,
        };
        let identity = self.database_certificate.as_deref().zip(self.database_key.as_deref());
        database::Place::new(address, self.database_authorities.as_deref(), identity)
    }
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
        Command::Speed(arguments) => {
            harden::harden()?;
            arguments.run(random::fill)
        }
        Command::Load(arguments) => arguments.run::<Loading>(),
    }
}

/// The edge's client, for load.
#[derive(Clone)]
struct Loading(Client);

impl KeyClient for Loading {
    fn new(server: &KeyServer) -> anyhow::Result<Self> {
        let KeyServer { address, name, authorities, certificate, key, connections, patience } =
            server.clone();
        let server_name = name;
        let configuration = ClientConfiguration {
            address,
            server_name,
            authorities,
            certificate,
            key,
            connections,
            patience,
        };
        Client::new(configuration).map(Self)
    }

    async fn ask(&self, request: &ski::Request) -> anyhow::Result<Result<(), ski::Refusal>> {
        match self.0.ask(request).await {
            Ok(_) => Ok(Ok(())),
            Err(ClientError::Refused(refusal)) => Ok(Err(refusal)),
            Err(error) => Err(error.into()),
        }
    }
}

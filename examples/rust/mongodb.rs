//! The Rust driver of MongoDB:
//! `cargo run -p bench --example mongodb -- "mongodb://HOST:PORT/?tls=true" CA_FILE`.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::env;

use anyhow::{Context, Result, ensure};
use bson::{Document, doc};
use mongodb::{
    options::{ClientOptions, Tls, TlsOptions},
    sync::{Client, Collection},
};

fn main() -> Result<()> {
    let [url, ca] =
        env::args().skip(1).collect::<Vec<_>>().try_into().ok().context("expected URL CA_FILE")?;
    let mut options = ClientOptions::parse(url).run()?;
    options.tls = Some(Tls::Enabled(TlsOptions::builder().ca_file_path(Some(ca.into())).build()));
    let users = Client::with_options(options)?.database("shop").collection("users");

    write(&users, "Ada")?;
    let mut reads = vec![read(&users)?, read(&users)?]; // The second is a hit.
    write(&users, "Grace")?;
    reads.push(read(&users)?);

    println!("read twice, then after a write: {reads:?}");
    ensure!(reads == ["Ada", "Ada", "Grace"], "expected Ada twice, then Grace");
    Ok(())
}

fn write(users: &Collection<Document>, name: &str) -> Result<()> {
    users
        .update_one(doc! { "_id": "rust" }, doc! { "$set": { "name": name } })
        .upsert(true)
        .run()?;
    Ok(())
}

fn read(users: &Collection<Document>) -> Result<String> {
    let found = users.find_one(doc! { "_id": "rust" }).run()?.context("no such user")?;
    Ok(found.get_str("name")?.to_owned())
}

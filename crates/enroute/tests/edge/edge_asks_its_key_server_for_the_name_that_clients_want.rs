//! A site for all names one label below a domain, and a key at the key server that is restricted to
//! these names: clients of each name are served, and the audit log has the name that each of them
//! requested.
use crate::support::{
    edge::Origin,
    keyserver::{EVERYTHING, Site},
    process::PATIENCE,
    tls::Tls,
};

const WILDCARD: &str = "*.shop.example";

#[test]
fn each_name_of_a_wildcard_is_asked_for_by_itself() {
    let Some(site) = Site::create() else { return };
    site.sh(&format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout all.key -days 2 \
         -out all.pem -subj /CN=all -addext 'subjectAltName=DNS:{WILDCARD}'"
    ));
    site.import("all", &["--server-name", WILDCARD]);
    site.write("policy.toml", &format!("{EVERYTHING}server_names = [\"{WILDCARD}\"]\n"));
    let key_server = site.serve(&[]);
    let origin = Origin::start(|_| (200, "cache-control: max-age=60".into(), "content".into()));
    let served = format!(
        "[[edge.site]]\ndomain = \"{WILDCARD}\"\ncertificate = \"{}\"\nkey = \"keyserver:{}\"\n\
         origin = \"http://{}\"\n",
        site.path("all.pem").display(),
        key_server.address,
        origin.address
    );
    let edge = site.start(&site.identity("9s"), &served);
    for name in ["www.shop.example", "m.shop.example"] {
        let client = Tls::shake_hands(edge.address, name, "http/1.1", PATIENCE);
        let mut client = client.unwrap_or_else(|| panic!("{name} is not served"));
        assert_eq!(client.ask("GET", "/", &format!("Host: {name}")).body, "content");
        let log = String::from_utf8(site.read("audit.log")).expect("an audit log");
        let is_done = |line: &&str| line.contains(&format!("\"server_name\":\"{name}\""));
        assert!(log.lines().any(|line| is_done(&line)), "{name}: {log}");
    }
}

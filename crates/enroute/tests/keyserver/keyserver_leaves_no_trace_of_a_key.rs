//! No key is in a log of any level, in an error, on the database's disk or in a core dump.

use std::{
    fs,
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{
    keyserver::{Site, base64, premaster_request, verify_request},
    process::Process,
};

const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const RSA: &str = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";

/// Private bytes of `NAME.key`: the end of its DER except for a few bytes. For RSA these belong to
/// numbers of the private half, and for ECDSA they are the private number (32 bytes after a length
/// of 32).
fn private_bytes(site: &Site, name: &str) -> Vec<u8> {
    let der = site.bytes(&format!("openssl pkcs8 -topk8 -nocrypt -in {name}.key -outform DER"));
    match der.windows(5).position(|window| window == [2, 1, 1, 4, 32]) {
        Some(at) => der[at + 5..at + 37].to_vec(),
        None => der[der.len() - 48..der.len() - 16].to_vec(),
    }
}

/// One character per byte, because substring search in text is fast.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The representations of bytes in a text or a file.
fn forms(secret: &[u8]) -> Vec<String> {
    let part = &secret[..12];
    let joined = |separator: &str, show: &dyn Fn(&u8) -> String| {
        part.iter().map(show).collect::<Vec<_>>().join(separator)
    };
    vec![
        text(part),
        part.iter().rev().map(|byte| char::from(*byte)).collect(),
        joined("", &|byte| format!("{byte:02x}")),
        joined("", &|byte| format!("{byte:02X}")),
        joined(":", &|byte| format!("{byte:02x}")),
        joined(", ", &|byte| byte.to_string()),
        part.escape_ascii().to_string(),
    ]
}

/// The strings that no output may contain.
fn traces(site: &Site, names: &[&str]) -> Vec<String> {
    let mut traces = Vec::new();
    for name in names {
        traces.extend(forms(&private_bytes(site, name)));
        let pem = String::from_utf8(site.read(&format!("{name}.key"))).expect("PEM");
        // The first line is the same for every key of the kind.
        let lines = pem.lines().skip(2).filter(|line| !line.starts_with('-') && line.len() > 20);
        traces.extend(lines.map(str::to_owned));
    }
    traces
}

/// The contents of all files below `directory`, without holes.
fn all_files(directory: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all += &all_files(&path);
            continue;
        }
        let file = fs::read(path).expect("a file");
        file.chunks(4096).filter(|page| **page != [0; 4096][..page.len()]).for_each(|page| {
            all += &text(page);
        });
    }
    all
}

#[test]
fn what_is_written_has_none_of_it() {
    let Some(mut site) = Site::create() else { return };
    let kek = "7e".repeat(32);
    site.write("kek", &format!("{kek}\n"));
    let mut ids = Vec::new();
    for (name, how) in [("ecdsa", P256), ("rsa", RSA)] {
        site.key(name, how);
        ids.push(site.import(name, &[]));
    }
    let server = site.serve(&["--log", "trace"]);
    site.output(&server, &verify_request(&ids[0], "ecdsa_secp256r1_sha256", &[1; 32]));
    site.output(&server, &verify_request(&ids[1], "rsa_pss_rsae_sha256", &[1; 32]));
    site.output(&server, &premaster_request(&ids[1], &[1; 256]));
    site.output(&server, &premaster_request(&ids[1], &[0; 256]));
    // A record that does not open, and one that opens and belongs to another key.
    let mut changed = site.record(&ids[0]);
    changed[150] ^= 1;
    for record in [changed, site.record(&ids[1])] {
        site.set_record(&ids[0], &record);
        server.reload();
        let body = verify_request(&ids[0], "ecdsa_secp256r1_sha256", &[1; 32]);
        assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
    }
    let ended = server.terminate();
    let said = ended.stderr.clone() + &ended.stdout + &text(&site.read("audit.log"));
    site.database.terminate();
    let stored = all_files(&site.database.directory().join("data"));
    // Makes sure that there is output to search.
    assert!(said.contains(&ids[0]) && said.contains("TRACE"), "no log to look at");
    let name = format!("enroute:key:{}", ids[0]);
    assert!(stored.contains(&name), "no database to look at");
    let mut traces = traces(&site, &["ecdsa", "rsa"]);
    traces.extend(forms(&[0x7e; 32]));
    for trace in traces {
        assert!(!said.contains(&trace), "{trace:?} in a log:\n{}", ended.stderr);
        assert!(!stored.contains(&trace), "{trace:?} in the database's files");
    }
}

#[test]
fn an_error_about_a_key_does_not_show_it() {
    let Some(site) = Site::create() else { return };
    for (name, how) in [("ecdsa", P256), ("rsa", RSA)] {
        site.key(name, how);
    }
    let mut refused = Vec::new();
    for name in ["ecdsa", "rsa"] {
        let der = site.bytes(&format!("openssl pkcs8 -topk8 -nocrypt -in {name}.key -outform DER"));
        // Truncated; of another type; with a wrong digit in the middle; not base64.
        let pem = |der: &[u8]| {
            format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", base64(der))
        };
        let mut other = der.clone();
        other[8] ^= 1;
        for broken in [
            pem(&der[..der.len() - 20]),
            pem(&other),
            pem(&der).replace("PRIVATE", "RSA PRIVATE"),
            pem(&der).replacen('M', "*", 1),
        ] {
            site.write("broken.key", &broken);
            refused.push(site.run(&[&["import"], &site.vault()[..], &["broken.key"]].concat()));
        }
    }
    site.write("kek", &"7e".repeat(31));
    refused.push(site.run(&[&["rotate"], &site.vault()[..]].concat()));
    let mut traces = traces(&site, &["ecdsa", "rsa"]);
    traces.extend(forms(&[0x7e; 32]));
    for ended in refused {
        assert!(!ended.status.success(), "{}", ended.stdout);
        assert!(ended.stderr.contains("expected"), "it says what it wants: {}", ended.stderr);
        for trace in &traces {
            assert!(!ended.stderr.contains(trace), "{}", ended.stderr);
        }
    }
}

#[test]
fn an_abort_leaves_no_core() {
    let Some(site) = Site::create() else { return };
    let mut other = Command::new("sh");
    other.args(["-c", "ulimit -c unlimited && kill -ABRT $$"]).current_dir(site.path(""));
    let status = other.stderr(Stdio::null()).status().expect("a shell");
    if !status.core_dumped() {
        eprintln!("SKIPPED: no process leaves a core here ({status})");
        return;
    }
    let server = site.serve_after("ulimit -c unlimited");
    let id = server.process().id();
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).expect("its limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a line");
    let words: Vec<&str> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
    let ended = server.abort();
    assert_eq!(ended.status.signal(), Some(6), "{}", ended.status);
    assert!(!ended.status.core_dumped(), "a core with keys in it");
}

/// The files in `/proc` of a process that is not dumpable belong to root.
#[test]
fn no_other_process_may_look_into_it() {
    let Some(site) = Site::create() else { return };
    let change = "setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs";
    let may = Command::new("sh").args(["-c", &format!("{change} true")]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this user may not become another, or there is no setpriv");
        return;
    }
    site.sh("chown -R 65534:65534 .");
    let other = Process::start(Command::new("sh").args(["-c", &format!("exec {change} sleep 99")]));
    let server = site.serve_by(&format!("exec {change}"));
    let owner = |id: u32| fs::metadata(format!("/proc/{id}/maps")).expect("it runs").uid();
    crate::support::process::until("another process of that user", || owner(other.id()) == 65534);
    assert_eq!(owner(server.process().id()), 0, "it may be traced, and leave a core");
}

#[test]
fn memory_is_locked_where_it_may_be() {
    let Some(site) = Site::create() else { return };
    let server = site.serve(&[]);
    let status = |name: &str| {
        let text = fs::read_to_string(format!("/proc/{}/status", server.process().id()));
        let text = text.expect("its status");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok())
    };
    if server.process().stderr().contains("memory is not locked") {
        eprintln!("SKIPPED: this user may not lock memory");
        return;
    }
    assert!(status("VmLck:") > Some(0), "{:?}", status("VmLck:"));
    assert_eq!(status("VmSwap:"), Some(0));
}

/// The key-encryption key may come from the environment, and is not shown either.
#[test]
fn a_key_encryption_key_from_the_environment_opens_what_one_from_a_file_sealed() {
    let Some(site) = Site::create() else { return };
    site.key("one", P256);
    let id = site.import("one", &[]);
    let record = site.record(&id);
    let again = |kek: &str, database: &str| {
        let mut command = site.command(&["rotate"]);
        command.env("ENROUTE_KEK", kek).env("ENROUTE_DATABASE", database);
        Process::start(&mut command).wait()
    };
    let place = format!("redis://{}", site.database.address());
    let ended = again(&"11".repeat(32), &place);
    assert!(
        ended.stderr.contains("0 records sealed under the first key; 1 were sealed"),
        "{}",
        ended.stderr
    );
    let both = format!("{}\n{}", "22".repeat(32), "11".repeat(32));
    let ended = again(&both, &place);
    assert!(ended.stderr.contains("1 records sealed under the first key"), "{}", ended.stderr);
    assert_ne!(site.record(&id), record);
    let ended = again(&"33".repeat(32), &place);
    assert!(!ended.status.success() && !ended.stderr.contains("3333"), "{}", ended.stderr);
    let ended = again("", &place);
    assert!(ended.stderr.contains("ENROUTE_KEK"), "{}", ended.stderr);
}

//! Key files that other users can read are refused, with the command that repairs it; the commands
//! of the guide create none.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use crate::support::{keyserver::Site, process::Process};

fn set_mode(site: &Site, name: &str, mode: u32) {
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(site.path(name), permissions).expect("a file of the test");
}

#[test]
fn a_secret_that_other_users_can_read_is_refused() {
    let Some(site) = Site::create() else { return };
    for name in ["kek", "localhost.key"] {
        for mode in [0o644, 0o604, 0o660, 0o602] {
            set_mode(&site, name, mode);
            let ended = site.serve_in_vain(&[]);
            let told = &ended.stderr;
            assert!(!ended.status.success(), "{name} of mode {mode:o} is taken");
            assert!(told.contains("chmod 600") && told.contains(name), "{told}");
        }
        set_mode(&site, name, 0o400);
    }
    site.key("site", "-algorithm ed25519");
    set_mode(&site, "site.key", 0o644);
    let import = [&["import"], &site.vault()[..], &["site.key"]].concat();
    let ended = site.run(&import);
    assert!(!ended.status.success() && ended.stderr.contains("chmod 600"), "{}", ended.stderr);
    set_mode(&site, "site.key", 0o600);
    assert!(site.run(&import).status.success());

    // The user must not be told to change the mode of a directory or of a device.
    for path in [".", "/dev/null"] {
        let ended = site.run(&[&["import"], &site.vault()[..], &[path]].concat());
        assert!(!ended.status.success() && !ended.stderr.contains("chmod"), "{}", ended.stderr);
        assert!(ended.stderr.contains("expected a file, found a d"), "{}", ended.stderr);
    }

    // A key-encryption key that became readable to others is not read again.
    let server = site.serve(&[]);
    let log = fs::metadata(site.path("audit.log")).expect("the audit log");
    assert_eq!(log.mode() & 0o777, 0o600, "it says who used which key");
    set_mode(&site, "kek", 0o644);
    server.process().signal("HUP");
    let line = server.process().stderr_line("chmod 600");
    assert!(line.is_some_and(|line| line.contains("kek")), "{}", server.process().stderr());
    set_mode(&site, "kek", 0o600);
    server.reload();
}

/// The shell commands of one section of the guide.
fn commands(section: &str) -> String {
    let guide = include_str!("../../../../docs/guide/keyserver.md");
    let (_, rest) = guide.split_once(&format!("## {section}")).expect("a section");
    let (_, block) = rest.split_once("```sh\n").expect("commands");
    block.split_once("```").expect("their end").0.to_owned()
}

#[test]
fn the_guides_commands_leave_no_key_for_others_to_read() {
    let Some(site) = Site::create() else { return };
    site.key("site", "-algorithm ed25519");
    fs::remove_file(site.path("kek")).expect("it was made");
    let here = |commands: &str, before: &str| {
        let program = env!("CARGO_BIN_EXE_enroute");
        let address = site.database.address().to_string();
        let script = commands
            .replace("127.0.0.1:6379", &address)
            .replace("enroute ", &format!("{program} "));
        let script = format!("set -e; umask 022; {before}\n{script}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(site.path(""));
        let ended = Process::start(&mut shell).wait();
        assert!(ended.status.success(), "{script}\n{}", ended.stderr);
        for name in ["kek", "kek.new"] {
            if let Ok(metadata) = fs::metadata(site.path(name)) {
                assert_eq!(metadata.mode() & 0o777, 0o600, "{name} after\n{script}");
            }
        }
    };
    here(&commands("Set it up"), "");
    let server = site.serve(&[]);
    let before = site.read("kek");
    here(
        &commands("Rotate the key-encryption key"),
        &format!("KEYSERVER={}", server.process().id()),
    );
    let after = site.read("kek");
    assert!(after != before && after.len() == 65, "{} bytes", after.len());
}

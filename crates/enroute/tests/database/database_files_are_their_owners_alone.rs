//! Files of the database are accessible to its user only. A directory that others may read, that is
//! not writable, or that belongs to another user is reported with the remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::database::Database;
use crate::support::origins::is_root;

const ROOT: &str = "file systems and users of its own need root";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode is set");
}

#[test]
fn files_and_directories_are_private_and_wider_ones_are_warned_about() {
    let mut database = Database::start();
    redis::cmd("SET").arg("a").arg("b").exec(&mut database.connection()).expect("stored");
    let data = database.data();
    assert_eq!(mode(&data), 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&data).expect("it is there").flatten() {
        if entry.file_type().expect("a type").is_file() {
            assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
            continue;
        }
        assert_eq!(mode(&entry.path()), 0o700, "{}", entry.path().display());
        for entry in fs::read_dir(entry.path()).expect("a shard").flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
            files += 1;
        }
    }
    assert!(files > 12, "only {files} files");
    database.terminate();
    set_mode(&data, 0o755);
    database.bring_up();
    let line = database.process().stderr_line("has mode 0755").expect("a warning");
    assert!(line.contains(&format!("chmod -R go= {}", data.display())), "{line}");
}

#[test]
fn a_file_system_that_is_read_only_is_named() {
    if !is_root(ROOT) {
        return;
    }
    let script = "if [ -e \"$1/data\" ]; then mount --bind \"$1\" \"$1\"; \
                  mount -o remount,bind,ro \"$1\"; fi";
    let mut database = Database::start_after(script, &[]);
    database.terminate();
    let said = database.refusal(&[]);
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(said.contains("mount the file system read-write, or use another"), "{said}");
}

#[test]
fn a_directory_of_another_user_is_named() {
    if !is_root(ROOT) || crate::support::directory::on_path("setpriv").is_none() {
        return;
    }
    let script = "if [ -e \"$1/data\" ]; then shift; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; fi";
    let mut database = Database::start_after(script, &[]);
    database.terminate();
    let said = database.refusal(&[]);
    assert!(said.contains("Permission denied"), "{said}");
    assert!(said.contains("the process runs as user 65534; run it as the owner"), "{said}");
}

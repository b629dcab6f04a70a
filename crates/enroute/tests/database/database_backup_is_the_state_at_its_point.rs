//! A backup that is made while clients write is the database at one moment: each client's writes up
//! to one of them, in all shards. It is restored after the process was killed. One that is
//! incomplete or damaged is refused by name.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::support::database::Database;
use crate::support::enroute::program;
use crate::support::state::Ends;

const CLIENTS: usize = 4;
const ATTEMPTS: usize = 20;
pub(super) const OPTIONS: [&str; 4] = ["--memory", "64MiB", "--admin", "127.0.0.1:0"];

pub(super) fn run(arguments: &[&str], paths: &[&Path]) -> Output {
    let mut command = Command::new(program());
    command.arg("db").args(arguments).args(paths).output().expect("it runs")
}

/// Output of a command that succeeds.
pub(super) fn done(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both outputs of one that fails.
pub(super) fn refused(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(!output.status.success(), "{out}");
    format!("{out}{error}")
}

/// Makes a backup; returns the numbers of bytes that were linked and copied.
fn back_up(database: &Database, directory: &Path) -> [u64; 2] {
    let admin = format!("--admin={}", database.admin());
    let said = done(&run(&["backup", &admin], &[directory]));
    let words: Vec<&str> = said.split(' ').collect();
    let before = |word: &str| {
        let at = words.iter().position(|one| one.trim() == word).expect("it says how many");
        words[at - 2].parse().expect("a number")
    };
    [before("linked,"), before("copied")]
}

/// Makes a backup while clients write; returns what they had counted before and after it. Segments
/// that are not yet sealed and durable are copied, so it is repeated until some are linked.
fn back_up_with_links(
    database: &Database,
    directory: &Path,
    read: &dyn Fn() -> Vec<u64>,
    wait_for: &dyn Fn(u64),
) -> (Vec<u64>, Vec<u64>) {
    for _ in 0..ATTEMPTS {
        let before = read();
        let [linked, copied] = back_up(database, directory);
        assert!(copied > 0, "the last segment is never linked");
        let after = read();
        wait_for(after[0] + 500);
        if linked > 0 {
            return (before, after);
        }
        fs::remove_dir_all(directory).expect("removed");
    }
    panic!("nothing was linked in {ATTEMPTS} attempts");
}

/// Stores one key after another, with the number of the last one, until the end.
fn write(database: &Database, client: usize, count: &AtomicU64, end: &AtomicBool) {
    let mut connection = database.connection();
    let value = vec![client as u8; 700];
    while !end.load(SeqCst) {
        let number = count.load(SeqCst);
        redis::pipe()
            .atomic()
            .cmd("SET")
            .arg(format!("{client}:{number}"))
            .arg(&value)
            .cmd("SET")
            .arg(format!("last:{client}"))
            .arg(number)
            .exec(&mut connection)
            .expect("stored");
        count.store(number + 1, SeqCst);
    }
}

/// The number of keys of a client, if they are its first ones.
fn prefix(database: &Database, client: usize) -> u64 {
    let mut connection = database.connection();
    let last: u64 =
        redis::cmd("GET").arg(format!("last:{client}")).query(&mut connection).expect("a number");
    for number in 0..=last + 1 {
        let key = format!("{client}:{number}");
        let found: bool = redis::cmd("EXISTS").arg(&key).query(&mut connection).expect("answered");
        assert_eq!(found, number <= last, "{key}, and the last one is {last}");
    }
    last + 1
}

/// Starts `database` on what `backup` has.
fn restore(database: &mut Database, backup: &Path) {
    let old = database.directory().join("old");
    let _ = fs::remove_dir_all(&old);
    fs::rename(database.data(), old).expect("moved");
    done(&run(&["restore"], &[backup, &database.data()]));
    database.bring_up();
}

fn segments(backup: &Path) -> Vec<PathBuf> {
    let shards = (0..4).map(|shard| backup.join(format!("shard-{shard:03}")));
    let files = shards.flat_map(|shard| fs::read_dir(shard).expect("a shard").flatten());
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some());
    files.sort();
    files
}

#[test]
fn it_is_restored_after_a_kill() {
    let mut database = Database::start_with(&OPTIONS);
    let parent = database.directory().join("backups");
    fs::create_dir(&parent).expect("made");
    let backups = [parent.join("monday"), parent.join("tuesday")];
    let counts: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let end = AtomicBool::new(false);
    let read = || counts.iter().map(|count| count.load(SeqCst)).collect::<Vec<_>>();
    let mut between = Vec::new();
    thread::scope(|scope| {
        for (client, count) in counts.iter().enumerate() {
            let (database, end) = (&database, &end);
            scope.spawn(move || write(database, client, count, end));
        }
        let wait_for = |keys: u64| {
            while counts.iter().any(|count| count.load(SeqCst) < keys) {
                thread::yield_now();
            }
        };
        wait_for(2000);
        let _ends = Ends(&end);
        for backup in &backups {
            between.push(back_up_with_links(&database, backup, &read, &wait_for));
        }
    });
    let serves = refused(&run(&["check"], &[&database.data()]));
    let process = format!("is in use by process {} (enroute db", database.process().id());
    assert!(serves.contains(&process), "{serves}");
    database.bring_down();
    done(&run(&["check"], &[&database.data()]));
    for (backup, (before, after)) in backups.iter().zip(between) {
        let checked = done(&run(&["check"], &[backup]));
        assert!(checked.contains(" of 4 shards"), "{checked}");
        restore(&mut database, backup);
        for client in 0..CLIENTS {
            let keys = prefix(&database, client);
            let range = before[client]..=after[client] + 1;
            assert!(range.contains(&keys), "client {client}: {keys} keys, expected {range:?}");
        }
        // It is a database like any other.
        let mut connection = database.connection();
        redis::cmd("SET").arg("more").arg("1").exec(&mut connection).expect("stored");
        database.terminate();
        done(&run(&["check"], &[&database.data()]));
    }
    let again = refused(&run(&["restore"], &[&backups[0], &database.data()]));
    assert!(again.contains("is not empty"), "{again}");
    let missing = refused(&run(&["check"], &[&database.data().join("none")]));
    assert!(
        missing.contains("does not exist; expected the data directory of a database, or a backup")
    );
}

#[test]
fn a_second_backup_on_another_disk_shares_what_the_first_has() {
    let memory = PathBuf::from(format!("/dev/shm/enroute-backup-{}", std::process::id()));
    let database = Database::start_with(&OPTIONS);
    let is_other = |path: &Path| {
        let [here, there] = [database.directory(), path].map(|path| fs::metadata(path).ok());
        here.zip(there).is_some_and(|(here, there)| here.dev() != there.dev())
    };
    if fs::create_dir(&memory).is_err() || !is_other(&memory) {
        eprintln!("skipped: /dev/shm is no other file system");
        return;
    }
    let mut connection = database.connection();
    for number in 0..6000 {
        let value = vec![b'v'; 4000];
        redis::cmd("SET").arg(number).arg(value).exec(&mut connection).expect("stored");
    }
    let first = back_up(&database, &memory.join("first"));
    let second = back_up(&database, &memory.join("second"));
    let checked = run(&["check"], &[&memory.join("second")]);
    fs::remove_dir_all(&memory).expect("removed");
    done(&checked);
    assert!(first[0] == 0 && first[1] > 6000 * 4000, "{first:?}");
    assert!(second[0] > second[1], "{first:?} {second:?}");
}

#[test]
fn an_incomplete_or_damaged_backup_is_refused() {
    let database = Database::start_with(&OPTIONS);
    let mut connection = database.connection();
    for number in 0..100 {
        redis::cmd("SET").arg(number).arg("value").exec(&mut connection).expect("stored");
    }
    let (backup, target) =
        (database.directory().join("backup"), database.directory().join("target"));
    back_up(&database, &backup);
    let again = run(&["backup", &format!("--admin={}", database.admin())], &[&backup]);
    assert!(refused(&again).contains("name a directory that does not exist"));
    // Each byte that counts, and only that, is wrong.
    let files = segments(&backup);
    for path in files.iter().step_by(3) {
        let file = File::options().read(true).write(true).open(path).expect("opened");
        let mut byte = [0];
        file.read_exact_at(&mut byte, 4100).expect("read");
        file.write_all_at(&[byte[0] ^ 1], 4100).expect("written");
        let name = path.strip_prefix(&backup).expect("within").display().to_string();
        for said in [
            refused(&run(&["check"], &[&backup])),
            refused(&run(&["restore"], &[&backup, &target])),
        ] {
            assert!(said.contains(&format!("{name} is damaged at offset ")), "{name}: {said}");
        }
        file.write_all_at(&byte, 4100).expect("written");
    }
    assert!(!target.exists(), "nothing was restored");
    // What a crash may leave of the list: nothing, or zeroes.
    let list = backup.join("backup");
    let whole = fs::read(&list).expect("read");
    let zeroes = vec![0; whole.len()];
    for left in [None, Some(&zeroes[..]), Some(&whole[..whole.trim_ascii_end().len() / 2])] {
        fs::remove_file(&list).expect("removed");
        if let Some(left) = left {
            fs::write(&list, left).expect("written");
        }
        let said = refused(&run(&["restore"], &[&backup, &target]));
        assert!(said.contains("is no complete backup"), "{said}");
        assert!(!target.exists(), "nothing was restored");
        fs::write(&list, &whole).expect("written");
    }
    done(&run(&["restore"], &[&backup, &target]));
}

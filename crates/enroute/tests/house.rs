//! Limits on sizes, on the places of event loops and scripts, on imports between folders, and on
//! wording. If a size exceeds its ceiling, look for a part to move to another crate; raise a
//! ceiling only with a reason in the commit message.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

#[path = "house/folders.rs"]
mod folders;

/// Lines of a file, tests included.
const FILE_LINES_MAX: usize = 450;
/// Lines of a function between its first and its closing brace.
const FUNCTION_LINES_MAX: usize = 76;

/// Product code of each crate: lines without tests.
const CRATE_LINES_MAX: &[(&str, usize)] = &[
    // It was a part of `db`.
    ("acl", 640),
    // The last measure how long writes around the cache stay invisible (`measure/staleness.rs`),
    // and hits of DynamoDB and memcached clients.
    ("bench", 7_600),
    // Four protocols: the last is DynamoDB (`filter/dynamodb`), with items and pages. Three feeds:
    // the last reads DynamoDB's streams (`feed/dynamodb`).
    // Latencies and hot keys are counted where reads are decided. `storage/observe` forecasts what
    // caching would answer. The last are the feed of Redis by key (`filter/resp/tracked.rs`), and
    // what a MongoDB user may read (`filter/mongo/readable.rs`).
    // `storage/{shares,division,usage}` share the memory among origins.
    ("cache", 21_640),
    ("content", 3_100),
    // The last are RDB files: codec, export and import (`rdb`).
    ("db", 9_750),
    ("edge-tls", 900),
    // `streams.rs` serves clients of HTTP/2 by a service of HTTP/1.1. The last are histograms and
    // the formats of metrics (`exposition.rs`).
    ("endpoint", 1_160),
    // Help texts are a part of it; `WIRING_LINES_MAX` limits the code. The last are clients of
    // agents with TLS (`state/seat.rs`), and metrics of every service.
    ("enroute", 18_770),
    // The last simulates a run on two threads (`world/parts`).
    ("fabric", 7_450),
    ("fabric-python", 350),
    ("intercept", 550),
    ("keyserver", 1_800),
    // The last are its metrics (`report.rs`).
    ("keyservice", 1_800),
    ("notation", 1_080),
    // The terminal that `enroute top` draws in; files of secrets are replaced durably. The last are
    // listening sockets, which systemd may hand over, and what services ask of the machine: its
    // memory, room for open files; and which protocol a client offers first (`tls/hello.rs`).
    ("platform", 3_310),
    ("policy", 1_300),
    ("reactor", 1_300),
    ("resp-client", 200),
    ("shards", 600),
    // The last are connections of clients' own (`agent/own.rs`, `agent/subscriptions.rs`).
    ("state", 10_090),
    // The last are huge pages (`mapping.rs`), and a hit ratio without steps (`replacement/hull`).
    ("store", 14_740),
    ("switch", 5_400),
    ("telemetry", 240),
    // The last is what is wrong with inputs, as data for Python (`fabric/mistake.rs`).
    ("testbed", 11_030),
    // The last are frames of the key server and of the state layer (`frame.rs`).
    ("top", 450),
    // HTTP/1.1 (`http1`) and DynamoDB (`dynamodb`) are the last of its codecs. Bodies of DynamoDB
    // are read as far as the cache must know which items they name, without their coding
    // (`http1/coding.rs`); `sigv4` verifies signatures, of version 4A too (`asymmetric.rs`), knows
    // access keys that are lent (`lent.rs`), and signs the parts of batches (`dynamodb/batch.rs`)
    // and the calls of the feed (`dynamodb/streams.rs`).
    ("wire", 12_910),
];

/// Lines of code of `enroute`, which is wiring: product code without blank lines and comments.
const WIRING_LINES_MAX: usize = 15_000;

/// Maximum width of a comment in columns, equal to `max_width` of rustfmt.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Words for persons, used of machines, and vague words for time; CONTRIBUTING.md states the style.
const WORDS: [&str; 12] = [
    "anybody",
    "everybody",
    "herself",
    "himself",
    "meanwhile",
    "nobody",
    "nobody's",
    "others'",
    "somebody",
    "so long",
    "whoever",
    "whom",
];

/// Files that use epoll: crate `reactor`, and those for which its documentation gives the reason
/// (`crates/reactor/src/lib.rs`).
const EPOLL: &[&str] = &[
    "crates/bench/src/load.rs",
    "crates/bench/src/measure/redis.rs",
    "crates/bench/src/stub.rs",
    "crates/reactor/src/poll.rs",
];

#[test]
fn no_crate_grows_past_its_ceiling() {
    let mut seen = Vec::new();
    for directory in children(&root().join("crates")) {
        let name = directory.file_name().expect("a name").to_string_lossy().into_owned();
        let ceiling = CRATE_LINES_MAX.iter().find(|(of, _)| *of == name);
        let (_, ceiling) = ceiling.unwrap_or_else(|| panic!("crate {name} has no ceiling"));
        let lines: usize = sources(&directory.join("src"))
            .filter(|path| !is_test(path))
            .map(|path| product(&read(&path)).len())
            .sum();
        eprintln!("{name}: {lines} of {ceiling}");
        assert!(lines <= *ceiling, "{name} has {lines} lines of product code, more than {ceiling}");
        seen.push(name);
    }
    assert_eq!(seen.len(), CRATE_LINES_MAX.len(), "a crate of the list is gone");
}

#[test]
fn enroute_is_wiring() {
    let lines: usize = sources(&root().join("crates/enroute/src"))
        .filter(|path| !is_test(path))
        .map(|path| product(&read(&path)).into_iter().filter(|line| is_code(line)).count())
        .sum();
    eprintln!("{lines} of {WIRING_LINES_MAX}");
    assert!(
        lines <= WIRING_LINES_MAX,
        "enroute has {lines} lines of code, more than {WIRING_LINES_MAX}: move what is not wiring to \
         the crate where it belongs"
    );
}

#[test]
fn comments_are_no_wider_than_code() {
    let mut wrong = Vec::new();
    for path in files(&root(), &["c", "cc", "go", "h", "java", "py", "rs", "sh"]) {
        let marks: &[&str] = match path.extension().and_then(OsStr::to_str) {
            Some("py" | "sh") => &["#", "\"\"\""],
            _ => &["//", "/*", "*"],
        };
        for (number, line) in read(&path).lines().enumerate() {
            let is_comment = marks.iter().any(|mark| is_comment(line, mark));
            let columns = line.chars().count();
            if is_comment && columns > COMMENT_COLUMNS_MAX {
                wrong.push(format!("{}:{}: {columns} columns", name(&path), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "wider than {COMMENT_COLUMNS_MAX}:\n{}", wrong.join("\n"));
}

#[test]
fn machines_are_not_called_persons() {
    let mut wrong = Vec::new();
    let sources = every_source().chain(files(&root().join("crates/switch/bpf"), &["c", "h"]));
    for path in sources.filter(|path| !is_test(path)).chain(files(&root(), &["md"])) {
        let text = read(&path);
        for line in product(&text) {
            // The Unix user `nobody`.
            let line = line.replace("\"nobody\"", "");
            for word in words_in(&line) {
                wrong.push(format!("{}: \"{word}\" in: {}", name(&path), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_and_no_function_is_too_long() {
    let mut wrong = Vec::new();
    for path in every_source() {
        let (name, text) = (name(&path), read(&path));
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            wrong.push(format!("{name} has {lines} lines, more than {FILE_LINES_MAX}"));
        }
        for (line, lines) in
            functions(&text).into_iter().filter(|&(_, lines)| lines > FUNCTION_LINES_MAX)
        {
            wrong.push(format!(
                "{name}:{line}: a function of {lines} lines, more than {FUNCTION_LINES_MAX}"
            ));
        }
    }
    assert!(wrong.is_empty(), "too long:\n{}", wrong.join("\n"));
}

#[test]
fn event_loops_and_scripts_are_where_they_belong() {
    let mut wrong = Vec::new();
    for path in every_source().filter(|path| !is_test(path)) {
        let (name, text) = (name(&path), read(&path));
        let code = product(&text);
        let says = |word: &str| {
            code.iter().any(|line| line.contains(word) && !line.trim_start().starts_with("//"))
        };
        if says("epoll::") && !EPOLL.contains(&name.as_str()) {
            wrong.push(format!("{name}: an event loop of its own; use the one that is there"));
        }
        let is_service = name.starts_with("crates/enroute/");
        if is_service && says("redis.call") {
            wrong.push(format!("{name}: a script for nodes of a cluster belongs to crate `state`"));
        }
        if is_service && says("\\r\\n") {
            wrong.push(format!("{name}: what a protocol says belongs to crate `wire`"));
        }
        let is_command = name.starts_with("crates/enroute/src/cli");
        if is_service && !is_command && says("testbed::") {
            wrong.push(format!("{name}: a service imports the laboratory"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `fuzz/corpus` is not committed: without seeds a target starts from nothing on each machine.
#[test]
fn every_fuzz_target_has_committed_seeds() {
    for target in sources(&root().join("fuzz/fuzz_targets")) {
        let seeds = root().join("fuzz/seeds").join(target.file_stem().expect("a name"));
        assert!(seeds.is_dir() && !children(&seeds).is_empty(), "{seeds:?} has no seeds");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{directory:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Files of the repository below a directory with these extensions, without build products and
/// recorded results.
fn files(directory: &Path, endings: &[&str]) -> Vec<PathBuf> {
    const LEFT_OUT: [&str; 5] = ["artifacts", "corpus", "node_modules", "results", "target"];
    let mut found = Vec::new();
    for path in children(directory) {
        let own = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if own.starts_with('.') || LEFT_OUT.contains(&own) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|end| endings.iter().any(|one| end == *one)) {
            found.push(path);
        }
    }
    found
}

/// All Rust files below a directory.
fn sources(directory: &Path) -> Box<dyn Iterator<Item = PathBuf>> {
    Box::new(children(directory).into_iter().flat_map(
        |path| -> Box<dyn Iterator<Item = PathBuf>> {
            match path.is_dir() {
                true => sources(&path),
                false => Box::new(
                    Some(path)
                        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
                        .into_iter(),
                ),
            }
        },
    ))
}

fn every_source() -> impl Iterator<Item = PathBuf> {
    children(&root().join("crates")).into_iter().flat_map(|krate| sources(&krate.join("src")))
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Whether a file contains only tests.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")))
}

/// The lines that do not belong to test items.
fn product(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        lines.find(|next| indented(next) == indented(line) && closes(next));
    }
    kept
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// Whether the line begins with this mark of a comment: `*` also stands before an expression.
fn is_comment(line: &str, mark: &str) -> bool {
    let rest = line.trim_start().strip_prefix(mark);
    rest.is_some_and(|rest| mark != "*" || rest.is_empty() || rest.starts_with(' '))
}

/// The words of [`WORDS`] in a line.
fn words_in(line: &str) -> impl Iterator<Item = &'static str> {
    let line = format!(" {} ", line.to_lowercase());
    let is_apart = |letter: Option<char>| {
        letter.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
    };
    WORDS.into_iter().filter(move |word| {
        line.match_indices(word).any(|(at, _)| {
            let (before, after) =
                (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
            is_apart(before) && is_apart(after)
        })
    })
}

fn indented(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The first line of each function and the number of lines up to its closing brace, which rustfmt
/// indents like the first line.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: &usize| is_function(lines[*at].trim_start());
    let measured = (0..lines.len()).filter(begins).filter_map(|first| {
        let ends = |line: &&str| indented(line) == indented(lines[first]) && closes(line);
        let last = lines[first..].iter().position(ends)?;
        Some((first + 1, last.saturating_sub(1)))
    });
    measured.collect()
}

fn is_function(line: &str) -> bool {
    const BEFORE: [&str; 5] = ["const", "async", "unsafe", "extern", "\"C\""];
    match line.split_once(' ') {
        Some(("fn", _)) => true,
        Some((word, rest)) if word.starts_with("pub") || BEFORE.contains(&word) => {
            is_function(rest)
        }
        _ => false,
    }
}

fn closes(line: &str) -> bool {
    line.trim_end().ends_with([';', '}'])
}

#[test]
fn functions_and_tests_are_told_from_the_rest() {
    let text = "pub(crate) fn one(\n    at: u8,\n) {\n    two();\n}\n\n#[cfg(test)]\nmod tests {\n    \
                async fn two() {}\n}\nconst THREE: u8 = 3;\n";
    assert_eq!(functions(text), [(1, 3), (9, 0)]);
    assert_eq!(product(text).last(), Some(&"const THREE: u8 = 3;"));
    assert_eq!(product(text).len(), 7);
}

#[test]
fn words_are_found_apart_only() {
    assert_eq!(words_in("Nobody waits for so long.").collect::<Vec<_>>(), ["nobody", "so long"]);
    assert_eq!(words_in("whomever; also longer: others are").count(), 0);
    assert!(is_comment("   * text", "*") && !is_comment("*target = 1;", "*"));
    assert!(is_code("let one = 1; // two") && !is_code("    // two") && !is_code(""));
}

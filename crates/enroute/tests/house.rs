//! Ratchets: sizes may shrink and never grow, and some words stand in few files. Where one is in
//! the way, look for the part that wants to leave; raise a ceiling only with a reason in the
//! commit.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Lines of a file, tests included.
const FILE_LINES_MAX: usize = 450;
/// Lines of a function between its first and its closing brace.
const FUNCTION_LINES_MAX: usize = 76;

/// Product code of each crate: lines without tests.
const CRATE_LINES_MAX: &[(&str, usize)] = &[
    ("bench", 6_100),
    ("cache", 11_800),
    ("content", 3_050),
    ("db", 8_900),
    ("edge-tls", 900),
    ("endpoint", 600),
    ("enroute", 19_900),
    ("fabric", 6_700),
    ("intercept", 500),
    ("keyserver", 1_700),
    ("notation", 700),
    ("policy", 1_300),
    ("reactor", 1_300),
    ("state", 7_500),
    ("store", 12_900),
    ("switch", 5_300),
    ("testbed", 10_800),
    ("wire", 9_100),
];

/// Epoll is used by crate `reactor`, and where its documentation says why
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
        let is_command = name.starts_with("crates/enroute/src/cli");
        if is_service && !is_command && says("testbed::") {
            wrong.push(format!("{name}: a service imports the laboratory"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

/// Whether a file has nothing but tests.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")))
}

/// The lines that are not of an item for tests.
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

fn indented(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The first line of each function and how many lines follow it before its closing brace. As
/// rustfmt sets it, the brace stands below the first word.
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

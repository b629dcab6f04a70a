//! `docs/guide/troubleshooting.md` explains each line of the log whose level is `error` or `warn`:
//! what it means and what to do. The lines are those in the sources, so a new one needs a row.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const PAGE: &str = "docs/guide/troubleshooting.md";

/// Statements whose text comes from elsewhere: the file that logs, the file that has the text, and
/// the beginnings of all texts there that are errors or warnings.
#[rustfmt::skip]
const ELSEWHERE: &[(&str, &str, &[&str])] = &[
    ("crates/enroute/src/database/upkeep.rs", "crates/store/src/elastic/error.rs",
        &["{file} is damaged at offset"]),
    ("crates/enroute/src/edge/answer.rs", "crates/enroute/src/edge/origin.rs", ORIGIN_FAILURES),
    ("crates/enroute/src/edge/fetch.rs", "crates/enroute/src/edge/origin.rs", ORIGIN_FAILURES),
    ("crates/keyservice/src/service.rs", "crates/keyserver/src/error.rs",
        &["record of key "]),
    ("crates/enroute/src/runtime/monitor.rs", "crates/cache/src/sentinel/told.rs", &[""]),
    ("crates/enroute/src/runtime/monitor.rs", "crates/cache/src/topology/told.rs", &[""]),
    ("crates/enroute/src/runtime/watch.rs", "crates/enroute/src/runtime/watch.rs",
        &["the origin {origin} speaks"]),
    ("crates/platform/src/certificate.rs", "crates/platform/src/certificate.rs",
        &["ended {}", "begins in {}", "ends in {}"]),
];

const ORIGIN_FAILURES: &[&str] = &["the origin ", "the client's upload"];

/// A text of which a part may be in a row; shorter ones are names.
const PART_CHARACTERS_MIN: usize = 12;

/// Texts of [`ELSEWHERE`] that belong to lines of level `info`.
const NO_WARNINGS: &[&str] = &["a failover is followed again"];

#[test]
fn every_warning_of_the_log_is_explained() {
    let rows = rows();
    let mut unused: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    let mut missing = Vec::new();
    for (file, text) in every_source() {
        for message in logged(&text) {
            match rows.get(&message) {
                Some(row) => {
                    unused.remove(row.as_str());
                }
                None if message == "…" && ELSEWHERE.iter().any(|(site, ..)| *site == file) => {}
                None => missing.push(format!("{file}: {message}")),
            }
        }
    }
    for (_, file, beginnings) in ELSEWHERE {
        for text in literals(product(&read(file))) {
            let begins = beginnings.iter().any(|begin| text.starts_with(begin));
            let part = plain(&text);
            if !begins || part.chars().count() < PART_CHARACTERS_MIN {
                continue;
            }
            let with_part: Vec<&String> =
                rows.iter().filter(|row| row.contains(part.trim())).collect();
            for row in &with_part {
                unused.remove(row.as_str());
            }
            if with_part.is_empty() && !NO_WARNINGS.contains(&part.as_str()) {
                missing.push(format!("{file}: {part}"));
            }
        }
    }
    assert!(missing.is_empty(), "{PAGE} has no row for:\n{}", missing.join("\n"));
    assert!(unused.is_empty(), "{PAGE} explains lines that are not logged: {unused:#?}");
}

/// The first cells of the tables about the log; each row has a meaning and something to do.
fn rows() -> BTreeSet<String> {
    let page = read(PAGE);
    let (_, log) = page.split_once("\n## The log\n").expect("a section about the log");
    let mut rows = BTreeSet::new();
    for row in log.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{row}");
        assert!(rows.insert(cells[0].replace('`', "").trim().to_owned()), "twice: {row}");
    }
    rows
}

/// The messages that `text` logs with level `warn` or `error`.
fn logged(text: &str) -> Vec<String> {
    let text = product(text);
    let mut found = Vec::new();
    for (call, always) in [("warn!(", true), ("error!(", true), ("seldom!(", false)] {
        for (at, _) in text.match_indices(call) {
            let is_name = text[..at].ends_with(|before: char| before.is_alphanumeric());
            let line = text[..at].rsplit('\n').next().unwrap_or_default().trim_start();
            let arguments = arguments(&text[at + call.len()..]);
            let loud = always || arguments.contains("=> warn,") || arguments.contains("=> error,");
            if !is_name && !line.starts_with("//") && loud {
                let message = literals(arguments).into_iter().map(|text| plain(&text));
                found.extend(message.max_by_key(String::len));
            }
        }
    }
    found
}

/// The text up to the parenthesis that closes the call.
fn arguments(text: &str) -> &str {
    let (mut depth, mut is_text, mut is_escaped) = (1, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_text = !is_text,
            '(' if !is_text => depth += 1,
            ')' if !is_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    panic!("a call has no end: {}", &text[..text.len().min(200)])
}

/// The string literals, without comments; a line that ends with `\` continues.
fn literals(text: &str) -> Vec<String> {
    let (mut found, mut present) = (Vec::new(), None::<String>);
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    for line in code {
        // The rest of a literal begins after the indentation.
        let mut characters = line.trim_start().chars().peekable();
        while let Some(character) = characters.next() {
            match (character, &mut present) {
                ('\\', Some(literal)) => literal.extend(characters.next()),
                ('"', Some(_)) => found.extend(present.take()),
                ('"', None) => present = Some(String::new()),
                (other, Some(literal)) => literal.push(other),
                (_, None) => {}
            }
        }
    }
    found
}

/// `…` instead of what is filled in; no backquotes.
fn plain(literal: &str) -> String {
    let mut plain = String::new();
    let mut parts = literal.split('{');
    plain.extend(parts.next());
    for part in parts {
        plain.push('…');
        plain.extend(part.split_once('}').map(|(_, rest)| rest));
    }
    plain.replace('`', "")
}

/// The text without the tests at its end.
fn product(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(product, _)| product)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Name and text of each source file of the crates, without tests and the tools of `bench`.
fn every_source() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = children(&root().join("crates"))
        .into_iter()
        .filter(|path| !path.ends_with("bench"))
        .map(|path| path.join("src"))
        .collect();
    while let Some(folder) = folders.pop() {
        for path in children(&folder) {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                found.push((name.clone(), read(&name)));
            }
        }
    }
    assert!(found.len() > 300, "only {} sources", found.len());
    found
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn messages_are_found_in_calls() {
    let text = "warn!(\n    peer = %one(\"x\"),\n    \"closing {peer}: a \\\"b\\\" `c`, \\\n     d)\"\n);\n\
                seldom!(told, Full => warn, \"{} rejected\", kept);\n\
                seldom!(told, Full => info, \"not this\");\n// warn!(\"nor this\");\n";
    assert_eq!(logged(text), ["closing …: a \"b\" c, d)", "… rejected"]);
}

//! Links of the pages lead to files and sections that exist, and pages and workflow files name only
//! targets of the Makefile.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Folders at the top that are no part of the sources.
const LEFT_OUT: &[&str] = &["target", "node_modules"];

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let (mut count, mut dead) = (0, Vec::new());
    for path in files(&root(), &["md"]) {
        for link in links(&read(&path)) {
            let is_outside = link.contains("://") || link.starts_with("mailto:");
            let (file, section) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().expect("a folder").join(file),
            };
            count += usize::from(!is_outside);
            let exists = || {
                target.exists()
                    && (section.is_empty()
                        || target.extension().is_none_or(|kind| kind != "md")
                        || sections(&read(&target)).contains(section))
            };
            if !is_outside && !exists() {
                dead.push(format!("{}: {link}", name(&path)));
            }
        }
    }
    assert!(count > 200, "only {count} links");
    assert!(dead.is_empty(), "links to nothing:\n{}", dead.join("\n"));
}

#[test]
fn every_page_of_docs_is_in_the_book_once() {
    let docs = root().join("docs");
    let summary = links(&read(&docs.join("SUMMARY.md")));
    let mut wrong = Vec::new();
    for path in files(&docs, &["md"]) {
        let page = path.strip_prefix(&docs).expect("a file of docs").to_string_lossy();
        let times = summary.iter().filter(|link| **link == page).count();
        if page != "SUMMARY.md" && times != 1 {
            wrong.push(format!("{page}: {times} times"));
        }
    }
    assert!(wrong.is_empty(), "docs/SUMMARY.md has not once:\n{}", wrong.join("\n"));
}

#[test]
fn every_make_target_that_is_named_exists() {
    let makefile = read(&root().join("Makefile"));
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', '#', '.']))
        .filter_map(|line| Some(line.split_once(": ").or(line.split_once(':'))?.0))
        .collect();
    let mut absent = Vec::new();
    for path in files(&root(), &["md", "yml"]) {
        let text = read(&path);
        let named = if path.extension().is_some_and(|kind| kind == "md") {
            in_page(&text)
        } else {
            in_workflow(&text)
        };
        let is_workflow = name(&path).starts_with(".github/workflows");
        assert!(!is_workflow || !named.is_empty(), "{} calls no target", name(&path));
        let unknown = named.iter().filter(|target| !targets.contains(target.as_str()));
        absent.extend(unknown.map(|target| format!("{}: make {target}", name(&path))));
    }
    assert!(absent.is_empty(), "not in the Makefile:\n{}", absent.join("\n"));
}

/// The targets of the links in a page, outside of blocks of code.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    let after = text.split("](").skip(1);
    after.filter_map(|rest| Some(rest.split_once([')', ' '])?.0.to_owned())).collect()
}

/// What links call the sections of a page: its titles in lower case, with hyphens for spaces.
fn sections(page: &str) -> BTreeSet<String> {
    let text = prose(page);
    let titles = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    titles
        .map(|title| {
            let kept = |character: &char| character.is_alphanumeric() || "-_ ".contains(*character);
            title.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

/// The page without its blocks of code.
fn prose(page: &str) -> String {
    let (mut text, mut is_code) = (String::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Targets in `` `make TARGET` `` and in lines of code that begin with `make`. Names with a part in
/// capitals, or a `*`, stand for several.
fn in_page(page: &str) -> Vec<String> {
    let in_text = page.split("`make ").skip(1).filter_map(|rest| rest.split('`').next());
    let lines = page.lines().filter_map(|line| line.trim_start_matches("$ ").strip_prefix("make "));
    let commands = in_text.chain(lines).map(|command| command.split('#').next().unwrap_or(command));
    let words = commands.flat_map(|command| command.split_whitespace().take(1));
    let is_one = |word: &&str| !word.contains(|part: char| part.is_uppercase() || part == '*');
    words.filter(is_one).map(|word| word.trim_end_matches(['.', ',', ';']).to_owned()).collect()
}

/// Targets of commands, and those that a matrix puts into a command.
fn in_workflow(text: &str) -> Vec<String> {
    let (mut targets, mut is_matrix) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        let command = line.trim_start_matches("- ").trim_start_matches("run: ");
        let named = match command.strip_prefix("make ") {
            Some(rest) if !rest.contains("${{") => rest,
            _ if is_matrix && line.starts_with("- ") => command,
            _ => "",
        };
        targets.extend(named.split_whitespace().map(str::to_owned));
        is_matrix = line == "targets:" || (is_matrix && line.starts_with("- "));
    }
    targets
}

/// Files below `folder` with one of these endings.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let own = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_hidden = own.starts_with('.') && own != ".github";
        if path.is_symlink() || is_hidden || LEFT_OUT.contains(&own.as_str()) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|kind| endings.iter().any(|own| kind == *own)) {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

#[test]
fn links_sections_and_targets_are_found() {
    let page = "# A `b`, c_d-e\nsee [x](y.md#z) and\n```\n[no](w)\n# no\nmake test # all\n```\n`make lint`, \
                `make lab-PAPER`";
    assert_eq!(links(page), ["y.md#z"]);
    assert_eq!(sections(page), BTreeSet::from(["a-b-c_d-e".to_owned()]));
    assert_eq!(in_page(page), ["lint", "test"]);
    let workflow = "targets:\n  - soak\n  - a b\nsteps:\n  - uses: x\n  - run: make ${{ y }}\n  \
                    - run: make test\n";
    assert_eq!(in_workflow(workflow), ["soak", "a", "b", "test"]);
}

//! Folders of a crate that import each other, directly or through other modules.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{children, is_code, is_test, name, product, read, root, sources};

/// A module's path below the crate's root.
type Module = Vec<String>;
/// For each module that has submodules, which of them import which others.
type Imports = BTreeMap<Module, BTreeMap<String, BTreeSet<String>>>;

#[test]
fn no_two_folders_import_each_other() {
    let mut circles = Vec::new();
    for krate in children(&root().join("crates")) {
        let modules = modules(&krate.join("src"));
        for (parent, siblings) in imports(&modules) {
            let is_folder = |child: &String| {
                let below = [&parent[..], std::slice::from_ref(child)].concat();
                modules
                    .keys()
                    .any(|module| module.len() > below.len() && module.starts_with(&below))
            };
            let folders: Vec<_> = siblings.keys().filter(|child| is_folder(child)).collect();
            for (at, one) in folders.iter().enumerate() {
                for other in &folders[at + 1..] {
                    if reaches(&siblings, one, other) && reaches(&siblings, other, one) {
                        circles.push(format!("{}: {parent:?}: {one}, {other}", name(&krate)));
                    }
                }
            }
        }
    }
    assert!(circles.is_empty(), "folders that import each other:\n{}", circles.join("\n"));
}

/// The modules of a crate and their code, without tests and comments.
fn modules(directory: &Path) -> BTreeMap<Module, String> {
    let files = sources(directory).filter(|path| !is_test(path));
    let module = |path: &Path| {
        let below = path.strip_prefix(directory).expect("below it").with_extension("");
        let mut parts: Module =
            below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        parts.retain(|part| !matches!(part.as_str(), "mod" | "lib" | "main"));
        parts
    };
    let code = |path: &Path| {
        let text = read(path);
        product(&text).into_iter().filter(|line| is_code(line)).collect::<Vec<_>>().join("\n")
    };
    files.map(|path| (module(&path), code(&path))).collect()
}

fn imports(modules: &BTreeMap<Module, String>) -> Imports {
    let mut imports = Imports::new();
    for (module, code) in modules {
        for path in paths(code) {
            let Some(target) = resolve(module, &path, modules) else { continue };
            let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
            // A module may use what contains it, and what it contains.
            let (Some(from), Some(to)) = (module.get(common), target.get(common)) else { continue };
            let siblings = imports.entry(module[..common].to_vec()).or_default();
            siblings.entry(from.clone()).or_default().insert(to.clone());
        }
    }
    imports
}

/// The paths that code names, from `crate` or `super` on.
fn paths(code: &str) -> Vec<Module> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    let mut paths = Vec::new();
    for (at, _) in starts {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|letter| letter.is_whitespace() || "({<&![,".contains(letter)) {
            expand(&code[at..], &[], &mut paths);
        }
    }
    paths
}

/// Reads a path, or a tree of them; returns the rest of the code.
fn expand<'a>(code: &'a str, before: &[String], paths: &mut Vec<Module>) -> &'a str {
    let (mut path, mut rest) = (before.to_vec(), code.trim_start());
    loop {
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        if !word.is_empty() {
            path.push(word.to_owned());
        }
        let Some(after) = after.strip_prefix("::") else {
            paths.push(path);
            return after;
        };
        rest = after;
        if let Some(mut tree) = rest.strip_prefix('{') {
            loop {
                tree = expand(tree, &path, paths);
                // `as NAME`, before the next path or the end.
                let Some(end) = tree.find([',', '}']) else { return tree };
                let ends = tree[end..].starts_with('}');
                tree = tree[end + 1..].trim_start();
                if ends || tree.starts_with('}') {
                    return tree.strip_prefix('}').filter(|_| !ends).unwrap_or(tree);
                }
            }
        }
    }
}

/// The module that a path of `module` leads to or into.
fn resolve(module: &Module, path: &Module, modules: &BTreeMap<Module, String>) -> Option<Module> {
    let supers = path.iter().take_while(|word| *word == "super").count();
    let from = match supers {
        0 => Module::new(),
        _ => module[..module.len().checked_sub(supers)?].to_vec(),
    };
    let mut target = [from, path[supers.max(1)..].to_vec()].concat();
    while !target.is_empty() && !modules.contains_key(&target) {
        target.pop();
    }
    (!target.is_empty() && target != *module).then_some(target)
}

fn reaches(siblings: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for import in siblings.get(next).into_iter().flatten() {
            if import == to {
                return true;
            }
            if seen.insert(import.as_str()) {
                open.push(import);
            }
        }
    }
    false
}

#[test]
fn paths_are_read_from_trees() {
    let code =
        "use crate::{\n    a::{self, B as C, d::E},\n    f,\n};\nfn g() { super::super::h::i() }";
    let found: Vec<_> = paths(code).iter().map(|path| path.join("::")).collect();
    let expected = ["crate::a::self", "crate::a::B", "crate::a::d::E", "crate::f"];
    assert_eq!(found[..4], expected);
    assert_eq!(found[4..], ["super::super::h::i"]);
}

//! The steps of a scripted conversation, one per line. A line that begins with a blank continues
//! the line before; `#` begins a comment.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

/// Runs every conversation in a folder of the crate once in each of `ways`, up to its first
/// failure. `hold` receives its name and text.
pub(crate) fn hold_all<W: Copy>(folder: &str, ways: &[(&str, W)], hold: impl Fn(&str, &str, W)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(&folder).expect("the conversations are committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut failed = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).expect("readable");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let fails = |way| catch_unwind(AssertUnwindSafe(|| hold(&name, &text, way))).is_err();
        if let Some((way, _)) = ways.iter().find(|&&(_, way)| fails(way)) {
            failed.push(format!("{name} {way}"));
        }
    }
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), paths.len());
}

/// Logical lines, each with the number of its first line.
pub(crate) fn steps(text: &str) -> Vec<(usize, String)> {
    let mut steps: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match steps.last_mut() {
            Some((_, step)) if line.starts_with(' ') => {
                step.push(' ');
                step.push_str(line.trim());
            }
            _ => steps.push((index + 1, line.trim_end().to_owned())),
        }
    }
    steps
}

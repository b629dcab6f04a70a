//! Randomly damaged captures never panic, and decode the same for every chunk size. The fuzz target
//! `resp_frame` does the same for longer.

mod damage;
#[path = "resp/exercise.rs"]
mod exercise;

fn captures() -> Vec<Vec<u8>> {
    let captures = damage::corpus("testdata/redis", |name| {
        name.ends_with(".requests") || name.ends_with(".replies")
    });
    assert!(captures.len() >= 20, "captures are missing");
    captures
}

#[test]
fn undamaged() {
    for bytes in captures() {
        for chunk_bytes in [1, 2, 5, 64, 255] {
            exercise::exercise(&[&[chunk_bytes], &bytes[..]].concat());
        }
    }
}

#[test]
fn damaged() {
    let syntax = b"*$+-:_#,(!=%~|>;.?\r\n0123456789-1";
    damage::damaged(&captures(), syntax, true, exercise::exercise);
}

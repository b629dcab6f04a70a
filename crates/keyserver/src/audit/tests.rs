use std::io::Cursor;

use super::*;

fn entry(number: u64) -> Entry<'static> {
    Entry {
        at: Duration::from_millis(1_700_000_000_123 + number),
        edge: "edge1.example",
        method: Some("ECDHE"),
        key: Some(KeyId([number as u8; 32])),
        server_name: Some("www.example.org"),
        outcome: "done",
    }
}

fn log(chain: &mut Chain, lines: u64) -> Vec<u8> {
    let mut log = chain.begin_file(Duration::from_secs(1));
    for number in 1..lines {
        log.extend(chain.append(&entry(number)));
    }
    log
}

fn verify(chain: &mut Chain, log: &[u8]) -> Result<()> {
    chain.verify(&mut Cursor::new(log)).unwrap()
}

#[test]
fn an_untouched_log_verifies_over_several_files() {
    let mut written = Chain::default();
    let first = log(&mut written, 5);
    let second = log(&mut written, 4);
    let mut read = Chain::default();
    verify(&mut read, &first).unwrap();
    verify(&mut read, &second).unwrap();
    assert_eq!(read, written);
    // A later file verifies alone too, but not in another position.
    verify(&mut Chain::default(), &second).unwrap();
    assert!(verify(&mut read.clone(), &second).is_err());
    let last = second.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
    assert_eq!(Chain::behind(last).unwrap(), written);
    assert_eq!(Chain::behind(&second[7..]).unwrap(), written);
    assert!(serde_json::from_slice::<serde_json::Value>(last).is_ok());
}

#[test]
fn every_changed_bit_is_found() {
    let whole = log(&mut Chain::default(), 4);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            // The chain value of a line may be in upper case.
            if changed.eq_ignore_ascii_case(&whole) && bit == 5 && is_in_chain(&whole, at) {
                continue;
            }
            assert!(verify(&mut Chain::default(), &changed).is_err(), "byte {at} bit {bit}");
        }
    }
}

fn is_in_chain(log: &[u8], at: usize) -> bool {
    let end = at + log[at..].iter().position(|byte| *byte == b'\n').unwrap();
    (3..=66).contains(&(end - at))
}

#[test]
fn removed_repeated_and_reordered_lines_are_found() {
    let whole = log(&mut Chain::default(), 5);
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..4 {
        let mut removed = lines.clone();
        removed.remove(at);
        assert!(verify(&mut Chain::default(), &removed.concat()).is_err(), "without line {at}");
        let mut repeated = lines.clone();
        repeated.insert(at, lines[at]);
        assert!(verify(&mut Chain::default(), &repeated.concat()).is_err(), "line {at} twice");
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        assert!(verify(&mut Chain::default(), &swapped.concat()).is_err(), "line {at} later");
    }
    // A truncation at a line end shows only in count and head; elsewhere the chain shows it.
    let mut cut = Chain::default();
    verify(&mut cut, &lines[..4].concat()).unwrap();
    assert_eq!(cut.count, 4);
    assert!(verify(&mut Chain::default(), &whole[..whole.len() - 1]).is_err());
}

#[test]
fn what_an_edge_says_cannot_forge_a_line() {
    let mut chain = Chain::default();
    let mut log = log(&mut chain, 2);
    let hostile = Entry { edge: "a\"\n{\"n\":9,", outcome: "\u{7f}\\", ..entry(1) };
    log.extend(chain.append(&hostile));
    assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), 3);
    verify(&mut Chain::default(), &log).unwrap();
}

/// Each line is valid and linked to the previous one, but one number is missing.
#[test]
fn lines_are_numbered_without_a_gap() {
    let mut chain = Chain::default();
    let mut log = log(&mut chain, 2);
    chain.count += 1;
    log.extend(chain.append(&entry(2)));
    let error = verify(&mut Chain::default(), &log).unwrap_err();
    assert!(error.to_string().contains("number 3"), "{error}");
}

/// A forger can make one line consistent; the next line then is not.
#[test]
fn a_forged_line_breaks_the_chain_behind_it() {
    let mut chain = Chain::default();
    let mut log = log(&mut chain, 2);
    let mut forger = chain.clone();
    let honest = chain.append(&entry(2));
    let forged = forger.append(&Entry { edge: "edge2.example", ..entry(2) });
    log.extend(&forged);
    verify(&mut Chain::default(), &log).unwrap();
    log.extend(chain.append(&entry(3)));
    let error = verify(&mut Chain::default(), &log).unwrap_err();
    assert!(matches!(error, Error::Audit { line: 4, .. }), "{error}");
    assert_eq!(honest.len(), forged.len());
}

/// The disk accepts the first line and a part of the second; then the file is renamed.
#[test]
fn lines_that_were_not_written_continue_in_the_next_file() {
    let mut chain = Chain::default();
    let mut first = chain.begin_file(Duration::from_secs(1));
    let mut lines = Lines::new(chain);
    let numbers: Vec<u64> = (1..=3).map(|number| lines.append(&entry(number))).collect();
    let taken = lines.take();
    let line_bytes = taken.len() / 3;
    let whole = whole(&taken[..line_bytes + 10]);
    assert_eq!(whole, line_bytes);
    first.extend_from_slice(&taken[..whole]);
    lines.note(taken, whole, true);
    assert!(lines.must_write_first());
    assert!(lines.is_written(numbers[0]) && !lines.is_written(numbers[1]));

    lines.begin_file(Duration::from_secs(2)).unwrap();
    let second = lines.take();
    lines.note(second.clone(), second.len(), false);
    assert!(!lines.must_write_first() && lines.is_written(lines.chain().count));
    let mut read = Chain::default();
    verify(&mut read, &first).unwrap();
    verify(&mut read, &second).unwrap();
    assert_eq!((&read, read.count), (lines.chain(), 5));
}

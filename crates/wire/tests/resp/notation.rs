//! The notation of requests and replies in scripted conversations.
//!
//! Requests are words, `"quoted"` if they contain blanks or escapes; ` ; ` separates pipelined
//! requests, and `inline` precedes an inline command. Replies: `"bulk"`, `+OK`, `-ERR to the end of
//! the line`, `:5`, `nil`, `_` (RESP3's null), `[…]` arrays, `~[…]` sets, `%[…]` maps, `>[…]`
//! pushes. In both, `raw` is followed by escaped bytes.

use std::{iter::Peekable, str::Chars};

/// The bytes of these requests.
pub(crate) fn requests(text: &str) -> Vec<u8> {
    if let Some(raw) = text.strip_prefix("raw ") {
        return unescape(raw);
    }
    let mut bytes = Vec::new();
    for request in text.split(" ; ") {
        if let Some(line) = request.strip_prefix("inline ") {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(b"\r\n");
            continue;
        }
        let words = words(request);
        bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
        words.iter().for_each(|word| bulk(word, &mut bytes));
    }
    bytes
}

fn words(text: &str) -> Vec<Vec<u8>> {
    let mut chars = text.chars().peekable();
    let mut words = Vec::new();
    loop {
        while chars.next_if(|next| *next == ' ').is_some() {}
        match chars.peek() {
            None => return words,
            Some('"') => words.push(quoted(&mut chars)),
            Some(_) => {
                let mut word = String::new();
                while let Some(next) = chars.next_if(|next| *next != ' ') {
                    word.push(next);
                }
                words.push(word.into_bytes());
            }
        }
    }
}

fn quoted(chars: &mut Peekable<Chars<'_>>) -> Vec<u8> {
    chars.next();
    let mut text = String::new();
    loop {
        match chars.next().expect("a closing quote") {
            '"' => return unescape(&text),
            '\\' => {
                text.push('\\');
                text.extend(chars.next());
            }
            next => text.push(next),
        }
    }
}

/// `\r`, `\n`, `\0`, `\xHH`, `\*80` (repeats the previous byte up to eighty in total); any other
/// character is itself.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        if next != '\\' {
            bytes.extend(next.to_string().into_bytes());
            continue;
        }
        match chars.next().expect("an escape") {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            '0' => bytes.push(0),
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            '*' => {
                let mut count = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    count.push(digit);
                }
                let last = *bytes.last().expect("a byte to repeat");
                bytes.resize(bytes.len() + count.parse::<usize>().expect("a count") - 1, last);
            }
            other => bytes.push(other as u8),
        }
    }
    bytes
}

fn bulk(payload: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend(format!("${}\r\n", payload.len()).into_bytes());
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(b"\r\n");
}

/// The bytes of these replies.
pub(crate) fn replies(text: &str) -> Vec<u8> {
    if let Some(raw) = text.strip_prefix("raw ") {
        return unescape(raw);
    }
    let mut chars = text.chars().peekable();
    let mut bytes = Vec::new();
    while reply(&mut chars, &mut bytes) {}
    bytes
}

fn reply(chars: &mut Peekable<Chars<'_>>, bytes: &mut Vec<u8>) -> bool {
    while chars.next_if(|next| *next == ' ').is_some() {}
    let Some(&first) = chars.peek() else { return false };
    match first {
        '"' => bulk(&quoted(chars), bytes),
        ']' => return false,
        '[' => aggregate('*', chars, bytes),
        '~' | '%' | '>' => {
            chars.next();
            aggregate(first, chars, bytes);
        }
        '-' => {
            bytes.extend(chars.by_ref().collect::<String>().into_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        _ => {
            let mut word = String::new();
            while let Some(next) = chars.next_if(|next| *next != ' ' && *next != ']') {
                word.push(next);
            }
            let word = if word == "nil" { "$-1" } else { &word };
            bytes.extend_from_slice(word.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
    }
    true
}

fn aggregate(kind: char, chars: &mut Peekable<Chars<'_>>, bytes: &mut Vec<u8>) {
    assert_eq!(chars.next(), Some('['));
    let mut elements = Vec::new();
    let mut count = 0;
    while reply(chars, &mut elements) {
        count += 1;
    }
    assert_eq!(chars.next(), Some(']'));
    let count = if kind == '%' { count / 2 } else { count };
    bytes.extend(format!("{kind}{count}\r\n").into_bytes());
    bytes.extend(elements);
}

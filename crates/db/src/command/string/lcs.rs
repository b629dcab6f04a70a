//! LCS: the longest common subsequence of two strings.

use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
};

#[derive(Default)]
struct Options {
    length: bool,
    index: bool,
    with_length: bool,
    match_min: usize,
}

impl Options {
    fn parse(mut arguments: &[&[u8]]) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let [option, rest @ ..] = arguments {
            arguments = rest;
            if option.eq_ignore_ascii_case(b"IDX") {
                options.index = true;
            } else if option.eq_ignore_ascii_case(b"LEN") {
                options.length = true;
            } else if option.eq_ignore_ascii_case(b"WITHMATCHLEN") {
                options.with_length = true;
            } else if option.eq_ignore_ascii_case(b"MINMATCHLEN") {
                let [value, after @ ..] = arguments else { return Err(SYNTAX) };
                options.match_min = integer(value)?.max(0) as usize;
                arguments = after;
            } else {
                return Err(SYNTAX);
            }
        }
        if options.length && options.index {
            return Err(Failure(
                "ERR If you want both the length and indexes, please just use IDX.".into(),
            ));
        }
        Ok(options)
    }
}

/// Maximum size of the table, in bytes, which fits into every command's budget. In a table of this
/// size the shorter value is shorter than 2,000 bytes.
const TABLE_BYTES_MAX: usize = 5 << 20;

/// Lengths of the common subsequences of all prefixes, row by row.
struct Table {
    lengths: Vec<u16>,
    width: usize,
}

impl Table {
    fn new(first: &[u8], second: &[u8]) -> Result<Self, Failure> {
        let width = second.len() + 1;
        let cells = (first.len() + 1).checked_mul(width);
        let Some(cells) = cells.filter(|&cells| cells <= TABLE_BYTES_MAX / size_of::<u16>()) else {
            return Err(Failure(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
                    .into(),
            ));
        };
        let mut table = Self { lengths: vec![0; cells], width };
        for (row, a) in first.iter().enumerate() {
            for (column, b) in second.iter().enumerate() {
                let length = if a == b {
                    table.at(row, column) + 1
                } else {
                    table.at(row, column + 1).max(table.at(row + 1, column))
                };
                table.lengths[(row + 1) * width + column + 1] = length;
            }
        }
        Ok(table)
    }

    fn at(&self, row: usize, column: usize) -> u16 {
        self.lengths[row * self.width + column]
    }

    /// Returns the positions of the subsequence in both values, last position first.
    fn positions(&self, first: &[u8], second: &[u8]) -> Vec<(usize, usize)> {
        let (mut row, mut column) = (first.len(), second.len());
        let mut positions = Vec::new();
        while row > 0 && column > 0 {
            if first[row - 1] == second[column - 1] {
                (row, column) = (row - 1, column - 1);
                positions.push((row, column));
            } else if self.at(row - 1, column) > self.at(row, column - 1) {
                row -= 1;
            } else {
                column -= 1;
            }
        }
        positions
    }
}

/// Runs of neighbouring positions, last run first: starts in both, and length.
fn runs(positions: &[(usize, usize)]) -> Vec<(usize, usize, usize)> {
    let mut runs: Vec<(usize, usize, usize)> = Vec::new();
    for &(a, b) in positions {
        match runs.last_mut() {
            Some((first, second, length)) if *first == a + 1 && *second == b + 1 => {
                (*first, *second, *length) = (a, b, *length + 1);
            }
            _ => runs.push((a, b, 1)),
        }
    }
    runs
}

pub(crate) fn lcs(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let mut value = |index: usize| {
        call.keys.get(call.args[index]).map_or(Vec::new(), |entry| entry.value.to_vec())
    };
    let (first, second) = (value(1), value(2));
    let options = Options::parse(&call.args[3..])?;
    let table = Table::new(&first, &second)?;
    let length = table.at(first.len(), second.len());
    if options.length {
        call.reply.integer(i64::from(length));
        return Ok(Outcome::Done);
    }
    let positions = table.positions(&first, &second);
    if !options.index {
        let text: Vec<u8> = positions.iter().rev().map(|&(at, _)| first[at]).collect();
        call.reply.bulk(&text);
        return Ok(Outcome::Done);
    }
    let mut found = runs(&positions);
    found.retain(|&(_, _, length)| length >= options.match_min);
    let reply = &mut call.reply;
    reply.map(2);
    reply.text("matches");
    reply.array(found.len());
    for (a, b, length) in found {
        reply.array(2 + usize::from(options.with_length));
        for start in [a, b] {
            reply.array(2);
            reply.count(start);
            reply.count(start + length - 1);
        }
        if options.with_length {
            reply.count(length);
        }
    }
    reply.text("len");
    reply.integer(i64::from(length));
    Ok(Outcome::Done)
}

//! BITFIELD and BITFIELD_RO: integers of 1 to 64 bits anywhere in a string.

use super::{lengthen, offset};
use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    number::{integer, parse_integer},
    outcome::Outcome,
    row::Touch,
};

#[derive(Debug, Clone, Copy)]
struct Field {
    signed: bool,
    bits: u32,
    offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Get(Field),
    Set(Field, i64, Overflow),
    Add(Field, i64, Overflow),
}

impl Field {
    fn parse(kind: &[u8], at: &[u8]) -> Result<Self, Failure> {
        let wrong = || {
            Failure("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.".into())
        };
        let (signed, bits_max) = match kind.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => return Err(wrong()),
        };
        let bits = parse_integer(&kind[1..]).filter(|bits| (1..=bits_max).contains(bits));
        let bits = bits.ok_or_else(wrong)? as u32;
        Ok(Self { signed, bits, offset: offset(at, Some(u64::from(bits)))? })
    }

    fn read(self, value: &[u8]) -> i64 {
        let mut raw = 0_u64;
        for bit in self.offset..self.offset + u64::from(self.bits) {
            let byte = value.get((bit / 8) as usize).copied().unwrap_or(0);
            raw = raw << 1 | u64::from(byte >> (7 - bit % 8) & 1);
        }
        self.interpret(raw)
    }

    fn interpret(self, raw: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.signed {
            ((raw << unused) as i64) >> unused
        } else {
            (raw << unused >> unused) as i64
        }
    }

    fn write(self, value: &mut [u8], number: i64) {
        for index in 0..u64::from(self.bits) {
            let bit = self.offset + index;
            let on = number >> (u64::from(self.bits) - 1 - index) & 1 == 1;
            let mask = 0x80 >> (bit % 8);
            let byte = &mut value[(bit / 8) as usize];
            if on { *byte |= mask } else { *byte &= !mask }
        }
    }

    fn range(self) -> (i128, i128) {
        if self.signed {
            let half = 1_i128 << (self.bits - 1);
            (-half, half - 1)
        } else {
            (0, (1_i128 << self.bits) - 1)
        }
    }

    /// Fits `number` into the field; `None` where overflow is refused.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (lowest, highest) = self.range();
        if (lowest..=highest).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.interpret(number as u64)),
            Overflow::Saturate => Some(number.clamp(lowest, highest) as i64),
            Overflow::Fail => None,
        }
    }

    fn bytes(self) -> usize {
        (self.offset + u64::from(self.bits)).div_ceil(8) as usize
    }
}

fn parse(mut arguments: &[&[u8]]) -> Result<Vec<Operation>, Failure> {
    let mut overflow = Overflow::Wrap;
    let mut operations = Vec::new();
    while let [name, rest @ ..] = arguments {
        match (name.to_ascii_uppercase().as_slice(), rest) {
            (b"GET", [kind, at, ..]) => {
                operations.push(Operation::Get(Field::parse(kind, at)?));
                arguments = &rest[2..];
            }
            (set @ (b"SET" | b"INCRBY"), [kind, at, number, ..]) => {
                let (field, number) = (Field::parse(kind, at)?, integer(number)?);
                operations.push(match set {
                    b"SET" => Operation::Set(field, number, overflow),
                    _ => Operation::Add(field, number, overflow),
                });
                arguments = &rest[3..];
            }
            (b"OVERFLOW", [kind, ..]) => {
                overflow = match kind.to_ascii_uppercase().as_slice() {
                    b"WRAP" => Overflow::Wrap,
                    b"SAT" => Overflow::Saturate,
                    b"FAIL" => Overflow::Fail,
                    _ => return Err(Failure("ERR Invalid OVERFLOW type specified".into())),
                };
                arguments = &rest[1..];
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(operations)
}

/// Returns read access if all subcommands are GET (or OVERFLOW), and write access otherwise. Judged
/// word by word as Redis does, before syntax errors are detected.
pub(crate) fn touch(args: &[&[u8]]) -> Touch {
    let mut arguments = args.get(2..).unwrap_or_default();
    while let [name, rest @ ..] = arguments {
        arguments = match (name.to_ascii_uppercase().as_slice(), rest) {
            (b"GET", [_, _, rest @ ..]) | (b"OVERFLOW", [_, rest @ ..]) => rest,
            _ => return Touch::READ_CHANGE,
        };
    }
    Touch::READ
}

pub(crate) fn bitfield_ro(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let operations = parse(&call.args[2..])?;
    if !operations.iter().all(|operation| matches!(operation, Operation::Get(_))) {
        return Err(Failure("ERR BITFIELD_RO only supports the GET subcommand".into()));
    }
    perform(call, &operations)
}

pub(crate) fn bitfield(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let operations = parse(&call.args[2..])?;
    perform(call, &operations)
}

/// Minimum length of the value after these operations; `None` if none of them writes.
fn bytes_min(operations: &[Operation]) -> Option<usize> {
    let written = operations.iter().filter_map(|operation| match operation {
        Operation::Get(_) => None,
        Operation::Set(field, ..) | Operation::Add(field, ..) => Some(field.bytes()),
    });
    written.max()
}

/// Minimum length of the value after BITFIELD; 0 if the command fails.
pub(crate) fn end(args: &[&[u8]]) -> usize {
    parse(&args[2..]).ok().and_then(|operations| bytes_min(&operations)).unwrap_or(0)
}

fn perform(call: &mut Call<'_, '_>, operations: &[Operation]) -> Result<Outcome, Failure> {
    let key = call.args[1];
    let old = call.keys.get(key);
    let bytes_min = bytes_min(operations);
    let (mut value, expires_at) =
        old.map_or((Vec::new(), None), |old| (old.value.to_vec(), old.expires_at));
    let mut changed = false;
    if let Some(bytes_min) = bytes_min.filter(|&bytes_min| bytes_min > value.len()) {
        lengthen(&mut value, bytes_min)?;
        changed = true;
    }
    call.reply.array(operations.len());
    for &operation in operations {
        let (field, before) = match operation {
            Operation::Get(field) => {
                call.reply.integer(field.read(&value));
                continue;
            }
            Operation::Set(field, ..) | Operation::Add(field, ..) => (field, field.read(&value)),
        };
        let (after, answer) = match operation {
            Operation::Set(_, number, overflow) => {
                // An unsigned field takes the number's bits.
                let number =
                    if field.signed { i128::from(number) } else { i128::from(number as u64) };
                (field.fit(number, overflow), Some(before))
            }
            Operation::Add(_, by, overflow) => {
                let after = field.fit(i128::from(before) + i128::from(by), overflow);
                (after, after)
            }
            Operation::Get(_) => (None, None),
        };
        match (after, answer) {
            (Some(after), Some(answer)) => {
                changed |= after != before;
                field.write(&mut value, after);
                call.reply.integer(answer);
            }
            _ => call.reply.null(),
        }
    }
    if changed {
        call.keys.put(key, &value, expires_at)?;
    }
    Ok(Outcome::Done)
}

//! How a command is executed in a cluster, where each shard has a part of the keys: the request and
//! response policies of Redis's command tips.

use crate::resp::{Frame, response};

/// The shards that execute a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shards {
    /// The one that has all its keys, or any if it names none.
    One,
    /// Those that have its keys; each executes a part of it with its keys alone
    /// (`request_policy:multi_shard`).
    OfKeys(Merge),
    /// Every one executes the whole command (`request_policy:all_shards`, or `all_nodes`).
    All(Merge),
}

/// How the reply to a command is composed of those of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Merge {
    /// An array with one element for each key, in the order of the keys (no response policy).
    ByKey,
    /// An array of all elements, each once, in any order (no response policy).
    Union,
    /// The sum of integers (`agg_sum`).
    Sum,
    /// An array of integers, each the least at its position (`agg_logical_and`).
    And,
    /// The replies are equal; one of them (`all_succeeded`).
    Same,
}

impl Merge {
    /// The reply composed of `parts`; none of them is an error. `keys` states for each part the
    /// positions of its keys among all keys; only [`Merge::ByKey`] reads it.
    ///
    /// `None` if a reply has an unexpected type or length.
    pub fn join(self, parts: &[Frame<'_>], keys: &[&[u32]]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::ByKey => {
                let mut all: Vec<Option<&[u8]>> = vec![None; keys.iter().map(|of| of.len()).sum()];
                for (part, positions) in parts.iter().zip(keys) {
                    let mut elements = part.elements();
                    for &position in *positions {
                        *all.get_mut(position as usize)? = Some(elements.next()?.bytes());
                    }
                }
                response::write_array_header(&mut out, all.len());
                for element in all {
                    out.extend_from_slice(element?);
                }
            }
            Self::Union => {
                let all = parts.iter().flat_map(Frame::elements);
                let mut elements: Vec<&[u8]> = all.map(|element| element.bytes()).collect();
                elements.sort_unstable();
                elements.dedup();
                response::write_array_header(&mut out, elements.len());
                elements.iter().for_each(|element| out.extend_from_slice(element));
            }
            Self::Sum => {
                let add = |sum: i64, part: &Frame<'_>| sum.checked_add(part.integer()?);
                response::write_integer(&mut out, parts.iter().try_fold(0, add)?);
            }
            Self::And => {
                let mut parts = parts.iter().map(|part| {
                    part.elements().map(|each| each.integer()).collect::<Option<Vec<_>>>()
                });
                let mut least = parts.next()??;
                for part in parts {
                    let part = part.filter(|part| part.len() == least.len())?;
                    least.iter_mut().zip(part).for_each(|(least, own)| *least = own.min(*least));
                }
                response::write_array_header(&mut out, least.len());
                least.into_iter().for_each(|each| response::write_integer(&mut out, each));
            }
            Self::Same => out.extend_from_slice(parts.first()?.bytes()),
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Limits, frame};

    fn joined(merge: Merge, parts: &[&str], keys: &[&[u32]]) -> Option<String> {
        let read = |part: &&'static str| {
            frame::decode(part.as_bytes(), &Limits::default()).expect("a reply").expect("whole").0
        };
        let parts: Vec<&'static str> =
            parts.iter().map(|part| &*Box::leak((*part).to_owned().into_boxed_str())).collect();
        let frames: Vec<Frame<'_>> = parts.iter().map(read).collect();
        Some(String::from_utf8(merge.join(&frames, keys)?).expect("text"))
    }

    #[test]
    fn elements_are_in_the_order_of_their_keys() {
        let parts = ["*2\r\n$1\r\na\r\n$-1\r\n", "*1\r\n_\r\n"];
        let all = joined(Merge::ByKey, &parts, &[&[0, 2], &[1]]);
        assert_eq!(all.as_deref(), Some("*3\r\n$1\r\na\r\n_\r\n$-1\r\n"));
        assert_eq!(joined(Merge::ByKey, &["*1\r\n:1\r\n", ":1\r\n"], &[&[0], &[1]]), None);
        assert_eq!(joined(Merge::ByKey, &["*1\r\n:1\r\n"], &[&[0, 1]]), None);
    }

    #[test]
    fn replies_of_all_shards_are_one() {
        let union =
            joined(Merge::Union, &["*1\r\n$1\r\na\r\n", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"], &[]);
        assert_eq!(union.as_deref(), Some("*2\r\n$1\r\na\r\n$1\r\nb\r\n"));
        assert_eq!(joined(Merge::Sum, &[":1\r\n", ":41\r\n"], &[]).as_deref(), Some(":42\r\n"));
        assert_eq!(joined(Merge::Sum, &[":1\r\n", "+OK\r\n"], &[]), None);
        let and = joined(Merge::And, &["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"], &[]);
        assert_eq!(and.as_deref(), Some("*2\r\n:1\r\n:0\r\n"));
        assert_eq!(joined(Merge::And, &["*1\r\n:1\r\n", "*0\r\n"], &[]), None);
        assert_eq!(joined(Merge::Same, &["+OK\r\n", "+OK\r\n"], &[]).as_deref(), Some("+OK\r\n"));
        assert_eq!(joined(Merge::Same, &[], &[]), None);
    }
}

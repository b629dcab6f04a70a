//! Answers of which some parts are stored: the missing parts arrive with a reply, and each is
//! inserted at its position. A reply that is too long to be held is inserted while it arrives.

use std::{borrow::Cow, time::Duration};

use wire::resp::elements::Elements;

use crate::{
    expected::{Action, Expected, Merge, Part, Splice},
    filter::{Combines, Filter, Hush},
    session::Session,
    storage::Storage,
};

impl Merge {
    /// Sends some more of a reply.
    fn splice(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        let Some(Splice::Elements { cut, sent }) = &mut self.splice else {
            return out.extend_from_slice(bytes);
        };
        while let Some(piece) = cut.next(&mut bytes) {
            if piece.begins {
                send_stored(&self.parts, &self.stored, sent, out);
                *sent += 1;
            }
            out.extend_from_slice(piece.bytes);
        }
    }
}

/// Sends the stored parts before the next missing one.
fn send_stored(parts: &[Part], stored: &[u8], sent: &mut usize, out: &mut Vec<u8>) {
    while let Some(Part::Stored(range)) = parts.get(*sent) {
        out.extend_from_slice(stored.get(range.clone()).unwrap_or_default());
        *sent += 1;
    }
}

impl<F: Filter> Session<F> {
    /// Notes that the reply is longer than the limit: from now on it passes, with stored parts
    /// inserted.
    pub(crate) fn begin_to_splice(&mut self, part: &[u8]) {
        // Its first part alone may be longer than the limit for held bytes.
        let mut begun = std::mem::take(&mut self.captured.bytes);
        begun.extend_from_slice(part);
        self.captured.overflowed = true;
        let Some(Expected { tag, action: Action::Merge(merge), .. }) = self.expected.front_mut()
        else {
            return;
        };
        let mut unheard = Vec::new();
        let stored = if F::COMBINES == Combines::ByName { merge.stored.as_slice() } else { &[] };
        let out = if self.hush == Hush::Off { self.to_client.buffer() } else { &mut unheard };
        let missing = merge.parts.iter().filter(|part| matches!(part, Part::Missing(_))).count();
        let elements = self.filter.elements(tag, &begun).filter(|&(count, _)| count == missing);
        let rest = elements.and_then(|(_, head)| begun.get(head..));
        if rest.is_some() {
            self.filter.answer_many(tag, merge.parts.len(), out);
            merge.splice = Some(Splice::Elements { cut: Elements::default(), sent: 0 });
        } else {
            out.extend_from_slice(stored);
            merge.splice = Some(Splice::Whole);
        }
        merge.splice(rest.unwrap_or(&begun), out);
    }

    /// Some more of such a reply.
    pub(crate) fn go_on_splicing(&mut self, part: &[u8]) {
        let front = self.expected.front_mut();
        if let Some(Expected { action: Action::Merge(merge), .. }) = front
            && self.hush == Hush::Off
        {
            merge.splice(part, self.to_client.buffer());
        }
    }

    pub(crate) fn merge<S: Storage>(
        &mut self,
        tag: &F::Tag,
        mut merge: Merge,
        reply: Option<&[u8]>,
        storage: &mut S,
        now: Duration,
    ) {
        if let Some(splice) = merge.splice.take() {
            if let Splice::Elements { mut sent, .. } = splice {
                send_stored(&merge.parts, &merge.stored, &mut sent, self.to_client.buffer());
            }
            for part in merge.parts {
                if let Part::Missing(fill) = part {
                    self.fill(tag, *fill, None, storage, now);
                }
            }
            return;
        }
        let passed = !merge.is_partial();
        let missing = merge.parts.iter().filter(|part| matches!(part, Part::Missing(_))).count();
        let missing_keys = merge.parts.iter().filter_map(|part| match part {
            Part::Missing(fill) => Some(fill.key.borrow().bytes),
            Part::Stored(_) => None,
        });
        let elements = reply.and_then(|reply| self.filter.split(tag, missing_keys, reply));
        let elements = elements.filter(|parts| parts.len() == missing);
        let out = self.to_client.buffer();
        match &elements {
            _ if passed => {}
            Some(_) => self.filter.answer_many(tag, merge.parts.len(), out),
            // An error answers the whole request.
            None => out.extend_from_slice(reply.unwrap_or_default()),
        }
        let ends = !passed && elements.is_some();
        let mut elements = elements.map(Vec::into_iter);
        for part in merge.parts {
            match part {
                Part::Stored(range) if elements.is_some() => {
                    let stored = merge.stored.get(range).unwrap_or_default();
                    self.to_client.buffer().extend_from_slice(stored);
                }
                Part::Stored(_) => {}
                Part::Missing(fill) => {
                    // Without elements the reply is an error, which `admit` will not take either.
                    let element = match &mut elements {
                        Some(elements) => elements.next(),
                        None => reply.map(Cow::Borrowed),
                    };
                    let element = element.as_deref();
                    if !passed && elements.is_some() {
                        self.to_client.buffer().extend_from_slice(element.unwrap_or_default());
                    }
                    self.fill(tag, *fill, element, storage, now);
                }
            }
        }
        if ends {
            self.filter.end_many(tag, self.to_client.buffer());
        }
    }
}

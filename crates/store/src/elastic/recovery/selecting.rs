//! Compares the existing segments with those that the manifest lists.

use hashbrown::HashSet;

use super::Opening;
use crate::device::{Device, FileName};
use crate::elastic::Error;
use crate::elastic::log::Segment;
use crate::elastic::segment::{BLOCK_BYTES, Header};

impl<D: Device + ?Sized> Opening<'_, D> {
    /// The segments that may contain valid records. A missing or unknown segment is an error unless
    /// the loss of data is accepted.
    pub(super) fn select(
        &mut self,
        segments: Vec<Segment>,
        accept_data_loss: bool,
    ) -> Result<Vec<Segment>, Error> {
        let Some(manifest) = &self.manifest else { return Ok(segments) };
        let there: HashSet<u64> = segments.iter().map(|segment| segment.number).collect();
        let missing = manifest.segments.iter().filter(|number| !there.contains(*number));
        let files: Vec<FileName> = missing.copied().map(FileName::Segment).collect();
        if !files.is_empty() {
            let error = Error::Missing { files };
            if !accept_data_loss {
                return Err(error);
            }
            self.recovery.damage.push(error);
        }
        let mut kept = Vec::with_capacity(segments.len());
        for segment in segments {
            let number = segment.number;
            let is_listed = manifest.has(number);
            let is_given_up = manifest.given_up.binary_search(&number).is_ok();
            // A spare that was not listed before the machine stopped is empty.
            if is_listed || (!is_given_up && self.is_used(number)) {
                if !is_listed && !accept_data_loss {
                    return Err(Error::Foreign {
                        file: FileName::Segment(number),
                        found: "records, but the manifest does not list it".to_owned(),
                        expected:
                            "a manifest that is no older than the segments. Move the file away, or \
                                   restore the manifest of the same time, or start with \
                                   --accept-data-loss to serve what is in it, which may be outdated"
                                .to_owned(),
                    });
                }
                kept.push(segment);
            } else {
                self.removals.push(number);
            }
        }
        Ok(kept)
    }

    fn is_used(&self, number: u64) -> bool {
        let header = self.read(number, 0, BLOCK_BYTES).ok().and_then(|bytes| Header::read(&bytes));
        header.is_some_and(|header| header.number == number)
    }
}

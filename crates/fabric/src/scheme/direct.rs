//! Direct: servers know every mapping (§5, "pure host-driven").

use super::resolver::{Departure, Path, Resolver};

#[derive(Debug)]
pub(crate) struct Direct;

impl Resolver for Direct {
    fn depart(&mut self, _path: &mut Path, _now_ns: u64) -> Departure {
        Departure::DIRECT
    }
}

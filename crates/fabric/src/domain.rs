//! The two domains of a fabric.
//!
//! Which of two events of one nanosecond happens first at a node is decided by when they were set,
//! then by the domain that set them, then by the order of setting in that domain. Neither domain
//! needs to know how far the other is within a nanosecond, so that each can be simulated by a
//! thread (`world/parts.rs`).
//!
//! Decision: `docs/decisions/0152-fabric-domains.md`.

use crate::network::Shape;

/// A part of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    /// All hosts, and ToRs.
    Edge = 0,
    /// Cores and spines.
    Middle = 1,
}

/// Where the domains meet: nodes below this number are the middle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Border(u32);

impl Border {
    /// `whole`: there is one domain.
    pub(crate) fn new(shape: &Shape, whole: bool) -> Self {
        let tors = shape.switches - shape.first_tor;
        Self(if whole { 0 } else { shape.first_tor + tors * 7 / 16 })
    }

    pub(crate) fn domain(self, node: u32) -> Domain {
        if node < self.0 { Domain::Middle } else { Domain::Edge }
    }
}

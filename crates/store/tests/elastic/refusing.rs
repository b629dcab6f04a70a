//! Device commands that fail in the middle of a run.

use std::io::ErrorKind;

use store::device::{Completion, DeviceCommand, carry_out};

use super::Run;

/// Commands that the device refuses from now on.
pub struct Refusal {
    pub is_meant: Box<dyn FnMut(&DeviceCommand) -> bool>,
    pub error: ErrorKind,
    /// The device carries them out, and reports the error all the same.
    pub has_effect: bool,
    /// Number of commands refused so far.
    pub refused: u64,
}

impl Refusal {
    pub fn new(error: ErrorKind, is_meant: impl FnMut(&DeviceCommand) -> bool + 'static) -> Self {
        Self { is_meant: Box::new(is_meant), error, has_effect: false, refused: 0 }
    }
}

impl Run {
    pub(super) fn carry_out(&mut self, command: &DeviceCommand) -> Completion {
        let Some(refusal) = self.refusal.as_mut() else { return carry_out(&self.device, command) };
        if !(refusal.is_meant)(command) {
            return carry_out(&self.device, command);
        }
        refusal.refused += 1;
        if refusal.has_effect {
            carry_out(&self.device, command);
        }
        Completion { id: command.id, result: Err(refusal.error.into()) }
    }

    /// Number of commands that the refusal has met.
    pub fn refused(&self) -> u64 {
        self.refusal.as_ref().map_or(0, |refusal| refusal.refused)
    }
}

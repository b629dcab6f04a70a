//! The terminal: frames are drawn in place of each other, and single keys are read.

use std::{
    io::{self, IsTerminal, Read, Write, stdin, stdout},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};

use crate::signal::EndSignal;

/// Another screen, without a cursor; and back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
/// Longest wait for a key before the end signal is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The terminal while it shows frames; dropping it restores what it showed before.
pub struct Terminal {
    /// Its modes before; `None` if standard input is no terminal.
    before: Option<Termios>,
}

impl Terminal {
    /// Shows an empty screen; keys are no longer echoed.
    ///
    /// # Errors
    /// Standard output or input fails.
    pub fn open() -> io::Result<Self> {
        let before = if stdin().is_terminal() { Some(tcgetattr(stdin())?) } else { None };
        if let Some(before) = &before {
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            tcsetattr(stdin(), OptionalActions::Now, &single)?;
        }
        let terminal = Self { before };
        stdout().write_all(OPEN.as_bytes())?;
        Ok(terminal)
    }

    /// Shows `lines` as far as there is room.
    ///
    /// # Errors
    /// Standard output fails.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        // A terminal that does not know its size says 0.
        let size = tcgetwinsize(stdout()).map_or((0, 0), |size| (size.ws_row, size.ws_col));
        let rows = if size.0 == 0 { 24 } else { usize::from(size.0) };
        let columns = if size.1 == 0 { 80 } else { usize::from(size.1) };
        let mut text = String::from("\x1b[H");
        for line in lines.iter().take(rows - 1) {
            // What a service says could contain what terminals obey.
            text.extend(line.chars().take(columns).filter(|one| !one.is_control()));
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("q: quit\x1b[J");
        let mut out = stdout();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Waits for `time`; true if q, Ctrl-C or a signal ends the program.
    ///
    /// # Errors
    /// Standard input fails.
    pub fn waits(&self, time: Duration, end: &EndSignal) -> io::Result<bool> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if end.wait(Some(Duration::ZERO)) {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            let keys = self.before.is_some().then(stdin);
            let mut ready: Vec<_> =
                keys.iter().map(|keys| PollFd::new(keys, PollFlags::IN)).collect();
            let limit = Timespec::try_from(left.min(LOOK)).ok();
            match poll(&mut ready, limit.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    let mut keys = [0; 16];
                    let count = stdin().read(&mut keys)?;
                    // 3 is Ctrl-C; at the end of the input nothing more is read.
                    if count == 0 || keys[..count].iter().any(|key| b"qQ\x03\x04".contains(key)) {
                        return Ok(true);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Without a terminal nothing is left to restore.
        let _ = stdout().write_all(CLOSE.as_bytes());
        let _ = stdout().flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

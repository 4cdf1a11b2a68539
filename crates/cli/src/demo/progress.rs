//! Telling a person what happens: one line that changes on a terminal, lines elsewhere.

use std::io::{IsTerminal, Write, stderr};

/// Steps of a known number.
pub(crate) struct Progress {
    done: usize,
    total: usize,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Progress {
        Progress { done: 0, total, terminal: stderr().is_terminal() }
    }

    /// Begins the next step.
    pub(crate) fn step(&mut self, what: &str) {
        self.done += 1;
        let line = format!("[{:>2}/{}] {what}", self.done, self.total);
        let mut out = stderr().lock();
        // Nobody is helped if the terminal has gone.
        let _ = if self.terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// Leaves the line clean.
    pub(crate) fn finish(self) {
        if self.terminal {
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }
}

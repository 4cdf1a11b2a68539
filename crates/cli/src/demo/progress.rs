//! Shows the user the progress: one changing line on a terminal, separate lines elsewhere.

use std::io::{IsTerminal, Write, stderr};

/// The progress of a known number of steps.
pub(crate) struct DemoProgress {
    done: usize,
    total: usize,
    terminal: bool,
}

impl DemoProgress {
    pub(crate) fn new(total: usize) -> DemoProgress {
        DemoProgress { done: 0, total, terminal: stderr().is_terminal() }
    }

    /// Begins the next step.
    pub(crate) fn step(&mut self, what: &str) {
        self.done += 1;
        let line = format!("[{:>2}/{}] {what}", self.done, self.total);
        let mut out = stderr().lock();
        // A progress line is not worth a failure: the terminal may be gone.
        let _ = if self.terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// Clears the line.
    pub(crate) fn finish(self) {
        if self.terminal {
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }
}

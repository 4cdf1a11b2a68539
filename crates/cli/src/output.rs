//! Standard output whose reader may be gone.
//!
//! The standard library's `println` panics in that case. SIGPIPE ends other commands; this one ends with the code
//! that a shell shows for SIGPIPE. (Rust programs ignore the signal itself, for the sake of sockets and pipes.)

use std::fmt;
use std::io::{self, ErrorKind, Write};

/// The exit status that a shell shows for a command that SIGPIPE has ended.
const ENDED_BY_SIGPIPE: i32 = 128 + 13;

/// Prints a line. If the reader is gone, ends the command.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    let Err(error) = writeln!(stdout, "{text}") else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        end_without_reader();
    }
    let _ = writeln!(io::stderr(), "longarm: cannot write to standard output: {error}");
    std::process::exit(1);
}

/// Ends the command because the reader of its output is gone.
pub(crate) fn end_without_reader() -> ! {
    std::process::exit(ENDED_BY_SIGPIPE)
}

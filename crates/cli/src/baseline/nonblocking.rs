//! Results of non-blocking system calls.

use std::io;

/// Whether a non-blocking call would block.
pub(super) fn not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

//! The client for `asyncio`.
//!
//! ```text
//!  table      operations of one table that tasks share        operation   an operation that Python awaits
//!  bridge     the way from a thread that wakes a task to its event loop
//! ```
//! No thread of Longarm's ever waits for the interpreter's lock: it writes a byte to a socket on which the event loop sleeps.

pub(crate) mod bridge;
pub(crate) mod operation;
pub(crate) mod table;

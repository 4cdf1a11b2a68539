//! The duties of a library towards the program in whose process it runs.
//!
//! * [`spawn`]: threads that take none of the program's signals.
//! * [`is_ours`]: tells this library's threads from the program's.
//! * [`high`]: descriptors that leave the low numbers to the program.
//! * [`fork`]: forked children that do not use their parent's connections.
//! * [`epoll_wait`]: waiting without complaints of valgrind.
//! * [`sanitizer`]: detects programs that were built with AddressSanitizer.
//! * [`environment`]: variables, which are ignored in a program with more rights than its caller.
//!
//! Out of scope: the crate does not know devices, sockets or the work of a thread.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod descriptor;
pub mod environment;
mod events;
pub mod fork;
mod ours;
pub mod sanitizer;
mod thread;

pub use descriptor::{LOWEST, copy, high};
pub use events::epoll_wait;
pub use ours::{is_ours, settled};
pub use thread::spawn;

//! What a library owes the program in whose process it lives.
//!
//! * [`spawn`]: threads that take none of the program's signals.
//! * [`is_ours`]: which threads those are.
//! * [`high`]: descriptors that leave the low numbers to the program.
//! * [`fork`]: children that take nothing of ours along.
//! * [`epoll_wait`]: waiting without complaints of valgrind.
//! * [`sanitizer`]: whether the program was built with AddressSanitizer.
//! * [`environment`]: variables, which a program with more rights than its caller does not obey.
//!
//! What it does not do: it knows nothing of devices, sockets or what a thread is for.
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

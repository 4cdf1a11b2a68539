//! `longarm run`: any verbs program, unmodified, on this device.
//!
//! The program finds our `libibverbs.so.1` by the library path, or, if it needs more, in a
//! namespace where our library and a generated `/sys/class/infiniband` are in place of the
//! system's. The hub is started first, so that what is wrong is said here. Then the program
//! takes this process over: terminal, signals and exit status are its own.

mod bundled;
mod command;
mod elf;
mod environment;
mod error;
mod facts;
mod install;
mod library;
mod namespace;
mod needs;
mod options;
mod prepare;
mod program;
mod search;
mod tools;

pub(crate) use command::{RunArgs, execute, probe, run};
pub(crate) use environment::Environment;
pub(crate) use error::Failure;
pub(crate) use install::resolve;
pub(crate) use namespace::{unshare_flags, unshare_user};
pub(crate) use options::{DEVICES_VARIABLE, Options};
pub(crate) use prepare::prepare;

/// A hash that is the same in every run of this build.
fn stable_hash(value: &impl std::hash::Hash) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

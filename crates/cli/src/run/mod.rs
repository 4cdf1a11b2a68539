//! `longarm run`: runs any unmodified verbs program on Longarm's devices.
//!
//! The program finds Longarm's `libibverbs.so.1` by the library path. If it needs more, it runs in a
//! namespace where Longarm's library and a generated `/sys/class/infiniband` replace those of the
//! system. The command starts the hub first, so that it can report problems. Then it executes the
//! program in this process: terminal, signals and exit status are the program's.

mod bundled;
mod command;
mod elf;
mod embedded;
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
pub(crate) use error::StartFailure;
pub(crate) use install::resolve;
pub(crate) use namespace::{unshare_flags, unshare_user};
pub(crate) use options::{DEVICES_VARIABLE, RunOptions};
pub(crate) use prepare::prepare;

/// A hash that is the same in every run of this build.
fn stable_hash(value: &impl std::hash::Hash) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

//! Helpers that the tests of several crates share. Only `[dev-dependencies]` may name this crate, and it uses no other
//! crate of the workspace, so that each of them can use it.
//!
//! Helpers that need a crate lie behind that crate's feature `testing`: network namespaces in `udp`, a hub of a test's
//! own in `hub`, engines without a hub in `device`. Random numbers come from `faults::Rng`.
#![forbid(unsafe_code)]

mod build;
#[cfg(feature = "certificates")]
mod certificates;
mod directory;
mod process;
mod wait;

pub use build::{build_examples, example, profile, workspace_build};
#[cfg(feature = "certificates")]
pub use certificates::Authority;
pub use directory::TestDir;
pub use process::{ROLE, copy_program, in_new_netns, is_root, must_succeed, role, run_again, said};
pub use wait::{PATIENCE, wait_for, wait_until};

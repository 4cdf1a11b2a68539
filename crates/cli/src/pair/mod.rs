//! `longarm pair`: a server and a client of one program, side by side.
//!
//! Benchmarks such as perftest's are started twice, on two hosts: first without an address, then
//! with the server's. Here both run on this machine, or on two hosts made of network namespaces
//! (`--namespaces`). The output of each is shown with the name of its side.

mod arguments;
mod command;
mod hosts;
mod listen;
mod output;
mod side;
mod tree;
mod wait;

pub(crate) use command::{PairArgs, run};
pub(crate) use side::{TiedArgs, tied};

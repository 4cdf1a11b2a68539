//! Tests of whole engines over real sockets, in network namespaces of their own.

mod atomics;
mod completions;
mod datagrams;
mod events;
mod faults;
mod hostile;
mod idle;
mod lifetimes;
mod many;
mod near;
mod on_demand;
mod operations;
pub(crate) mod rig;
mod slots;
mod threads;
mod xrc;

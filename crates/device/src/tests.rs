//! Tests of whole engines over real sockets, in network namespaces of their own.

mod at_once;
mod atomics;
mod calls;
mod completions;
mod datagrams;
mod equal;
mod events;
mod faults;
mod hostile;
mod idle;
mod lifetimes;
mod many;
mod memory_watch;
mod naps;
mod objects;
mod on_demand;
mod operations;
mod own;
pub(crate) mod rig;
mod shared_receive;
mod shm;
mod slots;
mod stalled;
mod threads;
mod xrc;

//! Memory under keys: protection domains, memory regions, memory windows.
//!
//! A [`Registry`] holds what one device may reach. Memory is entered into it by
//! [`register_region`](Registry::register_region) (memory of ours, safe) or
//! [`register`](Registry::register) (anybody's, unsafe), which hand out an lkey for
//! the owner's queue pairs and an rkey for the owner to give to peers. Queue pairs
//! then reach it through the [`Memory`](transport::Memory) trait alone, by key,
//! address and length, and every access is checked anew: key alive, protection
//! domain, rights, bounds.
//!
//! ```text
//!  key, 32 bits          control (a mutex)                 the access path (no lock)
//! +----------+-----+    +------------------------+        +-------------------------------+
//! |  handle  | tag |    | protection domains     |        | key -> handle -> slot         |
//! | 24 bits  |  8  |    | slots: life, tag, what |        | pin the slot's entry          |
//! +----------+-----+    | free slots, FIFO       |        | compare key, PD, right, range |
//!  slot and generation, | windows of each region |        | copy (Span), unpin            |
//!  secretly permuted    +------------------------+        +-------------------------------+
//! ```
//!
//! What the crate promises: after [`deregister`](Registry::deregister) returns, no
//! access to that memory is under way and none will come. A dead key stays dead.
//! A key tells nothing about another.
//!
//! What it does not do: it moves no packets, knows no queue pairs but by number, and
//! does not stop the owner from changing memory that peers are reading; what they
//! then read is some mixture of the old and the new.
//!
//! The unsafe parts have an address each: [`Span`] copies to and from memory that
//! changes under us, `gate` keeps an entry alive while it is in use, `far` reaches memory
//! that may be unmapped at any time, `unmapped` what becomes of accesses to memory that must not be
//! and is, `region` and `probe` talk to the kernel, `adopt` moves the program's own memory to where
//! peers on the same host can map it.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod adopt;
mod calls;
mod copies;
mod error;
mod far;
mod gate;
#[cfg(test)]
mod gate_tests;
mod grant;
mod keys;
mod lock;
mod mirror;
mod objects;
mod pds;
mod piece;
mod probe;
mod region;
mod registry;
mod secret;
mod shared;
mod slots;
mod span;
mod sync;
mod table;
#[cfg(test)]
mod testing;
mod unmapped;
mod windows;

pub use access::Opened;
pub use adopt::{Adoption, Verdict, advise, is_given_up, set_advice_watched};
pub use calls::{madvise, process_vm_readv, process_vm_writev};
pub use error::MrError;
pub use gate::{Gate, Pin};
pub use lock::{QuickGuard, QuickMutex};
pub use mirror::{Mirror, ObjectFile};
pub use piece::Piece;
pub use region::{Region, file_limit_bytes};
pub use registry::{MrId, MrKeys, MrSpec, RegionInfo, Registry};
pub use shared::{Place, RemoteKeys, SharedKey};
pub use span::Span;
pub use transport::{Access, PdId};
pub use unmapped::{survive_unmapping, unmapped_pages};
pub use windows::{MwId, MwInfo, MwKeys, MwType};

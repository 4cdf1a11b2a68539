//! Memory under keys: protection domains, memory regions, memory windows.
//!
//! A [`Registry`] holds the memory that one device may reach. Memory is registered by
//! [`register_region`](Registry::register_region) (this library's own memory, safe) or
//! [`register`](Registry::register) (any memory, unsafe). Both return an lkey for the owner's queue pairs and
//! an rkey for the owner to give to peers. Queue pairs then reach the memory only through the
//! [`Memory`](transport::Memory) trait, by key, address and length. Every access repeats all checks: key
//! alive, protection domain, rights, bounds.
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
//! Guarantees: after [`deregister`](Registry::deregister) returns, no access to that memory is in progress
//! and none will follow. A dead key stays dead. A key reveals nothing about another.
//!
//! Out of scope: the crate moves no packets and knows queue pairs only by number. It does not stop the owner
//! from changing memory that peers are reading; they then read some mixture of the old and the new bytes.
//!
//! Each unsafe part has its module:
//! - [`Span`] copies to and from memory that changes concurrently;
//! - `gate` keeps an entry alive while it is in use;
//! - `far` accesses memory that may be unmapped at any time;
//! - `unmapped` handles accesses to memory that the program has unmapped although it must not;
//! - `region` and `probe` call the kernel;
//! - `adopt` moves the program's own memory into a file that peers on the same host can map.
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
mod handlers;
mod keys;
mod lock;
mod mirror;
mod notify;
mod object;
mod objects;
mod owned;
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

pub use access::{ObjectError, OpenedMemory, read_object};
pub use adopt::{Adoption, AdoptionResult, advise, is_given_up, set_advice_watched};
pub use calls::{madvise, process_vm_readv, process_vm_writev};
pub use error::MrError;
pub use gate::{Gate, Pin};
pub use handlers::{CallHandler, RemoteCall};
pub use lock::{QuickGuard, QuickMutex};
pub use mirror::{Mirror, ObjectFile};
pub use owned::{BorrowedMemory, OwnedMemory};
pub use piece::Piece;
pub use region::{Region, file_limit_bytes};
pub use registry::{MrId, MrKeys, MrSpec, RegionInfo, Registry};
pub use shared::{ObjectPlace, RemoteKeys, SharedKey};
pub use span::Span;
pub use transport::{Access, PdId};
pub use unmapped::{survive_unmapping, unmapped_pages};
pub use windows::{MwId, MwInfo, MwKeys, MwType};

//! A B-tree that readers search alone, in the order of keys. (Mitchell, Montgomery, Nelson, Sen, Li: "Balancing CPU and Network in
//! the Cell Distributed B-Tree Store", USENIX ATC 2016. Links and fences: Lehman, Yao: "Efficient Locking for Concurrent
//! Operations on B-Trees", TODS 1981.)
//!
//! ```text
//!  root record ─► inner nodes: separators, children ─► leaves: slots ─► objects
//!                                                       └─ link ─► next leaf
//! ```
//! Rules that the owner keeps, and that readers stand on:
//!
//! - The keys that a node holds are told by its fences, which never change. Live leaves that hold one key have the same slots.
//! - A slot, a child, a link and the first word of a node change by one store. All else in a node never changes.
//! - A replaced node never changes again. Its link leads to nodes that hold its keys.
//! - A pointer is stored after the node that it leads to.

mod cache;
mod descent;
mod image;
mod lookup;
mod node;
mod owner;
mod pointer;
mod range;
mod root;
mod scan;
mod separator;
mod window;

pub use cache::NodeCache;
pub use lookup::TreeLookup;
pub use owner::{OwnedPart, TreeOptions, TreeOwner};
pub use pointer::NODE_BYTES;
#[cfg(any(test, feature = "sim"))]
pub(crate) use pointer::{NodeHeader, NodeState};
pub use range::KeyRange;
pub use root::TreeRoot;
pub use scan::{ScanItem, ScanStep, TreeScan};

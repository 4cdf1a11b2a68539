//! Data structures in another machine's memory. A peer reads them alone, with READs: the owner's processor does not help.
//!
//! The owner of a table writes it. Readers find a key with one or two READs while the owner's program does something else, or
//! is stopped. So every object says by itself whether the bytes that a reader got are whole, and are still the ones that it
//! looked for.
//!
//! ```
//! use longarm_remote::{Cluster, Crc64, Found, LocalReads, KeyLookup, OwnerOptions, PlainMemory, TableOwner};
//!
//! # fn main() -> Result<(), longarm_remote::OwnerError> {
//! let memory = PlainMemory::new(1 << 20);
//! let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default())?;
//! table.put(b"key", b"value")?;
//!
//! // A reader. On a device the bytes come by READs; here from the memory itself.
//! let mut reads = LocalReads::new(&memory);
//! let mut lookup = KeyLookup::<Cluster, Crc64>::new(1 << 20);
//! let found = reads.run(&mut lookup, b"key", None);
//! assert!(matches!(found, Ok(Found::Value(value)) if value == b"value"));
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Only the first lines know a device, a thread or a clock:
//!
//! ```text
//!  regions       memory servers: named regions, rights, allocation, leases
//!  ring          records that a peer writes and the owner takes
//!  exposure      memory that another process exposes to peers, with windows for each
//!  verbs         readers on queue pairs, and the owner's registered memory
//!  update        a peer's change of one object: lock, WRITE, unlock
//!  tree          the B-tree: nodes, searches, scans, and its owner
//!  lookup        a reader's search for one key: asks for READs, is fed bytes
//!  owner         the writer of a table: objects, slots, growth
//!  layout        cluster, hopscotch, cuckoo: where a key's slot may be
//!  root, cache   the record from which readers start; places that a reader remembers
//!  object        headers, and the checks against torn reads
//!  proof         secrets, and proofs that both ends have them
//!  allocator     blocks of a region, reused late
//!  memory        words of shared memory
//! ```
#![forbid(unsafe_code)]

mod allocator;
mod cache;
mod exposure;
mod layout;
mod local;
mod lookup;
mod memory;
mod object;
mod owner;
mod proof;
mod regions;
mod ring;
mod root;
#[cfg(any(test, feature = "sim"))]
#[doc(hidden)]
pub mod sim;
mod tree;
mod update;
mod verbs;

pub use allocator::{AllocatorOptions, BlockAllocator, NoRoom};
pub use cache::LocationCache;
pub use exposure::{
    ConnectionToken, ExposureError, MemoryProcess, MemoryProcessOptions, OpenWindow, ProcessWindow, WindowKeeper,
    WindowSpec, connection_data, end_left_memory, serve_memory,
};
pub use layout::{Candidate, Cluster, Cuckoo, Hopscotch, IndexSearch, SearchStep, TableFull, TableLayout, TableShape};
pub use local::{Found, LocalReads, LookupError};
pub use lookup::{FoundObject, KeyLookup, LookupCounts, LookupStep, ReadRequest};
pub use memory::{PlainMemory, WordMemory};
pub use object::{
    AtomicReads, Crc64, LineVersions, Location, MAX_KEY_BYTES, MAX_VALUE_BYTES, ObjectHeader, ObjectState, OpenObject,
    ReadGrain, Seal, SizeClass, TornCheck, Unopened,
};
pub use owner::{EndedLock, LastAccess, LockEnd, OwnerError, OwnerOptions, PeerTable, PutOutcome, TableOwner};
pub use proof::{ProofBytes, ProofEnd, ProofSecret, ShortSecret};
pub use regions::{
    MemoryClient, MemoryClientOptions, MemoryServer, MemoryServerBuilder, MemoryServerFigures, MemoryServerOptions,
    NamedRegionInfo, PieceLife, RegionError, RegionRole, RemoteRegion, TenantOptions,
};
pub use ring::{
    RING_DATA_AT, RemoteRing, RingBroken, RingConsumer, RingError, RingFull, RingReader, RingWrite, RingWriter,
    SharedRing, SharedRingOptions, record_bytes,
};
pub use root::{ROOT_BYTES, RootCopy};
pub use tree::{
    KeyRange, NODE_BYTES, NodeCache, OwnedPart, ScanItem, ScanStep, TreeLookup, TreeOptions, TreeOwner, TreeRoot,
    TreeScan,
};
pub use update::{OneSidedUpdate, UpdateRefusal, UpdateStep};
pub use verbs::{
    AloneError, AloneOutcome, FoundPlace, ReadError, ReaderOptions, ReaderStats, SharedTableReader, SharedTreeReader,
    TableMemory, TableReader, TreeReader, WriterPass,
};

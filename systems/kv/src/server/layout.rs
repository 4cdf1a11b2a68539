//! Tables of any layout behind one interface.

use std::fmt;
use std::str::FromStr;

use remote::{
    AtomicReads, Cluster, Crc64, Cuckoo, Hopscotch, KeyRange, ObjectHeader, OwnedPart, OwnerError, OwnerOptions,
    PeerTable, PutOutcome, TableLayout, TableOwner, TornCheck, TreeOptions, TreeOwner, WordMemory,
};

/// The layout of a table's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvLayout {
    /// Cluster hashing (DrTM-KV): the default.
    #[default]
    Cluster,
    /// Hopscotch hashing (FaRM-KV).
    Hopscotch,
    /// Cuckoo hashing (Pilaf).
    Cuckoo,
    /// Cluster hashing, and objects without a checksum: clients READ each at one moment (SABRes). Only Longarm's own devices have
    /// such READs; clients elsewhere GET by RPC.
    ClusterAtomic,
    /// A B-tree (Cell): keys in the order of their bytes, for ranges.
    Tree,
}

/// A name that is no layout's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no layout is called {0:?}: there are cluster, hopscotch, cuckoo, cluster-atomic and tree")]
pub struct UnknownLayout(pub String);

impl KvLayout {
    /// All of them.
    pub const ALL: [KvLayout; 5] =
        [KvLayout::Cluster, KvLayout::Hopscotch, KvLayout::Cuckoo, KvLayout::ClusterAtomic, KvLayout::Tree];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            KvLayout::Cluster => Cluster::NAME,
            KvLayout::Hopscotch => Hopscotch::NAME,
            KvLayout::Cuckoo => Cuckoo::NAME,
            KvLayout::ClusterAtomic => "cluster-atomic",
            KvLayout::Tree => "tree",
        }
    }
}

impl fmt::Display for KvLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KvLayout {
    type Err = UnknownLayout;

    fn from_str(name: &str) -> Result<KvLayout, UnknownLayout> {
        KvLayout::ALL.into_iter().find(|layout| layout.name() == name).ok_or_else(|| UnknownLayout(name.into()))
    }
}

/// Takes an object of a range, and tells whether more are wanted.
pub(crate) type EachPart<'a> = &'a mut dyn FnMut(OwnedPart<'_>) -> bool;

/// The operations of a [`TableOwner`] that the server needs.
pub(crate) trait OwnedTable: Send {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<PutOutcome, OwnerError>;
    fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError>;
    fn get_part(
        &mut self,
        key: &[u8],
        from: u64,
        len_bytes: u64,
        part: &mut Vec<u8>,
    ) -> Result<Option<(ObjectHeader, u64)>, OwnerError>;
    /// Tells the objects of a range in the order of their keys, with the first bytes of their values, until `each` returns false.
    /// `None`: the table has no order.
    fn scan_parts(&mut self, _: &KeyRange, _: u64, _: EachPart<'_>) -> Option<Result<(), OwnerError>> {
        None
    }
    /// Reads where a search for the key begins; see [`TableOwner::look_ahead`].
    fn look_ahead(&self, _key: &[u8]) -> u64 {
        0
    }
    fn set_now(&mut self, now_ns: u64);
    /// Bytes of blocks in use.
    fn used_bytes(&self) -> u64;
    /// The table's side for clients that PUT alone; `None` if its layout has none.
    fn peers(&mut self) -> Option<&mut dyn PeerTable> {
        None
    }
}

impl<M: WordMemory + Send, L: TableLayout, C: TornCheck> OwnedTable for TableOwner<M, L, C> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<PutOutcome, OwnerError> {
        TableOwner::put(self, key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        TableOwner::delete(self, key)
    }

    fn get_part(
        &mut self,
        key: &[u8],
        from: u64,
        len_bytes: u64,
        part: &mut Vec<u8>,
    ) -> Result<Option<(ObjectHeader, u64)>, OwnerError> {
        TableOwner::get_part(self, key, from, len_bytes, part)
    }

    fn look_ahead(&self, key: &[u8]) -> u64 {
        TableOwner::look_ahead(self, key)
    }

    fn set_now(&mut self, now_ns: u64) {
        TableOwner::set_now(self, now_ns);
    }

    fn used_bytes(&self) -> u64 {
        self.blocks().used_bytes()
    }

    fn peers(&mut self) -> Option<&mut dyn PeerTable> {
        if C::PEERS_MAY_WRITE { Some(self) } else { None }
    }
}

impl<M: WordMemory + Send> OwnedTable for TreeOwner<M, Crc64> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<PutOutcome, OwnerError> {
        TreeOwner::put(self, key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        TreeOwner::delete(self, key)
    }

    fn get_part(
        &mut self,
        key: &[u8],
        from: u64,
        len_bytes: u64,
        part: &mut Vec<u8>,
    ) -> Result<Option<(ObjectHeader, u64)>, OwnerError> {
        TreeOwner::get_part(self, key, from, len_bytes, part)
    }

    fn scan_parts(&mut self, range: &KeyRange, len_bytes: u64, each: EachPart<'_>) -> Option<Result<(), OwnerError>> {
        Some(TreeOwner::scan_parts(self, range, len_bytes, each))
    }

    fn set_now(&mut self, now_ns: u64) {
        TreeOwner::set_now(self, now_ns);
    }

    fn used_bytes(&self) -> u64 {
        self.blocks().used_bytes()
    }
}

/// An empty table in that memory.
pub(crate) fn create<M: WordMemory + Send + 'static>(
    layout: KvLayout,
    memory: M,
    options: OwnerOptions,
) -> Result<Box<dyn OwnedTable>, OwnerError> {
    Ok(match layout {
        KvLayout::Cluster => Box::new(TableOwner::<_, Cluster, Crc64>::create(memory, options)?),
        KvLayout::Hopscotch => Box::new(TableOwner::<_, Hopscotch, Crc64>::create(memory, options)?),
        KvLayout::Cuckoo => Box::new(TableOwner::<_, Cuckoo, Crc64>::create(memory, options)?),
        KvLayout::ClusterAtomic => Box::new(TableOwner::<_, Cluster, AtomicReads>::create(memory, options)?),
        KvLayout::Tree => {
            let OwnerOptions { in_place_bytes, allocator, salt, .. } = options;
            Box::new(TreeOwner::<_, Crc64>::create(memory, TreeOptions { in_place_bytes, allocator, salt })?)
        }
    })
}

//! A table that is served: its writer, its memory, its secret.

use std::sync::Arc;
use std::time::Duration;

use longarm::{Access, Device, ProtectionDomain, ServedCalls};
use parking_lot::Mutex;
use remote::{AllocatorOptions, OwnerOptions, TableMemory};

use crate::proof::TableSecret;
use crate::server::device;
use crate::server::error::KvServerError;
use crate::server::figures::{TableCounts, TableFigures};
use crate::server::grants::StandingWriter;
use crate::server::layout::{self, KvLayout, OwnedTable};
use crate::server::random::fill_random;
use crate::server::table::{TableWriter, WhenFull};

/// The longest name of a table, in bytes.
const LONGEST_NAME: usize = 256;
/// The shortest memory of a table.
const LEAST_BYTES: u64 = 1 << 20;
/// Room beside the bound: for blocks that wait for their reuse, and for a longer index beside the old one.
const SPARE_BYTES: u64 = 16 << 20;

/// Settings of a table.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The layout of its slots.
    pub layout: KvLayout,
    /// The bound for its keys, values and notes about them, in bytes.
    pub max_bytes: u64,
    /// Keys that its index has room for at first. It grows. A tree needs no such room.
    pub keys: u64,
    /// The rule at the bound.
    pub when_full: WhenFull,
    /// Clients must prove that they have it. Without one, everybody may use the table.
    pub secret: Option<TableSecret>,
    /// Clients may PUT alone ([`PutWay::OneSided`](crate::PutWay)): each can write into all of the table's memory. So a
    /// client that breaks the rules can destroy this table, and no other. Not with [`KvLayout::Tree`].
    pub writable: bool,
    /// A client that has kept a key locked for so long loses its connection, and the server ends the lock.
    pub lease: Duration,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            layout: KvLayout::Cluster,
            max_bytes: 256 << 20,
            keys: 1 << 14,
            when_full: WhenFull::Evict,
            secret: None,
            writable: false,
            lease: Duration::from_secs(2),
        }
    }
}

/// A table's memory, as the device exposes it.
pub(crate) struct ServedMemory {
    /// The calls that the device carries out, if it can: they end before the memory.
    calls: Option<ServedCalls>,
    /// Each table has a domain of its own: whatever key a client guesses, it opens no other table.
    pub(crate) domain: ProtectionDomain,
    pub(crate) memory: Arc<TableMemory>,
}

impl ServedMemory {
    /// The rights of a client's window.
    pub(crate) fn client_access(&self, writes: bool) -> Access {
        let writing = if writes { Access::REMOTE_WRITE | Access::REMOTE_ATOMIC } else { Access::empty() };
        let calling = if self.calls.is_some() { Access::REMOTE_CALL } else { Access::empty() };
        Access::REMOTE_READ | writing | calling
    }
}

/// A table that is served.
pub(crate) struct ServedTable {
    pub(crate) name: String,
    pub(crate) options: TableOptions,
    /// Its memory on the device; `None` in a simulation.
    pub(crate) exposed: Option<ServedMemory>,
    pub(crate) counts: Arc<TableCounts>,
    pub(crate) tag_seed: u64,
    pub(crate) writer: Mutex<TableWriter>,
    /// Clients that were cut off in the middle of an access.
    pub(crate) standing: Mutex<Vec<StandingWriter>>,
}

impl ServedTable {
    /// An empty table in memory that the device registers.
    pub(crate) fn create(name: String, options: TableOptions, device: &Device) -> Result<ServedTable, KvServerError> {
        let refused = |why: String| KvServerError::Table { table: name.clone(), why };
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(refused(format!("a name has 1 to {LONGEST_NAME} bytes")));
        }
        if options.max_bytes < LEAST_BYTES {
            return Err(refused(format!("it needs at least {LEAST_BYTES} bytes")));
        }
        let region_bytes = options.max_bytes + (options.max_bytes / 4).max(SPARE_BYTES);
        let region_bytes = usize::try_from(region_bytes).map_err(|error| refused(error.to_string()))?;
        let domain = device.protection_domain().map_err(|error| refused(error.to_string()))?;
        let has_calls = device.capabilities().calls && !options.writable;
        let expose = match (options.writable, has_calls) {
            (true, _) => TableMemory::for_windows,
            (false, true) => TableMemory::callable,
            (false, false) => TableMemory::readable,
        };
        let memory = expose(&domain, region_bytes).map_err(|error| refused(error.to_string()))?;
        let memory = Arc::new(memory);
        let mut random = [0; 16];
        fill_random(&mut random).map_err(|status| refused(status.message().into()))?;
        let word = |at: usize| random[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let owner_options = OwnerOptions {
            keys: options.keys,
            allocator: AllocatorOptions::default(),
            salt: word(0),
            ..OwnerOptions::default()
        };
        let owner = layout::create(options.layout, Arc::clone(&memory), owner_options)
            .map_err(|error| refused(error.to_string()))?;
        let calls = has_calls.then(|| device::serve(&memory, options.layout)).transpose();
        let calls = calls.map_err(|error| refused(error.to_string()))?;
        let exposed = ServedMemory { calls, domain, memory };
        ServedTable::over(name, options, owner, Some(exposed), word(8))
    }

    /// A table over an owner that stands.
    pub(crate) fn over(
        name: String,
        options: TableOptions,
        owner: Box<dyn OwnedTable>,
        exposed: Option<ServedMemory>,
        random: u64,
    ) -> Result<ServedTable, KvServerError> {
        let mut writer = TableWriter::new(owner, options.max_bytes, options.when_full, random);
        let lease_ns = u64::try_from(options.lease.as_nanos()).unwrap_or(u64::MAX);
        if options.writable && !writer.allow_writers(lease_ns) {
            let why = format!("clients cannot write into a table of the layout {}", options.layout);
            return Err(KvServerError::Table { table: name, why });
        }
        let (counts, tag_seed) = (Arc::clone(&writer.counts), writer.tag_seed());
        let writer = Mutex::new(writer);
        Ok(ServedTable { name, options, exposed, counts, tag_seed, writer, standing: Mutex::default() })
    }

    pub(crate) fn figures(&self) -> TableFigures {
        let mut figures = TableFigures { max_bytes: self.options.max_bytes, ..TableFigures::default() };
        self.counts.fill(&mut figures);
        let writer = self.writer.lock();
        (figures.keys, figures.used_bytes) = (writer.keys(), writer.used_bytes());
        figures
    }
}

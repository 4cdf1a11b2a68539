//! The counters of the engine, in a page that the hub can show.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use hub::CounterPage;
use hub::counters::PageError;
use memory::AdoptionResult;
use transport::DropReason;
use udp::SendError;
use wire::DecodeError;

use crate::objects::info::DeviceCounters;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// One counter of the engine itself; those of the transport's drop reasons follow.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub(crate) enum EngineCounter { $($(#[$doc])* $name),+ }

        const NAMES: &[&str] = &[$($text),+];
    };
}

counters! {
    /// Received packets with a correct ICRC.
    RxPackets = "rx_packets",
    /// Their bytes, from BTH to ICRC.
    RxBytes = "rx_bytes",
    /// Receive calls that brought something.
    RxCalls = "rx_calls",
    /// Packets given to the system.
    TxPackets = "tx_packets",
    /// Their bytes, from BTH to ICRC.
    TxBytes = "tx_bytes",
    /// Groups of packets given to the system.
    TxGroups = "tx_groups",
    /// Times that packets were given to the system.
    TxCalls = "tx_calls",
    /// ACKs that were deferred to the application's next call.
    AcksDeferred = "acks_deferred",
    /// Times that the background thread took over from the application.
    BackgroundTakeovers = "background_takeovers",
    /// Times that the background thread stood in for an application that polls but has left packets waiting.
    BackgroundStandIns = "background_stand_ins",
    /// Naps of the application: polls that slept until something arrived, since other threads wanted the processor.
    Naps = "naps",
    /// Panics that the background thread survived: each is a defect.
    BackgroundPanics = "background_panics",
    /// Received packets whose IPv4 identification was not the usual one.
    RxIdentification = "rx_other_identification",
    /// Received packets with a congestion mark.
    RxEcnMarked = "rx_ecn_marked",
    /// Multicast packets handed to a queue pair.
    RxMulticastCopies = "rx_multicast_copies",
    /// Frames that came from peers on this host.
    ShmFrames = "shm_frames",
    /// WRITEs into the memory of peers on this host that this process did by itself.
    ShmWrites = "shm_writes",
    /// READs of the same kind.
    ShmReads = "shm_reads",
    /// Atomic operations of the same kind.
    ShmAtomics = "shm_atomics",
    /// Links to other processes on this host that came up.
    ShmLinks = "shm_links",
    /// Links that ended with the other process.
    ShmLinksGone = "shm_links_gone",
    /// Links that ended because the other process broke their protocol.
    ShmLinksBroken = "shm_links_broken",
    /// Malformed frames.
    DropShmMalformed = "drop_shm_malformed",
    /// Too short for a header and an ICRC.
    DropShort = "drop_short",
    /// Wrong ICRC.
    DropBadIcrc = "drop_bad_icrc",
    /// Shorter than the headers its opcode announces.
    DropTruncated = "drop_truncated",
    /// An opcode without a meaning.
    DropUnknownOpcode = "drop_unknown_opcode",
    /// Another version of the transport header.
    DropVersion = "drop_version",
    /// Payload and padding do not fit together.
    DropMalformed = "drop_malformed",
    /// For the slot of another process.
    DropWrongSlot = "drop_wrong_slot",
    /// For a queue pair that does not exist.
    DropUnknownQp = "drop_unknown_qp",
    /// Multicast to a group that no queue pair is attached to.
    DropNoMember = "drop_no_multicast_member",
    /// Longer than its buffer, or without its addresses.
    DropDiscarded = "drop_discarded",
    /// Receiving failed.
    RxErrors = "rx_errors",
    /// Not sent: no room in the socket in time.
    TxFull = "tx_error_full",
    /// Not sent: longer than the path's MTU.
    TxTooLong = "tx_error_too_long",
    /// Not sent: no route.
    TxUnreachable = "tx_error_unreachable",
    /// Not sent: the source address is not ours.
    TxSource = "tx_error_source_address",
    /// Not sent, for another reason.
    TxOther = "tx_error_other",
    /// Segmented sends that the system refused and that went out one by one.
    TxSegmentationRefused = "tx_segmentation_refused",
    /// Pages that took the place of registered memory which the program had unmapped, in the whole process.
    UnmappedPages = "unmapped_pages",
    /// Regions that were registered and adopted: see `memory::AdoptionResult`.
    MrAdopted = "mr_adopted",
    /// Not whole private pages.
    MrUnsuitable = "mr_not_adopted_unsuitable",
    /// The program has threads.
    MrThreads = "mr_not_adopted_threads",
    /// A descriptor may hold pages.
    MrHolders = "mr_not_adopted_holders",
    /// Another key leads to the same pages.
    MrRegistered = "mr_not_adopted_registered",
    /// Calls of the program do not pass through the library.
    MrUnwatched = "mr_not_adopted_unwatched",
    /// madvise(2) was called on it.
    MrAdvised = "mr_not_adopted_advised",
    /// The process has forked.
    MrForked = "mr_not_adopted_forked",
    /// The kernel refused.
    MrRefused = "mr_not_adopted_refused",
    /// Fault injection: packets lost on purpose.
    FaultLost = "fault_lost",
    /// Packets doubled on purpose.
    FaultDuplicated = "fault_duplicated",
    /// Packets damaged on purpose.
    FaultCorrupted = "fault_corrupted",
    /// Packets held back or delayed on purpose.
    FaultHeld = "fault_held",
    /// Receivers made not ready on purpose.
    FaultReceiverNotReady = "fault_receiver_not_ready",
    /// Completion queues that overran.
    CqOverruns = "cq_overruns",
    /// Packets written to a capture, also those that no wire has carried.
    Captured = "captured_packets",
    /// Packets that a capture could not take.
    CaptureErrors = "capture_errors",
}

/// All names in the order of the page.
fn names() -> &'static [&'static str] {
    static ALL: OnceLock<Vec<&'static str>> = OnceLock::new();
    ALL.get_or_init(|| {
        let drops = DropReason::ALL.iter().map(|reason| &*format!("drop_{}", reason.name()).leak());
        NAMES.iter().copied().chain(drops).collect()
    })
}

/// The counters of the engine.
#[derive(Clone, Debug)]
pub(crate) struct EngineCounters {
    page: Arc<CounterPage>,
}

impl EngineCounters {
    pub(crate) fn new() -> Result<EngineCounters, PageError> {
        Ok(EngineCounters { page: Arc::new(CounterPage::create(names())?) })
    }

    /// Publishes how many regions of the process were adopted, and why others were not.
    pub(crate) fn show_adoption(&self) {
        use EngineCounter::*;
        let all = [
            (AdoptionResult::Adopted, MrAdopted),
            (AdoptionResult::Unsuitable, MrUnsuitable),
            (AdoptionResult::Threads, MrThreads),
            (AdoptionResult::Holders, MrHolders),
            (AdoptionResult::Registered, MrRegistered),
            (AdoptionResult::Unwatched, MrUnwatched),
            (AdoptionResult::Advised, MrAdvised),
            (AdoptionResult::Forked, MrForked),
            (AdoptionResult::Refused, MrRefused),
        ];
        for (verdict, counter) in all {
            self.add(counter, verdict.count().saturating_sub(self.get(counter)));
        }
    }

    /// The page, for the hub.
    pub(crate) fn page(&self) -> &Arc<CounterPage> {
        &self.page
    }

    #[inline]
    pub(crate) fn add(&self, counter: EngineCounter, count: u64) {
        self.page.cell(counter as usize).fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self, counter: EngineCounter) -> u64 {
        self.page.cell(counter as usize).load(Relaxed)
    }

    /// Adds to a counter that only the thread with the receive side locked adds to. It saves the cost of an atomic
    /// addition.
    #[inline]
    pub(crate) fn add_alone(&self, counter: EngineCounter, count: u64) {
        let cell = self.page.cell(counter as usize);
        cell.store(cell.load(Relaxed) + count, Relaxed);
    }

    /// Counts a packet that a queue pair dropped.
    #[cold]
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.page.cell(NAMES.len() + reason.index()).fetch_add(1, Relaxed);
    }

    /// Counts a malformed packet.
    #[cold]
    pub(crate) fn malformed(&self, error: &DecodeError) {
        let counter = match error {
            DecodeError::Truncated { .. } => EngineCounter::DropTruncated,
            DecodeError::UnknownOpcode(_) => EngineCounter::DropUnknownOpcode,
            DecodeError::UnknownVersion(_) => EngineCounter::DropVersion,
            _ => EngineCounter::DropMalformed,
        };
        self.add(counter, 1);
    }

    /// Counts packets that could not be sent.
    #[cold]
    pub(crate) fn unsent(&self, error: &SendError, packets: u64) {
        let counter = match error {
            SendError::Full => EngineCounter::TxFull,
            SendError::TooLong { .. } => EngineCounter::TxTooLong,
            SendError::Unreachable(_) => EngineCounter::TxUnreachable,
            SendError::SourceAddress => EngineCounter::TxSource,
            _ => EngineCounter::TxOther,
        };
        self.add(counter, packets);
    }

    pub(crate) fn snapshot(&self) -> DeviceCounters {
        let value = |index| self.page.cell(index).load(Relaxed);
        DeviceCounters { values: names().iter().enumerate().map(|(index, name)| (*name, value(index))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drop_reason_has_a_counter_of_its_own() {
        let counters = EngineCounters::new().unwrap();
        for reason in DropReason::ALL {
            counters.dropped(*reason);
        }
        counters.add(EngineCounter::CaptureErrors, 2);
        let snapshot = counters.snapshot();
        for reason in DropReason::ALL {
            assert_eq!(snapshot.get(&format!("drop_{}", reason.name())), 1);
        }
        assert_eq!(snapshot.get("capture_errors"), 2);
        assert_eq!(snapshot.dropped(), DropReason::ALL.len() as u64);
    }

    #[test]
    fn names_are_unique() {
        let mut sorted = names().to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names().len());
    }
}

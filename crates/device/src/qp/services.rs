//! The parts of a device that queue pairs and both of their paths use.

use std::sync::Arc;

use memory::Registry;
use transport::ReorderBudget;

use crate::objects::capture::PacketCapture;
use crate::objects::counters::EngineCounters;
use crate::objects::devices::DeviceRecords;
use crate::objects::faults::FaultGate;
use crate::objects::multicast::MulticastGroups;
use crate::qp::entry::QpEntry;
use crate::qp::slots::PortSlots;

/// See the module.
pub(crate) struct QpServices {
    /// The memory that work requests and peers name by keys.
    pub(crate) registry: Arc<Registry>,
    /// The room for packets that came before their turn.
    pub(crate) reorder: Arc<ReorderBudget>,
    pub(crate) faults: FaultGate,
    pub(crate) capture: Arc<PacketCapture>,
    pub(crate) counters: EngineCounters,
    pub(crate) devices: DeviceRecords,
    pub(crate) groups: MulticastGroups<QpEntry>,
    /// The queue pairs by number, and the sockets that bring their packets.
    pub(crate) slots: PortSlots,
}

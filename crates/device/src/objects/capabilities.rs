//! The services and operations of a device beyond what all have: RC with SEND, WRITE and READ.

/// The abilities of a device. RC with SEND, WRITE and READ is always there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Connections are made by the connection manager only, by address (iWARP): exchanging queue pair numbers is no way.
    pub by_address_only: bool,
    /// On a new connection the side that connected sends first (iWARP, RFC 5044 section 7.1.2).
    pub initiator_sends_first: bool,
    /// Unreliable connections.
    pub uc: bool,
    /// Unreliable datagrams.
    pub ud: bool,
    /// Extended reliable connections.
    pub xrc: bool,
    /// Immediate data.
    pub immediate: bool,
    /// Compare-and-swap and fetch-and-add on words of the peer.
    pub atomics: bool,
    /// Atomics of peers are atomic towards those of the host's processors, too (`IBV_ATOMIC_GLOB`). Elsewhere they are atomic
    /// among themselves only (`IBV_ATOMIC_HCA`).
    pub host_atomics: bool,
    /// Memory windows of type 1.
    pub windows_1: bool,
    /// Memory windows of type 2.
    pub windows_2: bool,
    /// Shared receive queues.
    pub shared_receive: bool,
    /// Multicast groups.
    pub multicast: bool,
    /// Events for solicited messages only. Where they are not there, each completion causes an event.
    pub solicited_events: bool,
    /// ATOMIC WRITE.
    pub atomic_write: bool,
    /// FLUSH for global visibility.
    pub flush: bool,
    /// READ of an object at one moment: an extension of Longarm's.
    pub object_read: bool,
    /// Calls that the device of the responder carries out: an extension of Longarm's.
    pub calls: bool,
    /// Memory whose pages come and go.
    pub on_demand: bool,
    /// Faults, captures and counters of packets.
    pub instruments: bool,
}

impl Capabilities {
    /// Those of Longarm's own devices.
    pub const LONGARM: Capabilities = Capabilities {
        by_address_only: false,
        initiator_sends_first: false,
        uc: true,
        ud: true,
        xrc: true,
        immediate: true,
        atomics: true,
        host_atomics: true,
        windows_1: true,
        windows_2: true,
        shared_receive: true,
        multicast: true,
        solicited_events: true,
        atomic_write: true,
        flush: true,
        object_read: true,
        calls: true,
        on_demand: true,
        instruments: true,
    };

    /// None but those that all devices have.
    pub const NONE: Capabilities = Capabilities {
        by_address_only: false,
        initiator_sends_first: false,
        uc: false,
        ud: false,
        xrc: false,
        immediate: false,
        atomics: false,
        host_atomics: false,
        windows_1: false,
        windows_2: false,
        shared_receive: false,
        multicast: false,
        solicited_events: false,
        atomic_write: false,
        flush: false,
        object_read: false,
        calls: false,
        on_demand: false,
        instruments: false,
    };
}

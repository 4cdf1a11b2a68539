//! Identifiers and keys on the wire, each a type of its own.

use core::fmt;

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// QP0, the subnet management interface.
    pub const SMI: Qpn = Qpn(0);
    /// QP1, the general services interface: the connection manager's MADs.
    pub const GSI: Qpn = Qpn(1);
    /// The destination QPN of a multicast packet.
    pub const MULTICAST: Qpn = Qpn(0xff_ffff);

    /// Keeps the low 24 bits of `value`.
    pub const fn new(value: u32) -> Qpn {
        Qpn(value & 0xff_ffff)
    }

    /// The 24-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The process slot: the high byte, which selects the socket that receives the packet.
    pub const fn slot(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// The number within the slot: the low 16 bits.
    pub const fn index(self) -> u16 {
        self.0 as u16
    }

    /// Joins a slot and the number within it.
    pub const fn from_parts(slot: u8, index: u16) -> Qpn {
        Qpn((slot as u32) << 16 | index as u32)
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#08x})", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A packet sequence number: 24 bits, circular.
///
/// There is no `<`: whether one PSN is before another depends on the window
/// (IB specification 1.4, section 9.7.2), so ask for a [`distance`](Psn::distance).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Keeps the low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & 0xff_ffff)
    }

    /// The 24-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `count` packets later.
    #[must_use]
    pub const fn add(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_add(count))
    }

    /// The PSN `count` packets earlier.
    #[must_use]
    pub const fn sub(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(count))
    }

    /// The PSN after this one.
    #[must_use]
    pub const fn next(self) -> Psn {
        self.add(1)
    }

    /// The number of packets from `from` to this PSN; negative if this PSN lies before `from`.
    /// Always in `-0x80_0000..=0x7f_ffff`.
    pub const fn distance(self, from: Psn) -> i32 {
        ((self.0.wrapping_sub(from.0) << 8) as i32) >> 8
    }

    /// Whether this PSN lies before `other` on the circle.
    pub const fn before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

macro_rules! key {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $int);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

key!(
    /// A partition key. Longarm uses the default partition only.
    PKey, u16
);
key!(
    /// A queue key: the right to send to a UD queue pair.
    QKey, u32
);
key!(
    /// A remote key: the right to reach a memory region or window from another queue pair.
    RKey, u32
);

impl PKey {
    /// The default partition, full member.
    pub const DEFAULT: PKey = PKey(0xffff);

    /// Whether a QP that has this key accepts packets with key `other`. Both must be in the same
    /// partition, and at least one of them a full member (IB specification 10.9.3).
    pub const fn admits(self, other: PKey) -> bool {
        self.0 & 0x7fff == other.0 & 0x7fff && (self.0 | other.0) & 0x8000 != 0
    }
}

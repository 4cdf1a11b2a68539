//! The few things that a session needs of RDMA: one peer, memory that it writes, and the requests of a queue pair.
//!
//! The sessions and carriers above are written against this trait. So they run over the verbs, and in the simulator of
//! this crate's tests.

use std::fmt;

use longarm::RemoteKey;

/// The bit of a READ's tag that says that the carrier has asked for it, not the session.
pub(crate) const CARRIER_READ: u64 = 1 << 63;

/// Memory of ours that the peer writes with WRITE, addressed from zero.
pub(crate) trait PeerArea {
    /// Length in bytes.
    #[cfg_attr(not(any(test, feature = "sim")), expect(dead_code, reason = "the simulator checks all places"))]
    fn len_bytes(&self) -> u64;
    /// The word at a multiple of 8 (acquire).
    fn load(&self, at: u64) -> u64;
    /// Stores a word (release).
    fn store(&self, at: u64, word: u64);
    /// Copies out, ascending.
    fn copy_out(&self, at: u64, out: &mut [u8]);
    /// Copies in, ascending, the last word last.
    fn copy_in(&self, at: u64, bytes: &[u8]);
}

/// A connection to one peer.
pub(crate) trait SessionLink {
    /// Memory that a READ has filled.
    type Bytes: AsRef<[u8]> + Send + 'static;
    /// Memory that the peer may READ, until this is dropped.
    type Exposed;
    /// Memory that the peer writes.
    type Area: PeerArea;

    /// WRITEs the parts, one behind the other, to `at` in the peer's area. They are copied before this returns.
    fn write(&mut self, at: u64, parts: &[&[u8]]) -> Result<(), LinkBusy>;
    /// As `write`, and tells the peer's session the immediate data.
    fn write_with_imm(&mut self, at: u64, parts: &[&[u8]], imm: u32) -> Result<(), LinkBusy>;
    /// READs all that the key leads to. The session hears of the end by the tag.
    fn read(&mut self, from: &RemoteKey, tag: u64) -> Result<(), LinkBusy>;
    /// SENDs a short message, reliably and in order.
    fn send(&mut self, message: &[u8]) -> Result<(), LinkBusy>;
    /// SENDs a datagram, which may be lost.
    fn datagram(&mut self, parts: &[&[u8]]) -> Result<(), LinkBusy>;
    /// A copy of the bytes that the peer may READ, and the key.
    fn expose(&mut self, parts: &[&[u8]]) -> Result<(Self::Exposed, RemoteKey), LinkBusy>;
    /// Our area.
    fn area(&self) -> &Self::Area;
    /// An area of our own that the peer reads with READ, if this way has one.
    fn read_area(&self) -> Option<&Self::Area>;
    /// The key to a part of the area that the peer lets us READ, if it has one.
    fn peer_read_key(&self, at: u64, len_bytes: u64) -> Option<RemoteKey>;
}

/// The device takes no more requests now, or has no memory now; or the connection has ended, which the session hears
/// separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkBusy;

impl fmt::Display for LinkBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device takes no more requests now")
    }
}

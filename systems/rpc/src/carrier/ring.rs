//! The way *ring*: each side WRITEs records into a ring in the other's memory, and polls its own.
//!
//! The sender keeps the place of the next record and the receiver's head, which the receiver tells lazily, after an
//! eighth of the ring. Records begin at multiples of 64 bytes and never wrap: a sender that has not enough room before the end
//! leaves a mark there. (FaRM, NSDI 2014, section 4.)

use crate::carrier::record::{Look, record_bytes, take_record, write_record};
use crate::frame::{FrameHeader, RpcKind};
use crate::link::{LinkBusy, PeerArea, SessionLink};

/// Records begin at multiples of this.
const ALIGN_BYTES: u64 = 64;
/// Words at the start of the area: where the peer tells how far it has read.
pub(crate) const RING_START_BYTES: u64 = 64;
/// The receiver tells its head after this part of the ring.
const TELL_AFTER: u64 = 8;

/// One end of a pair of rings.
pub(crate) struct RingCarrier {
    /// Length of each ring.
    ring_bytes: u64,
    /// Bytes sent, with those skipped at the end of the ring.
    sent: u64,
    /// Bytes sent that the peer has told to have read.
    freed: u64,
    /// Bytes received.
    received: u64,
    /// Bytes received that the peer has been told of.
    told: u64,
    pub(crate) broken: bool,
}

impl RingCarrier {
    /// Both areas have `RING_START_BYTES` more than the ring, which is a multiple of 512 bytes.
    pub(crate) fn new(ring_bytes: u64) -> RingCarrier {
        RingCarrier { ring_bytes, sent: 0, freed: 0, received: 0, told: 0, broken: false }
    }

    /// The longest body: records may take a quarter of the ring.
    pub(crate) fn inline_bytes(&self) -> usize {
        (self.ring_bytes / 4 - record_bytes(0)) as usize
    }

    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), LinkBusy> {
        let need = record_bytes(body.len() as u64).next_multiple_of(ALIGN_BYTES);
        let left = self.ring_bytes - self.sent % self.ring_bytes;
        let skip = if need > left { left } else { 0 };
        if !self.has_room(link, skip + need) {
            return Err(LinkBusy);
        }
        if skip > 0 {
            self.skip(link, skip)?;
        }
        write_record(link, self.place(self.sent), header, body)?;
        self.sent += need;
        Ok(())
    }

    pub(crate) fn receive<L: SessionLink>(&mut self, link: &mut L, body: &mut Vec<u8>) -> Option<FrameHeader> {
        loop {
            let left = self.ring_bytes - self.received % self.ring_bytes;
            match take_record(link.area(), self.place(self.received), left, body) {
                Look::Nothing => {
                    self.tell(link);
                    return None;
                }
                Look::Broken => {
                    self.broken = true;
                    return None;
                }
                Look::Message(header) if is_skip(&header) => self.consumed(link, left),
                Look::Message(header) => {
                    let len_bytes = record_bytes(u64::from(header.body_bytes)).next_multiple_of(ALIGN_BYTES);
                    self.consumed(link, len_bytes);
                    return Some(header);
                }
            }
        }
    }

    fn consumed<L: SessionLink>(&mut self, link: &mut L, len_bytes: u64) {
        self.received += len_bytes;
        self.tell(link);
    }

    /// Tells the peer how far we have read, if that is worth a WRITE. A WRITE that the device refuses is tried again at
    /// the next look.
    fn tell<L: SessionLink>(&mut self, link: &mut L) {
        if self.received - self.told >= self.ring_bytes / TELL_AFTER
            && link.write(0, &[&self.received.to_le_bytes()]).is_ok()
        {
            self.told = self.received;
        }
    }

    fn skip<L: SessionLink>(&mut self, link: &mut L, left: u64) -> Result<(), LinkBusy> {
        // A record of no body fits: records are multiples of its length.
        write_record(link, self.place(self.sent), &FrameHeader::bare(RpcKind::Drain, u16::MAX, 0), &[])?;
        self.sent += left;
        Ok(())
    }

    fn has_room<L: SessionLink>(&mut self, link: &L, need: u64) -> bool {
        if self.sent + need - self.freed <= self.ring_bytes {
            return true;
        }
        let told = link.area().load(0);
        // The peer may write anything here.
        if told > self.sent || told < self.freed {
            self.broken = true;
            return false;
        }
        self.freed = told;
        self.sent + need - self.freed <= self.ring_bytes
    }

    fn place(&self, count: u64) -> u64 {
        RING_START_BYTES + count % self.ring_bytes
    }
}

/// The mark that the rest of the ring is unused.
fn is_skip(header: &FrameHeader) -> bool {
    header.kind == RpcKind::Drain && header.slot == u16::MAX
}

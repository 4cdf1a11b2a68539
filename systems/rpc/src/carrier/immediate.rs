//! The way *immediate*: requests and replies are WRITEs into slots of the other side's memory.
//!
//! A request always has immediate data, so one completion queue tells of the requests of all clients, and nobody polls
//! their memory. A reply has it if the client sleeps; a client that polls looks for it in its slots. The immediate data is
//! the client's number and the slot: node | slot << 16. (Lu et al., "Octopus: an RDMA-enabled Distributed Persistent Memory
//! File System", USENIX ATC 2017, section 3.3.)

use std::collections::VecDeque;

use crate::carrier::record::{Look, RECORD_OVERHEAD_BYTES, RecordEnds, take_record};
use crate::carrier::slots::SlotSet;
use crate::frame::{FrameHeader, RpcKind};
use crate::link::{LinkBusy, SessionLink};

/// One end of a session in this way.
pub(crate) struct ImmediateCarrier {
    slots: u16,
    slot_bytes: u64,
    /// The client's number, the lower half of the immediate data.
    node: u16,
    /// Our messages carry immediate data.
    tell: bool,
    /// Slots that immediate data has told of, each once.
    told: VecDeque<u16>,
    told_set: SlotSet,
    /// Slots to look at: those with a request that waits for its reply.
    watched: SlotSet,
    pub(crate) broken: bool,
}

impl ImmediateCarrier {
    pub(crate) fn new(slots: u16, slot_bytes: u64, node: u16, tell: bool) -> ImmediateCarrier {
        let (told, watched) = (VecDeque::with_capacity(usize::from(slots)), SlotSet::default());
        ImmediateCarrier { slots, slot_bytes, node, tell, told, told_set: SlotSet::default(), watched, broken: false }
    }

    pub(crate) fn inline_bytes(&self) -> usize {
        (self.slot_bytes - RECORD_OVERHEAD_BYTES) as usize
    }

    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), LinkBusy> {
        let (at, ends) = (u64::from(header.slot) * self.slot_bytes, RecordEnds::of(header));
        if self.tell {
            let imm = u32::from(self.node) | u32::from(header.slot) << 16;
            link.write_with_imm(at, &ends.around(body), imm)?;
        } else {
            link.write(at, &ends.around(body))?;
        }
        if header.kind == RpcKind::Request {
            self.watched.insert(header.slot);
        }
        Ok(())
    }

    /// Notes that the peer has told of a message.
    pub(crate) fn on_imm(&mut self, imm: u32) {
        let (node, slot) = (imm as u16, (imm >> 16) as u16);
        if node != self.node || slot >= self.slots {
            self.broken = true;
            return;
        }
        // A slot may be told of twice: the first message was found in its slot before we heard of it.
        if !self.told_set.contains(slot) {
            self.told_set.insert(slot);
            self.told.push_back(slot);
        }
    }

    pub(crate) fn receive<L: SessionLink>(&mut self, link: &mut L, body: &mut Vec<u8>) -> Option<FrameHeader> {
        while let Some(slot) = self.told.pop_front() {
            self.told_set.remove(slot);
            // The message may have been found in its slot before: then the next one counts.
            let header = self.look(link, slot, body);
            if header.is_some() || self.broken {
                return header;
            }
        }
        let mut left = self.watched;
        while let Some(slot) = left.pop() {
            if let Some(header) = self.look(link, slot, body) {
                return Some(header);
            }
        }
        None
    }

    fn look<L: SessionLink>(&mut self, link: &mut L, slot: u16, body: &mut Vec<u8>) -> Option<FrameHeader> {
        match take_record(link.area(), u64::from(slot) * self.slot_bytes, self.slot_bytes, body) {
            Look::Message(header) if header.slot == slot => {
                self.watched.remove(slot);
                Some(header)
            }
            Look::Nothing => None,
            Look::Message(_) | Look::Broken => {
                self.broken = true;
                None
            }
        }
    }
}

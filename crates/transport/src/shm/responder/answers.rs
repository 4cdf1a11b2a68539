//! The responder's frames: NAKs, results, data, ACKs.

use super::*;

impl ShmResponder {
    /// Sends pending answers, and an ACK if `with_ack`. False: the lane is full.
    #[inline]
    pub(crate) fn send_replies(&mut self, core: &mut QpCore, with_ack: bool, host: &mut impl Host) -> bool {
        if self.has_answer() || self.reading.is_some() {
            return self.send_pending(core, host);
        }
        if !(with_ack && self.ack_due()) {
            return true;
        }
        let head = FrameHead { ack: self.expected, ..head_to_peer(core, FrameKind::Ack) };
        if send(&head, &[], SendBody::Bytes(&[]), host) == Err(ShmError::LaneFull) {
            return false;
        }
        core.counters.tx_acks += 1;
        self.acked = self.expected;
        true
    }

    pub(super) fn send_pending(&mut self, core: &mut QpCore, host: &mut impl Host) -> bool {
        if let Some((head, bytes)) = &self.answer {
            // A NAK acknowledges what lies before the request that it is about.
            let head = FrameHead { ack: self.expected, ..*head };
            if send(&head, bytes, SendBody::Bytes(&[]), host) == Err(ShmError::LaneFull) {
                return false;
            }
            self.answer = None;
            self.acked = self.expected;
        }
        if let Some((head, bytes)) = &self.reply {
            let head = FrameHead { ack: self.expected, ..*head };
            if send(&head, &[], SendBody::Bytes(bytes), host) == Err(ShmError::LaneFull) {
                return false;
            }
            self.reply = None;
            self.acked = self.expected;
        }
        while let Some(reading) = &self.reading {
            let ReadInProgress { rkey, addr, left_bytes } = *reading;
            match self.send_data(core, rkey, addr, left_bytes, host) {
                Ok(taken) if taken >= left_bytes => self.finish_reading(),
                Ok(taken) => {
                    self.reading = Some(ReadInProgress {
                        rkey,
                        addr: addr.wrapping_add(taken.into()),
                        left_bytes: left_bytes - taken,
                    });
                }
                Err(ShmError::LaneFull) => return false,
                Err(ShmError::Remote(error)) => return self.fail_reading(core, error, host),
                Err(_) => self.reading = None,
            }
        }
        true
    }

    pub(super) fn send_data(
        &self,
        core: &QpCore,
        rkey: RKey,
        addr: u64,
        left_bytes: u32,
        host: &mut impl Host,
    ) -> Result<u32, ShmError> {
        let head = FrameHead { request: self.expected, ack: self.expected, ..head_to_peer(core, FrameKind::Data) };
        let who: Accessor = core.accessor();
        send(&head, &[], SendBody::Remote { who, rkey, addr, left_bytes }, host)
    }

    pub(super) fn finish_reading(&mut self) {
        self.reading = None;
        self.expected = self.expected.wrapping_add(1);
        // The data acknowledges the request.
        self.acked = self.expected;
    }

    /// The memory was taken away while it was read.
    pub(super) fn fail_reading(&mut self, core: &mut QpCore, error: MemoryError, host: &mut impl Host) -> bool {
        self.reading = None;
        let head = FrameHead { request: self.expected, ..head_to_peer(core, FrameKind::Read) };
        let _ = self.refuse(core, &head, ShmRefusal::Access(error), host);
        self.send_pending(core, host)
    }
}

pub(super) fn send<H: Host>(head: &FrameHead, prefix: &[u8], body: SendBody<'_>, host: &H) -> Result<u32, ShmError> {
    path(host)?.send(host.memory(), head, prefix, body)
}

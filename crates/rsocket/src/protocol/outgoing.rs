//! Permission to send: slots of the send queue, credits, and the buffers that the peer named.

use super::buffer::PeerBuffer;

/// Entries of our list of the peer's buffers.
pub(crate) const ENTRIES: usize = 2;
/// Messages about credits and the end of the connection that may be in flight. Their slots in the
/// send queue are reserved, so data never delays them.
pub(crate) const CONTROL_SLOTS: u16 = 4;

/// Our side of our sending.
#[derive(Debug)]
pub(crate) struct SendBudget {
    /// Messages sent for which credits count.
    sent: u16,
    /// The message that we may not send.
    limit: u16,
    slots: u16,
    all_slots: u16,
    control: u16,
    /// The rest of the buffer that is being filled.
    target: PeerBuffer,
    /// The entry of our list with that buffer.
    entry: usize,
}

impl SendBudget {
    /// With a send queue of `queue` requests, the peer's first buffer and credits.
    pub(crate) fn new(queue: u16, buffer: PeerBuffer, credits: u16) -> SendBudget {
        let slots = queue.saturating_sub(CONTROL_SLOTS);
        SendBudget {
            sent: 0,
            limit: credits,
            slots,
            all_slots: slots,
            control: CONTROL_SLOTS,
            target: buffer,
            entry: 0,
        }
    }

    /// The entry of the list that the next buffer will be in, if this one is full: the caller looks
    /// there, and if there is one, clears the entry and calls [`refill`](Outgoing::refill).
    pub(crate) fn wanted_entry(&self) -> Option<usize> {
        (self.target.len == 0).then_some(self.entry)
    }

    /// The next buffer.
    pub(crate) fn refill(&mut self, buffer: PeerBuffer) {
        self.target = buffer;
    }

    /// True if a message that needs a credit can be sent.
    pub(crate) fn can_send(&self) -> bool {
        self.slots > 0 && self.sent != self.limit
    }

    /// True if data can be sent.
    pub(crate) fn can_send_data(&self) -> bool {
        self.can_send() && self.target.len > 0
    }

    /// Bytes that fit into the buffer that is being filled.
    pub(crate) fn room(&self) -> u32 {
        self.target.len
    }

    /// The rest of the buffer that is being filled.
    pub(crate) fn target(&self) -> PeerBuffer {
        self.target
    }

    /// Takes the place of `len` bytes in the peer's buffer, a slot and a credit.
    pub(crate) fn send_data(&mut self, len: u32) -> PeerBuffer {
        self.send();
        let len = len.min(self.target.len);
        let place = PeerBuffer { len, ..self.target };
        self.target.addr = self.target.addr.wrapping_add(len.into());
        self.target.len -= len;
        if self.target.len == 0 {
            self.entry = (self.entry + 1) % ENTRIES;
        }
        place
    }

    /// Takes a slot and a credit.
    pub(crate) fn send(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.take_slot();
    }

    /// Takes a slot without a credit: the peer does not notice the message.
    pub(crate) fn take_slot(&mut self) {
        self.slots = self.slots.saturating_sub(1);
    }

    /// Takes another slot for the message that was just sent, if there is one.
    pub(crate) fn take_another_slot(&mut self) -> bool {
        let free = self.slots > 0;
        self.take_slot();
        free
    }

    /// A request other than a control message was done.
    pub(crate) fn slot_free(&mut self) {
        self.slots = self.all_slots.min(self.slots + 1);
    }

    /// The peer granted credits.
    pub(crate) fn credit(&mut self, limit: u32) {
        self.limit = limit as u16;
    }

    /// Takes a slot for a control message, if there is one.
    pub(crate) fn take_control(&mut self) -> bool {
        let free = self.control > 0;
        self.control -= u16::from(free);
        free
    }

    /// True if a control message can be sent.
    pub(crate) fn has_control(&self) -> bool {
        self.control > 0
    }

    /// A control message was done.
    pub(crate) fn control_free(&mut self) {
        self.control = CONTROL_SLOTS.min(self.control + 1);
    }

    /// True if everything that was sent is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.slots == self.all_slots && self.control == CONTROL_SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(len: u32) -> PeerBuffer {
        PeerBuffer { addr: 1000, key: 7, len }
    }

    #[test]
    fn buffers_are_filled_one_after_the_other() {
        let mut out = SendBudget::new(20, buffer(10), 100);
        assert_eq!((out.wanted_entry(), out.room()), (None, 10));
        assert_eq!(out.send_data(4), PeerBuffer { addr: 1000, key: 7, len: 4 });
        assert_eq!(out.send_data(100), PeerBuffer { addr: 1004, key: 7, len: 6 });
        assert_eq!(out.wanted_entry(), Some(1));
        assert!(out.can_send() && !out.can_send_data());
        out.refill(buffer(1));
        out.send_data(1);
        assert_eq!(out.wanted_entry(), Some(0));
    }

    #[test]
    fn credits_and_slots_run_out() {
        let mut out = SendBudget::new(6, buffer(1000), 3);
        out.send_data(1);
        out.send_data(1);
        assert!(!out.can_send_data(), "slots");
        out.slot_free();
        assert!(out.can_send_data());
        out.send_data(1);
        out.slot_free();
        assert!(!out.can_send_data(), "credits");
        out.credit(0x1_0004);
        assert!(out.can_send_data());
        out.take_slot();
        assert!(!out.can_send_data());
    }

    #[test]
    fn a_message_may_take_two_slots() {
        let mut out = SendBudget::new(CONTROL_SLOTS + 3, buffer(1000), 100);
        out.send_data(1);
        assert!(out.take_another_slot());
        out.send_data(1);
        assert!(!out.take_another_slot(), "there were three");
        (0..3).for_each(|_| out.slot_free());
        assert!(out.is_done());
    }

    #[test]
    fn control_messages_have_slots_of_their_own() {
        let mut out = SendBudget::new(4, buffer(10), 10);
        assert!(!out.can_send_data());
        for _ in 0..CONTROL_SLOTS {
            assert!(out.take_control());
        }
        assert!(!out.take_control() && !out.has_control());
        assert!(!out.is_done());
        for _ in 0..5 {
            out.control_free();
        }
        assert!(out.is_done() && out.has_control());
    }
}

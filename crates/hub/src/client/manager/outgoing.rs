//! The queue of messages to the hub.
//!
//! MADs are limited: beyond the limit new ones are dropped, as on a network. The number of ports limits the
//! requests. A closing message has at most one entry, which becomes the current message when it is sent.

use crate::closing_messages::ClosingMessages;
use crate::mad::{AddressedMad, HubFrame};
use crate::message::HubRequest;
use std::collections::{BTreeSet, VecDeque};
use std::io;

/// Most MADs that wait.
pub(super) const MAX_MADS: usize = 1 << 15;

/// One message.
#[derive(Debug)]
enum OutgoingItem {
    Mad(Vec<u8>),
    Request(Vec<u8>),
    ClosingMessage(u32),
}

/// The messages that wait, in order.
#[derive(Debug, Default)]
pub(super) struct OutgoingQueue {
    items: VecDeque<OutgoingItem>,
    mads: usize,
    closing: BTreeSet<u32>,
}

impl OutgoingQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Forgets everything, for a new hub.
    pub(super) fn clear(&mut self) {
        *self = OutgoingQueue::default();
    }

    /// Appends a MAD. Returns whether there was room.
    pub(super) fn push_mad(&mut self, packet: &AddressedMad) -> bool {
        let room = self.mads < MAX_MADS;
        if room {
            self.mads += 1;
            self.items.push_back(OutgoingItem::Mad(HubFrame::Mad(packet.clone()).encode()));
        }
        room
    }

    pub(super) fn push_request(&mut self, request: &HubRequest) {
        self.items.push_back(OutgoingItem::Request(request.encode()));
    }

    /// The closing message with this key is another one now, or is gone.
    pub(super) fn push_closing_message(&mut self, key: u32) {
        if self.closing.insert(key) {
            self.items.push_back(OutgoingItem::ClosingMessage(key));
        }
    }

    /// Sends as much as `send` takes. Stops at its first error: after `WouldBlock` a later call continues; after any
    /// other the hub is lost, which reading its messages reveals.
    pub(super) fn flush(&mut self, closing: &ClosingMessages, mut send: impl FnMut(&[u8]) -> io::Result<()>) {
        while let Some(item) = self.items.front() {
            let sent = match item {
                OutgoingItem::Mad(bytes) | OutgoingItem::Request(bytes) => send(bytes),
                OutgoingItem::ClosingMessage(key) => send(&closing.frame(*key)),
            };
            if sent.is_err() {
                return;
            }
            match self.items.pop_front() {
                Some(OutgoingItem::Mad(_)) => self.mads -= 1,
                Some(OutgoingItem::ClosingMessage(key)) => drop(self.closing.remove(&key)),
                Some(OutgoingItem::Request(_)) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{ClosingMessage, MAD_BYTES};

    fn packet(mark: u8) -> AddressedMad {
        let local = [127, 0, 0, 1].into();
        AddressedMad { local, remote: local, interface: 0, traffic_class: 0, mad: [mark; MAD_BYTES] }
    }

    fn sent(outgoing: &mut OutgoingQueue, closing: &ClosingMessages, room: usize) -> Vec<HubFrame> {
        let mut frames = Vec::new();
        outgoing.flush(closing, |bytes| {
            if frames.len() == room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            frames.push(HubFrame::decode(bytes).unwrap());
            Ok(())
        });
        frames
    }

    #[test]
    fn messages_without_room_wait_in_order() {
        let (mut outgoing, closing) = (OutgoingQueue::default(), ClosingMessages::default());
        (0..5).for_each(|mark| assert!(outgoing.push_mad(&packet(mark))));
        let marks = |frames: Vec<HubFrame>| {
            frames
                .into_iter()
                .map(|f| match f {
                    HubFrame::Mad(packet) => packet.mad[0],
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(marks(sent(&mut outgoing, &closing, 2)), [0, 1]);
        assert_eq!(marks(sent(&mut outgoing, &closing, 9)), [2, 3, 4]);
        assert!(outgoing.is_empty());
    }

    #[test]
    fn mads_beyond_the_limit_are_dropped() {
        let (mut outgoing, closing) = (OutgoingQueue::default(), ClosingMessages::default());
        for _ in 0..MAX_MADS {
            assert!(outgoing.push_mad(&packet(0)));
        }
        assert!(!outgoing.push_mad(&packet(1)));
        assert_eq!(sent(&mut outgoing, &closing, 1).len(), 1);
        assert!(outgoing.push_mad(&packet(1)), "there is room again");
    }

    #[test]
    fn a_will_is_told_once_as_it_is_then() {
        let (mut outgoing, mut closing) = (OutgoingQueue::default(), ClosingMessages::default());
        let message = |mark| ClosingMessage { packet: packet(mark), until_answered: true };
        for mark in 0..9 {
            closing.set(7, message(mark));
            outgoing.push_closing_message(7);
        }
        closing.set(8, message(1));
        outgoing.push_closing_message(8);
        closing.clear(8);
        outgoing.push_closing_message(8);
        assert_eq!(
            sent(&mut outgoing, &closing, 9),
            [HubFrame::SetClosingMessage(7, message(8)), HubFrame::ClearClosingMessage(8)]
        );
        outgoing.push_closing_message(7);
        assert_eq!(sent(&mut outgoing, &closing, 9), [HubFrame::SetClosingMessage(7, message(8))]);
    }
}

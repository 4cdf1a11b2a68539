//! What the hub is still to be told, in order.
//!
//! MADs are bounded: beyond the limit new ones are lost, as on a network. Requests and closing messages are
//! bounded by what they are about: there is at most one entry for each closing message, which says what the
//! message is when its turn comes.

use crate::closing_messages::ClosingMessages;
use crate::mad::{Frame, MadPacket};
use std::collections::{BTreeSet, VecDeque};
use std::io;

/// Most MADs that wait.
pub(super) const MAX_MADS: usize = 1 << 15;

/// One thing to be said.
#[derive(Debug)]
enum Item {
    Mad(Vec<u8>),
    Request(Vec<u8>),
    ClosingMessage(u32),
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    items: VecDeque<Item>,
    mads: usize,
    closing: BTreeSet<u32>,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Forgets everything, for a new hub.
    pub(super) fn clear(&mut self) {
        *self = Outgoing::default();
    }

    /// Returns whether there was room.
    pub(super) fn mad(&mut self, packet: &MadPacket) -> bool {
        let room = self.mads < MAX_MADS;
        if room {
            self.mads += 1;
            self.items.push_back(Item::Mad(Frame::Mad(packet.clone()).encode()));
        }
        room
    }

    pub(super) fn request(&mut self, bytes: Vec<u8>) {
        self.items.push_back(Item::Request(bytes));
    }

    /// The closing message with this key is another one now, or is gone.
    pub(super) fn closing_message(&mut self, key: u32) {
        if self.closing.insert(key) {
            self.items.push_back(Item::ClosingMessage(key));
        }
    }

    /// Says as much as `send` takes. Its error `WouldBlock` ends that for now; after any other
    /// the hub is lost, which is noticed where its messages are read.
    pub(super) fn flush(&mut self, closing: &ClosingMessages, mut send: impl FnMut(&[u8]) -> io::Result<()>) {
        while let Some(item) = self.items.front() {
            let sent = match item {
                Item::Mad(bytes) | Item::Request(bytes) => send(bytes),
                Item::ClosingMessage(key) => send(&closing.frame(*key)),
            };
            if sent.is_err() {
                return;
            }
            match self.items.pop_front() {
                Some(Item::Mad(_)) => self.mads -= 1,
                Some(Item::ClosingMessage(key)) => drop(self.closing.remove(&key)),
                Some(Item::Request(_)) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{ClosingMessage, MAD_BYTES};

    fn packet(mark: u8) -> MadPacket {
        let local = [127, 0, 0, 1].into();
        MadPacket { local, remote: local, interface: 0, traffic_class: 0, mad: [mark; MAD_BYTES] }
    }

    fn sent(outgoing: &mut Outgoing, closing: &ClosingMessages, room: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        outgoing.flush(closing, |bytes| {
            if frames.len() == room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            frames.push(Frame::decode(bytes).unwrap());
            Ok(())
        });
        frames
    }

    #[test]
    fn what_does_not_fit_waits_in_order() {
        let (mut outgoing, closing) = (Outgoing::default(), ClosingMessages::default());
        (0..5).for_each(|mark| assert!(outgoing.mad(&packet(mark))));
        let marks = |frames: Vec<Frame>| {
            frames
                .into_iter()
                .map(|f| match f {
                    Frame::Mad(packet) => packet.mad[0],
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(marks(sent(&mut outgoing, &closing, 2)), [0, 1]);
        assert_eq!(marks(sent(&mut outgoing, &closing, 9)), [2, 3, 4]);
        assert!(outgoing.is_empty());
    }

    #[test]
    fn mads_beyond_the_limit_are_lost() {
        let (mut outgoing, closing) = (Outgoing::default(), ClosingMessages::default());
        for _ in 0..MAX_MADS {
            assert!(outgoing.mad(&packet(0)));
        }
        assert!(!outgoing.mad(&packet(1)));
        assert_eq!(sent(&mut outgoing, &closing, 1).len(), 1);
        assert!(outgoing.mad(&packet(1)), "there is room again");
    }

    #[test]
    fn a_will_is_told_once_as_it_is_then() {
        let (mut outgoing, mut closing) = (Outgoing::default(), ClosingMessages::default());
        let message = |mark| ClosingMessage { packet: packet(mark), until_answered: true };
        for mark in 0..9 {
            closing.set(7, message(mark));
            outgoing.closing_message(7);
        }
        closing.set(8, message(1));
        outgoing.closing_message(8);
        closing.clear(8);
        outgoing.closing_message(8);
        assert_eq!(
            sent(&mut outgoing, &closing, 9),
            [Frame::SetClosingMessage(7, message(8)), Frame::ClearClosingMessage(8)]
        );
        outgoing.closing_message(7);
        assert_eq!(sent(&mut outgoing, &closing, 9), [Frame::SetClosingMessage(7, message(8))]);
    }
}

//! What the hub is still to be told, in order.
//!
//! MADs are bounded: beyond the limit new ones are lost, as on a network. Requests and wills are
//! bounded by what they are about: there is at most one entry for each will, which says what the
//! will is when its turn comes.

use super::wills::Wills;
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
    Will(u32),
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    items: VecDeque<Item>,
    mads: usize,
    wills: BTreeSet<u32>,
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

    /// The will with this key is another one now, or is gone.
    pub(super) fn will(&mut self, key: u32) {
        if self.wills.insert(key) {
            self.items.push_back(Item::Will(key));
        }
    }

    /// Says as much as `send` takes. Its error `WouldBlock` ends that for now; after any other
    /// the hub is lost, which is noticed where its messages are read.
    pub(super) fn flush(&mut self, wills: &Wills, mut send: impl FnMut(&[u8]) -> io::Result<()>) {
        while let Some(item) = self.items.front() {
            let sent = match item {
                Item::Mad(bytes) | Item::Request(bytes) => send(bytes),
                Item::Will(key) => send(&wills.frame(*key)),
            };
            if sent.is_err() {
                return;
            }
            match self.items.pop_front() {
                Some(Item::Mad(_)) => self.mads -= 1,
                Some(Item::Will(key)) => drop(self.wills.remove(&key)),
                Some(Item::Request(_)) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::{MAD_BYTES, Will};

    fn packet(mark: u8) -> MadPacket {
        let local = [127, 0, 0, 1].into();
        MadPacket { local, remote: local, interface: 0, traffic_class: 0, mad: [mark; MAD_BYTES] }
    }

    fn sent(outgoing: &mut Outgoing, wills: &Wills, room: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        outgoing.flush(wills, |bytes| {
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
        let (mut outgoing, wills) = (Outgoing::default(), Wills::default());
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
        assert_eq!(marks(sent(&mut outgoing, &wills, 2)), [0, 1]);
        assert_eq!(marks(sent(&mut outgoing, &wills, 9)), [2, 3, 4]);
        assert!(outgoing.is_empty());
    }

    #[test]
    fn mads_beyond_the_limit_are_lost() {
        let (mut outgoing, wills) = (Outgoing::default(), Wills::default());
        for _ in 0..MAX_MADS {
            assert!(outgoing.mad(&packet(0)));
        }
        assert!(!outgoing.mad(&packet(1)));
        assert_eq!(sent(&mut outgoing, &wills, 1).len(), 1);
        assert!(outgoing.mad(&packet(1)), "there is room again");
    }

    #[test]
    fn a_will_is_told_once_as_it_is_then() {
        let (mut outgoing, mut wills) = (Outgoing::default(), Wills::default());
        let will = |mark| Will { packet: packet(mark), until_answered: true };
        for mark in 0..9 {
            wills.set(7, will(mark));
            outgoing.will(7);
        }
        wills.set(8, will(1));
        outgoing.will(8);
        wills.clear(8);
        outgoing.will(8);
        assert_eq!(sent(&mut outgoing, &wills, 9), [Frame::SetWill(7, will(8)), Frame::ClearWill(8)]);
        outgoing.will(7);
        assert_eq!(sent(&mut outgoing, &wills, 9), [Frame::SetWill(7, will(8))]);
    }
}

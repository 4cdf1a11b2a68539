//! A link that carries datagrams, and the few reliable messages of a session.

use longarm::RemoteKey;

use crate::link::{LinkBusy, PeerArea, SessionLink};

/// Datagrams and messages that a session has sent.
#[derive(Default)]
pub(crate) struct TestLink {
    pub(crate) datagrams: Vec<Vec<u8>>,
    pub(crate) messages: Vec<Vec<u8>>,
    /// Datagrams that the device takes until it is asked again.
    pub(crate) room: usize,
    /// A datagram was refused.
    pub(crate) refused: bool,
}

/// Memory that this way does not use.
pub(crate) struct NoArea;

impl PeerArea for NoArea {
    fn len_bytes(&self) -> u64 {
        0
    }
    fn load(&self, _: u64) -> u64 {
        unreachable!("the way uses no memory of the peer")
    }
    fn store(&self, _: u64, _: u64) {
        unreachable!("the way uses no memory of the peer")
    }
    fn copy_out(&self, _: u64, _: &mut [u8]) {
        unreachable!("the way uses no memory of the peer")
    }
    fn copy_in(&self, _: u64, _: &[u8]) {
        unreachable!("the way uses no memory of the peer")
    }
}

impl SessionLink for TestLink {
    type Bytes = Vec<u8>;
    type Exposed = ();
    type Area = NoArea;

    fn write(&mut self, _: u64, _: &[&[u8]]) -> Result<(), LinkBusy> {
        unreachable!("the way has no WRITEs")
    }
    fn write_with_imm(&mut self, _: u64, _: &[&[u8]], _: u32) -> Result<(), LinkBusy> {
        unreachable!("the way has no WRITEs")
    }
    fn read(&mut self, _: &RemoteKey, _: u64) -> Result<(), LinkBusy> {
        unreachable!("the way has no READs")
    }
    fn send(&mut self, message: &[u8]) -> Result<(), LinkBusy> {
        self.messages.push(message.to_vec());
        Ok(())
    }
    fn datagram(&mut self, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        let Some(room) = self.room.checked_sub(1) else {
            self.refused = true;
            return Err(LinkBusy);
        };
        self.room = room;
        self.datagrams.push(parts.concat());
        Ok(())
    }
    fn expose(&mut self, _: &[&[u8]]) -> Result<((), RemoteKey), LinkBusy> {
        unreachable!("the way has no READs")
    }
    fn area(&self) -> &NoArea {
        &NoArea
    }
    fn read_area(&self) -> Option<&NoArea> {
        None
    }
    fn peer_read_key(&self, _: u64, _: u64) -> Option<RemoteKey> {
        None
    }
}

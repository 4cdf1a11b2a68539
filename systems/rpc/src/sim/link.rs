//! The simulated connection, as a session sees it.

use std::cell::RefCell;
use std::rc::Rc;

use longarm::RemoteKey;

use crate::link::{LinkBusy, SessionLink};
use crate::sim::area::SimArea;
use crate::sim::network::{EndId, SimNetwork, SimOp};

/// One end of a simulated connection.
pub(crate) struct SimLink {
    network: Rc<RefCell<SimNetwork>>,
    end: EndId,
    area: Rc<SimArea>,
    read_area: Option<Rc<SimArea>>,
}

/// Memory that the peer may READ until this is dropped.
pub(crate) struct SimExposed {
    network: Rc<RefCell<SimNetwork>>,
    end: EndId,
    addr: u64,
}

impl SimLink {
    pub(crate) fn new(network: &Rc<RefCell<SimNetwork>>, end: EndId) -> SimLink {
        let (area, read_area) = network.borrow().areas(end);
        SimLink { network: Rc::clone(network), end, area, read_area }
    }

    fn post(&mut self, op: SimOp) -> Result<(), LinkBusy> {
        self.network.borrow_mut().post(self.end, op)
    }
}

impl SessionLink for SimLink {
    type Bytes = Vec<u8>;
    type Exposed = SimExposed;
    type Area = SimArea;

    fn write(&mut self, at: u64, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        self.post(SimOp::Write { at, bytes: parts.concat(), imm: None })
    }

    fn write_with_imm(&mut self, at: u64, parts: &[&[u8]], imm: u32) -> Result<(), LinkBusy> {
        self.post(SimOp::Write { at, bytes: parts.concat(), imm: Some(imm) })
    }

    fn read(&mut self, from: &RemoteKey, tag: u64) -> Result<(), LinkBusy> {
        self.post(SimOp::Read { key: *from, tag })
    }

    fn send(&mut self, message: &[u8]) -> Result<(), LinkBusy> {
        self.post(SimOp::Send(message.to_vec()))
    }

    fn datagram(&mut self, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        self.network.borrow_mut().post_datagram(self.end, parts.concat())
    }

    fn expose(&mut self, parts: &[&[u8]]) -> Result<(SimExposed, RemoteKey), LinkBusy> {
        let key = self.network.borrow_mut().expose(self.end, parts.concat())?;
        Ok((SimExposed { network: Rc::clone(&self.network), end: self.end, addr: key.addr() }, key))
    }

    fn area(&self) -> &SimArea {
        &self.area
    }

    fn read_area(&self) -> Option<&SimArea> {
        self.read_area.as_deref()
    }

    fn peer_read_key(&self, at: u64, len_bytes: u64) -> Option<RemoteKey> {
        self.network.borrow().read_area_key(self.end.peer(), at, len_bytes)
    }
}

impl Drop for SimExposed {
    fn drop(&mut self) {
        self.network.borrow_mut().withdraw(self.end, self.addr);
    }
}

//! Connects queue pairs by address, through the connection manager: the only way on iWARP devices.
//!
//! The server listens at a free port. The client connects one queue pair after the other. The private data tell which of
//! the server's queue pairs is meant, and that it is this client.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use connect::{CONSUMER_DEFINED, ConnParam, EventKind, Param, PortSpace};
use device::{AttrMask, QpAttr, QpState, QpType};
use provider::Qp;
use provider::cm::{Event, EventQueue, Id};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::endpoint::{Endpoints, RD_ATOMIC, RETRIES, timers};
use crate::error::Error;

/// The time in which all queue pairs of a test must have connected.
const PATIENCE: Duration = Duration::from_secs(60);

/// The address at which a server takes the connections of one test, and the number by which it knows its client.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct MeetingPoint {
    address: SocketAddr,
    ticket: u64,
}

impl MeetingPoint {
    fn private_data(&self, index: usize) -> Vec<u8> {
        [&self.ticket.to_be_bytes()[..], &(index as u32).to_be_bytes()].concat()
    }

    /// The index of the queue pair that a request means, if it comes from the client.
    fn index(&self, private_data: &[u8]) -> Option<usize> {
        let (ticket, rest) = private_data.split_first_chunk()?;
        let index = u32::from_be_bytes(*rest.first_chunk()?);
        (u64::from_be_bytes(*ticket) == self.ticket).then_some(index as usize)
    }
}

/// Connections of the connection manager. They end when this is dropped.
pub(crate) struct CmConnections {
    ids: Vec<Id>,
    queue: EventQueue,
}

/// The client's side: connects the queue pairs of `groups`, in their order.
pub(crate) fn connect(groups: &[Endpoints], local: IpAddr, point: &MeetingPoint) -> Result<CmConnections, Error> {
    let queue = EventQueue::new(provider::preferred()?)?;
    let mut connections = CmConnections { ids: Vec::new(), queue };
    let until = Instant::now() + PATIENCE;
    for (index, qp) in groups.iter().flat_map(|group| &group.qps).enumerate() {
        let id = Id::new(&connections.queue, PortSpace::Tcp, QpType::Rc)?;
        id.resolve_addr(Some(SocketAddr::new(local, 0)), point.address)?;
        id.resolve_route()?;
        let depths = (RD_ATOMIC, RD_ATOMIC);
        id.connect(&param(qp, point.private_data(index), depths))?;
        await_accepted(&connections.queue, qp, &id, until)?;
        connections.ids.push(id);
    }
    Ok(connections)
}

/// Waits until the server has accepted. An iWARP device makes the queue pair ready by itself.
fn await_accepted(queue: &EventQueue, qp: &Qp, id: &Id, until: Instant) -> Result<(), Error> {
    loop {
        let event = next_event(queue, until)?;
        match event.kind {
            _ if event.id.key() != id.key() => {}
            EventKind::ConnectResponse => {
                take_to_rts(qp, id)?;
                return Ok(id.establish()?);
            }
            EventKind::Established => {
                qp.is_connected_by_device();
                return Ok(());
            }
            kind if is_end(kind) => return Err(not_connected(&event)),
            _ => {}
        }
    }
}

/// The server's side: takes the connections of one client.
pub(crate) struct MeetingListener {
    connections: CmConnections,
    /// It listens as long as it exists.
    _listening: Id,
    point: MeetingPoint,
}

impl MeetingListener {
    /// Listens at a free port of the address.
    pub(crate) fn open(address: IpAddr) -> Result<MeetingListener, Error> {
        let queue = EventQueue::new(provider::preferred()?)?;
        let id = Id::new(&queue, PortSpace::Tcp, QpType::Rc)?;
        id.bind(SocketAddr::new(address, 0))?;
        id.listen(0)?;
        let address = id.local_addr().ok_or_else(|| Error::Peer("the listener has no address".into()))?;
        let point = MeetingPoint { address, ticket: RandomState::new().hash_one(address) };
        Ok(MeetingListener { connections: CmConnections { ids: Vec::new(), queue }, _listening: id, point })
    }

    /// The place for the client.
    pub(crate) fn point(&self) -> MeetingPoint {
        self.point
    }

    /// Accepts a connection for each queue pair of `groups`. Requests of others are refused.
    pub(crate) fn accept(mut self, groups: &[Endpoints]) -> Result<CmConnections, Error> {
        let qps: Vec<&Qp> = groups.iter().flat_map(|group| &group.qps).collect();
        let (until, mut waiting, mut up) = (Instant::now() + PATIENCE, vec![true; qps.len()], 0);
        while up < qps.len() {
            let event = next_event(&self.connections.queue, until)?;
            let is_ours = self.connections.ids.iter().any(|id| id.key() == event.id.key());
            match (event.kind, &event.param) {
                (EventKind::ConnectRequest, Param::Conn(wanted)) => {
                    let index = self.point.index(&wanted.private_data);
                    match index.filter(|index| waiting.get(*index) == Some(&true)) {
                        Some(index) => {
                            waiting[index] = false;
                            accept_one(qps[index], &event.id, wanted)?;
                            self.connections.ids.push(event.id);
                        }
                        // A stranger, who may have given up.
                        None => drop(event.id.reject(&[], CONSUMER_DEFINED)),
                    }
                }
                (EventKind::Established, _) if is_ours => up += 1,
                (kind, _) if is_ours && is_end(kind) => return Err(not_connected(&event)),
                _ => {}
            }
        }
        Ok(self.connections)
    }
}

fn accept_one(qp: &Qp, id: &Id, wanted: &ConnParam) -> Result<(), Error> {
    take_to_rts(qp, id)?;
    let depths = (RD_ATOMIC.min(wanted.initiator_depth), RD_ATOMIC.min(wanted.responder_resources));
    Ok(id.accept(&param(qp, Vec::new(), depths))?)
}

/// The parameters of a request or its answer; `depths` are the READs that we serve, and that we send.
fn param(qp: &Qp, private_data: Vec<u8>, depths: (u8, u8)) -> ConnParam {
    ConnParam {
        private_data,
        responder_resources: depths.0,
        initiator_depth: depths.1,
        flow_control: true,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        qpn: qp.qpn(),
        ..ConnParam::default()
    }
}

/// Takes a queue pair from Init to RTS, with the attributes of the connection and this tool's timers.
fn take_to_rts(qp: &Qp, id: &Id) -> Result<(), Error> {
    let steps = [id.qp_attr(QpState::Rtr)?, id.qp_attr(QpState::Rts)?];
    for (attr, mask) in &steps {
        let depths = (attr.max_rd_atomic.min(RD_ATOMIC), attr.max_dest_rd_atomic.min(RD_ATOMIC));
        let attr = QpAttr { max_rd_atomic: depths.0, max_dest_rd_atomic: depths.1, ..timers(*attr) };
        qp.modify(&attr, *mask)?;
    }
    if !steps[1].1.contains(AttrMask::STATE) {
        qp.is_connected_by_device();
    }
    Ok(())
}

fn next_event(queue: &EventQueue, until: Instant) -> Result<Event, Error> {
    loop {
        if let Some(event) = queue.next() {
            return Ok(event);
        }
        let left = until.checked_duration_since(Instant::now()).ok_or(Error::Silence(PATIENCE))?;
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&queue.fd(), PollFlags::IN)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    }
}

fn is_end(kind: EventKind) -> bool {
    use EventKind::{ConnectError, DeviceRemoval, Disconnected, Rejected, Unreachable};
    matches!(kind, ConnectError | Unreachable | Rejected | Disconnected | DeviceRemoval)
}

fn not_connected(event: &Event) -> Error {
    Error::Peer(format!("a queue pair could not connect by address: {:?}, status {}", event.kind, event.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_strangers_name_no_queue_pair() {
        let address = SocketAddr::from(([192, 0, 2, 1], 7471));
        let point = MeetingPoint { address, ticket: 0x0123_4567_89ab_cdef };
        let ours = point.private_data(7);
        assert_eq!(point.index(&[&ours[..], &[0; 44]].concat()), Some(7), "private data arrives padded with zeros");
        assert_eq!(point.index(&MeetingPoint { ticket: 1, ..point }.private_data(7)), None);
        assert_eq!(point.index(&ours[..11]), None);
        assert_eq!(point.index(&[]), None);
    }
}

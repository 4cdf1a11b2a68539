//! Events of the connection manager. They are handled on the dispatcher's thread.

use ::connect::{CONSUMER_DEFINED, ConnParam, DatagramParam, EventKind, Param};
use provider::cm::Event;
use wire::mad::{reason, sidr_status};

use super::{CmConnection, CmPhase, PeerEndpoint, PeerReply};
use crate::address::AddressHandle;
use crate::connection::dispatch::CmEventHandler;
use crate::error::{ConnectError, Refusal};

impl CmConnection {
    /// The peer accepts: the queue pair is made ready, and the peer told.
    fn accepted(&self, reply: ConnParam) {
        let Some(connector) = self.progress.lock().connector.clone() else { return };
        let ready = self.start(&connector).and_then(|info| {
            self.id.establish()?;
            Ok(info)
        });
        match ready {
            Ok(info) => {
                let reply = PeerReply { endpoint: PeerEndpoint::Connected(info), private_data: reply.private_data };
                self.enter(CmPhase::Up, Some(reply));
            }
            Err(error) => {
                // The peer may have gone meanwhile.
                let _ = self.id.reject(&[], CONSUMER_DEFINED);
                self.fail(error);
            }
        }
    }

    /// The connection is up. An iWARP device has made the queue pair of the side that connects ready by itself, and no
    /// response has come before.
    fn established(&self, reply: ConnParam) {
        let by_device = {
            let progress = self.progress.lock();
            progress.connector.clone().filter(|_| progress.reply.is_none())
        };
        let reply = by_device.map(|connector| PeerReply {
            endpoint: PeerEndpoint::Connected(connector.connected_by_device(self.peer.ip())),
            private_data: reply.private_data,
        });
        self.enter(CmPhase::Up, reply);
    }

    fn found(&self, param: DatagramParam) {
        let address = AddressHandle::of_vector(&param.address, param.qpn, param.qkey);
        let reply = PeerReply { endpoint: PeerEndpoint::Datagrams(address), private_data: param.private_data };
        self.enter(CmPhase::Up, Some(reply));
    }

    fn refused(&self, refusal: Refusal, private_data: Vec<u8>) {
        self.fail(ConnectError::Refused { peer: self.peer, refusal, private_data });
    }

    /// The peer has ended the connection, or agreed that we end it. A peer that ends a connection has had one,
    /// so this also stands for a confirmation that was lost.
    fn ended(&self) {
        let (is_waiting, has_answered) = {
            let progress = self.progress.lock();
            (matches!(progress.phase, CmPhase::Waiting), progress.reply.is_some())
        };
        if is_waiting && !has_answered {
            return self.fail(ConnectError::Gone(self.peer));
        }
        self.stop();
        // The kernel answers the peer only if the program agrees, also if both ends have hung up.
        let _ = self.id.disconnect();
        self.enter(CmPhase::Over, None);
    }
}

impl CmEventHandler for CmConnection {
    fn handle(&self, event: Event) {
        match (event.kind, event.param) {
            (EventKind::ConnectResponse, Param::Conn(reply)) => self.accepted(reply),
            (EventKind::Established, Param::Datagram(param)) => self.found(param),
            (EventKind::Established, Param::Conn(reply)) => self.established(reply),
            (EventKind::Established, _) => self.enter(CmPhase::Up, None),
            (EventKind::Rejected, Param::Conn(param)) => {
                self.refused(Refusal(event.status as u16), param.private_data);
            }
            (EventKind::Unreachable, Param::Datagram(param)) if event.status > 0 => {
                self.refused(of_status(event.status), param.private_data);
            }
            (EventKind::Unreachable | EventKind::ConnectError, _) => self.fail(ConnectError::Unreachable(self.peer)),
            (EventKind::Disconnected | EventKind::DeviceRemoval | EventKind::Rejected, _) => self.ended(),
            _ => {}
        }
    }
}

/// The reason that stands for a SIDR_REP's status.
fn of_status(status: i32) -> Refusal {
    match u8::try_from(status) {
        Ok(sidr_status::UNSUPPORTED) => Refusal(reason::INVALID_SERVICE_ID),
        Ok(sidr_status::REJECTED) => Refusal(reason::CONSUMER),
        Ok(sidr_status::NO_QP) => Refusal(reason::NO_QP),
        _ => Refusal(reason::UNSUPPORTED),
    }
}

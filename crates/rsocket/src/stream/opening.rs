//! Opening connections, on either side, and later events of the connection manager.

use std::net::SocketAddr;
use std::sync::Arc;

use connect::{ConnParam, Event, EventKind, Param};
use device::QpState;

use super::core::{StreamPhase, StreamState};
use super::endpoint::StreamEndpoint;
use super::flow::StreamFlow;
use crate::devices;
use crate::errno::{Errno, Result};
use crate::protocol::greeting::StreamGreeting;

/// Most of both retry counters; for receivers not ready it means without end.
const RETRIES: u8 = 7;
/// Rejected by the consumer (IB specification 12.6.7.2).
const REASON_CONSUMER: u16 = 28;

impl StreamState {
    /// Begins to connect.
    pub(super) fn open(&mut self, destination: SocketAddr) -> Result<()> {
        self.phase = StreamPhase::ResolvingAddr;
        let begun = self.id.resolve_addr(None, destination).map_err(Errno::from);
        if begun.is_err() {
            self.ended(StreamPhase::Failed, None);
        }
        begun
    }

    /// Takes over the connection request that came with the id, and accepts it.
    pub(super) fn accept(&mut self, request: &[u8]) -> Result<()> {
        let begun = self.try_accept(request);
        if begun.is_err() {
            self.close_endpoint();
            let _ = self.id.reject(&[], REASON_CONSUMER);
        }
        begun
    }

    fn try_accept(&mut self, request: &[u8]) -> Result<()> {
        let greeting = StreamGreeting::decode(request).ok_or(Errno::NOT_SUPPORTED)?;
        let endpoint = self.make_endpoint()?;
        self.flow = Some(StreamFlow::new(&endpoint, &greeting).ok_or(Errno(libc::EPROTO))?);
        endpoint.bring_up(&self.id, &[QpState::Init, QpState::Rtr, QpState::Rts])?;
        self.phase = StreamPhase::Accepting;
        Ok(self.id.accept(&param(&endpoint))?)
    }

    /// Handles an event of the id.
    pub(super) fn happened(&mut self, event: Event) {
        if self.is_connected() {
            if matches!(event.kind, EventKind::Disconnected | EventKind::DeviceRemoval) {
                self.cut_off = self.readable;
                self.ended(StreamPhase::Disconnected, None);
            }
            return;
        }
        if !self.is_opening() {
            return;
        }
        if let Err(error) = self.opened(&event) {
            log::debug!("no connection: {:?}, {error}", event.kind);
            self.close_endpoint();
            self.ended(StreamPhase::Failed, Some(error));
        }
    }

    fn opened(&mut self, event: &Event) -> Result<()> {
        match (self.phase, event.kind) {
            (StreamPhase::ResolvingAddr, EventKind::AddrResolved) => {
                self.phase = StreamPhase::ResolvingRoute;
                Ok(self.id.resolve_route()?)
            }
            (StreamPhase::ResolvingRoute, EventKind::RouteResolved) => self.request(),
            (StreamPhase::Connecting, EventKind::ConnectResponse) => self.replied(&event.param),
            (StreamPhase::Accepting, EventKind::Established) => {
                self.connected();
                Ok(())
            }
            (_, EventKind::Rejected) => Err(Errno(libc::ECONNREFUSED)),
            (_, EventKind::Disconnected | EventKind::DeviceRemoval) => Err(Errno(libc::ECONNRESET)),
            (_, EventKind::AddrError | EventKind::RouteError | EventKind::ConnectError | EventKind::Unreachable) => {
                Err(Errno(if event.status < 0 { -event.status } else { libc::ETIMEDOUT }))
            }
            _ => Ok(()),
        }
    }

    /// The route is resolved: sends the request to the peer.
    fn request(&mut self) -> Result<()> {
        let endpoint = self.make_endpoint()?;
        endpoint.bring_up(&self.id, &[QpState::Init])?;
        self.phase = StreamPhase::Connecting;
        Ok(self.id.connect(&param(&endpoint))?)
    }

    /// The peer accepts.
    fn replied(&mut self, param: &Param) -> Result<()> {
        let Param::Conn(conn) = param else { return Err(Errno(libc::EPROTO)) };
        let greeting = StreamGreeting::decode(&conn.private_data).ok_or(Errno::NOT_SUPPORTED)?;
        let endpoint = self.endpoint.clone().ok_or(Errno::INVAL)?;
        self.flow = Some(StreamFlow::new(&endpoint, &greeting).ok_or(Errno(libc::EPROTO))?);
        endpoint.bring_up(&self.id, &[QpState::Rtr, QpState::Rts])?;
        self.id.establish()?;
        self.connected();
        Ok(())
    }

    fn make_endpoint(&mut self) -> Result<Arc<StreamEndpoint>> {
        let binding = self.id.binding().ok_or(Errno(libc::ENODEV))?;
        let endpoint =
            Arc::new(StreamEndpoint::new(&devices::open(&binding.device)?, &self.settings, self.queue.is_some())?);
        self.settings = *endpoint.settings();
        self.endpoint = Some(Arc::clone(&endpoint));
        Ok(endpoint)
    }

    pub(super) fn close_endpoint(&mut self) {
        self.flow = None;
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.destroy();
        }
    }
}

fn param(endpoint: &StreamEndpoint) -> ConnParam {
    ConnParam {
        private_data: endpoint.greeting().encode().to_vec(),
        flow_control: true,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        qpn: endpoint.qp().qpn(),
        ..ConnParam::default()
    }
}

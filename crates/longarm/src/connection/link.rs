//! What the connection manager knows of one connection, and the queue pair that goes along.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use ::connect::{CONSUMER_DEFINED, ConnParam, DatagramParam, Event, EventKind, Id, Param};
use parking_lot::Mutex;
use transport::{QpState, QpType};
use wire::mad::{reason, sidr_status};

use super::dispatch::{Concerned, Dispatcher};
use super::waiters::{Place, Waiters};
use crate::address::AddressHandle;
use crate::error::{ConnectError, Refusal};
use crate::qp::{ConnectionInfo, Pilot};

/// Private data of a REQ, behind the header that says who calls (IB specification A11.5).
const REQUEST_BYTES: usize = 56;
/// Of a REP.
const ACCEPT_BYTES: usize = 196;
/// Of a REJ.
const REJECT_BYTES: usize = 148;
/// Of a SIDR_REQ, behind that header.
const LOOKUP_BYTES: usize = 180;
/// Of a SIDR_REP.
const ANSWER_BYTES: usize = 136;

/// One attempt to connect, and the connection that it becomes.
///
/// The dispatcher's thread takes the queue pair along as messages arrive; futures only look. So a
/// future that nobody polls holds nobody up, the peer least of all.
pub(super) struct Link {
    dispatcher: Arc<Dispatcher>,
    id: Id,
    peer: SocketAddr,
    inner: Mutex<Inner>,
}

struct Inner {
    phase: Phase,
    pilot: Option<Pilot>,
    /// What was learned of the peer, until somebody takes it.
    far: Option<Far>,
    waiters: Waiters,
}

enum Phase {
    /// An answer is awaited: the peer's, or our own.
    Waiting,
    Up,
    /// It was up.
    Over,
    /// It never was; why, until somebody asks.
    Failed(Option<ConnectError>),
}

/// What was learned of the peer.
pub(super) struct Far {
    pub(super) what: FarEnd,
    pub(super) private_data: Vec<u8>,
}

/// The peer's end.
pub(super) enum FarEnd {
    /// A queue pair that ours is connected to.
    Connected(ConnectionInfo),
    /// One that takes datagrams.
    Datagrams(AddressHandle),
}

impl Link {
    /// For an id that has a peer; its events come here from now on.
    pub(super) fn new(dispatcher: &Arc<Dispatcher>, id: Id) -> Result<Arc<Link>, ConnectError> {
        let peer = id.peer_addr().ok_or(ConnectError::Malformed("the request names no address"))?;
        let inner = Inner { phase: Phase::Waiting, pilot: None, far: None, waiters: Waiters::default() };
        let link = Arc::new(Link { dispatcher: Arc::clone(dispatcher), id, peer, inner: Mutex::new(inner) });
        let concerned: Arc<dyn Concerned> = link.clone();
        dispatcher.enter(link.id.key(), Arc::downgrade(&concerned));
        Ok(link)
    }

    pub(super) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// Asks the peer for a connection.
    pub(super) fn request(&self, pilot: &Pilot, private_data: &[u8]) -> Result<(), ConnectError> {
        check(private_data, REQUEST_BYTES)?;
        self.id.set_mtu(pilot.mtu())?;
        self.inner.lock().pilot = Some(pilot.clone());
        let depth = pilot.read_depth();
        Ok(self.id.connect(&param(pilot, private_data, (depth, depth)))?)
    }

    /// Asks the peer where its datagrams go.
    pub(super) fn look_up(&self, private_data: &[u8]) -> Result<(), ConnectError> {
        check(private_data, LOOKUP_BYTES)?;
        let param = ConnParam { private_data: private_data.to_vec(), ..ConnParam::default() };
        Ok(self.id.connect(&param)?)
    }

    /// Takes the connection that the peer wants. `wanted` is what it said.
    pub(super) fn accept(&self, pilot: &Pilot, wanted: &ConnParam, private_data: &[u8]) -> Result<(), ConnectError> {
        check(private_data, ACCEPT_BYTES)?;
        let info = self.start(pilot)?;
        {
            let mut inner = self.inner.lock();
            inner.pilot = Some(pilot.clone());
            inner.far = Some(Far { what: FarEnd::Connected(info), private_data: wanted.private_data.clone() });
        }
        let depth = pilot.read_depth();
        let depths = (depth.min(wanted.responder_resources), depth.min(wanted.initiator_depth));
        self.id.accept(&param(pilot, private_data, depths)).map_err(|error| self.late(error))
    }

    /// Tells the peer where our datagrams go.
    pub(super) fn answer(&self, address: &AddressHandle, private_data: &[u8]) -> Result<(), ConnectError> {
        check(private_data, ANSWER_BYTES)?;
        let private_data = private_data.to_vec();
        let param = ConnParam { private_data, qpn: address.qpn(), qkey: Some(address.qkey()), ..ConnParam::default() };
        self.id.accept(&param).map_err(|error| self.late(error))
    }

    /// Refuses.
    pub(super) fn reject(&self, refusal: Refusal, private_data: &[u8]) -> Result<(), ConnectError> {
        let room = if self.id.qp_type() == QpType::Ud { ANSWER_BYTES } else { REJECT_BYTES };
        check(private_data, room)?;
        self.id.reject(private_data, refusal.0).map_err(|error| self.late(error))
    }

    /// Why an answer could not be given: the peer has given up meanwhile, in most cases.
    fn late(&self, error: ::connect::Error) -> ConnectError {
        match error {
            ::connect::Error::State(_) | ::connect::Error::Cm(_) => ConnectError::Gone(self.peer),
            other => other.into(),
        }
    }

    fn start(&self, pilot: &Pilot) -> Result<ConnectionInfo, ConnectError> {
        let attr = |state| self.id.qp_attr(state).map_err(|error| self.late(error));
        let receive = attr(QpState::Rtr)?;
        let (ours, theirs) = (pilot.mtu(), receive.0.path_mtu);
        match theirs <= ours {
            true => Ok(pilot.start(receive, attr(QpState::Rts)?)?),
            false => Err(ConnectError::Mtu { ours, theirs }),
        }
    }

    /// Whether an answer of ours still makes sense.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.inner.lock().phase, Phase::Waiting)
    }

    pub(super) fn is_up(&self) -> bool {
        self.dispatcher.is_ours() && matches!(self.inner.lock().phase, Phase::Up)
    }

    /// What became of the attempt. To be asked until it is ready, and not again.
    pub(super) fn poll_up(&self, task: &mut TaskContext<'_>, place: &mut Place) -> Poll<Result<Far, ConnectError>> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(Err(ConnectError::Forked));
        }
        let mut inner = self.inner.lock();
        let Inner { phase, far, waiters, .. } = &mut *inner;
        let failed = match phase {
            Phase::Waiting => {
                waiters.note(place, task.waker());
                return Poll::Pending;
            }
            // It may be over already; what the peer sent before that is there.
            Phase::Up | Phase::Over => None,
            Phase::Failed(error) => error.take(),
        };
        Poll::Ready(far.take().filter(|_| failed.is_none()).ok_or(failed.unwrap_or(ConnectError::Gone(self.peer))))
    }

    /// Waits until it is over.
    pub(super) fn poll_over(&self, task: &mut TaskContext<'_>, place: &mut Place) -> Poll<()> {
        if !self.dispatcher.is_ours() {
            return Poll::Ready(());
        }
        let mut inner = self.inner.lock();
        match inner.phase {
            Phase::Waiting | Phase::Up => {
                inner.waiters.note(place, task.waker());
                Poll::Pending
            }
            Phase::Over | Phase::Failed(_) => Poll::Ready(()),
        }
    }

    /// A future gives its place up.
    pub(super) fn forget(&self, place: &Place) {
        if self.dispatcher.is_ours() {
            self.inner.lock().waiters.forget(place);
        }
    }

    /// Ends the connection: flushes the queue pair and tells the peer, who will agree.
    pub(super) fn disconnect(&self) {
        if !self.dispatcher.is_ours() {
            return;
        }
        self.stop();
        // It may be over already.
        let _ = self.id.disconnect();
    }

    /// Ends everything: the caller is going.
    pub(super) fn end(&self) {
        if !self.dispatcher.is_ours() {
            return;
        }
        self.stop();
        self.dispatcher.forget(self.id.key());
        self.id.destroy();
        self.enter(Phase::Over, None);
    }

    fn stop(&self) {
        let pilot = self.inner.lock().pilot.clone();
        if let Some(pilot) = pilot {
            pilot.stop();
        }
    }

    /// Goes on to another phase and tells who waits.
    fn enter(&self, phase: Phase, far: Option<Far>) {
        let wakers = {
            let mut inner = self.inner.lock();
            inner.phase = phase;
            inner.far = far.or(inner.far.take());
            inner.waiters.take()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The queue pair is left alone: it may be of use for another attempt, and goes with the future.
    fn fail(&self, error: ConnectError) {
        self.enter(Phase::Failed(Some(error)), None);
    }

    /// The peer accepts: the queue pair is made ready, and the peer told.
    fn accepted(&self, reply: ConnParam) {
        let Some(pilot) = self.inner.lock().pilot.clone() else { return };
        let ready = self.start(&pilot).and_then(|info| {
            self.id.establish()?;
            Ok(info)
        });
        match ready {
            Ok(info) => {
                let far = Far { what: FarEnd::Connected(info), private_data: reply.private_data };
                self.enter(Phase::Up, Some(far));
            }
            Err(error) => {
                // The peer may have gone meanwhile.
                let _ = self.id.reject(&[], CONSUMER_DEFINED);
                self.fail(error);
            }
        }
    }

    fn found(&self, param: DatagramParam) {
        let address = AddressHandle::of_vector(&param.address, param.qpn, param.qkey);
        let far = Far { what: FarEnd::Datagrams(address), private_data: param.private_data };
        self.enter(Phase::Up, Some(far));
    }

    fn refused(&self, refusal: Refusal, private_data: Vec<u8>) {
        self.fail(ConnectError::Refused { peer: self.peer, refusal, private_data });
    }

    /// The peer has ended it, or agreed to our ending it. Who ends a connection has had one: if its
    /// confirmation was lost then this is as good.
    fn ended(&self) {
        let (is_waiting, has_answered) = {
            let inner = self.inner.lock();
            (matches!(inner.phase, Phase::Waiting), inner.far.is_some())
        };
        if is_waiting && !has_answered {
            return self.fail(ConnectError::Gone(self.peer));
        }
        self.stop();
        self.enter(Phase::Over, None);
    }
}

impl Concerned for Link {
    fn happened(&self, event: Event) {
        match (event.kind, event.param) {
            (EventKind::ConnectResponse, Param::Conn(reply)) => self.accepted(reply),
            (EventKind::Established, Param::Datagram(param)) => self.found(param),
            (EventKind::Established, _) => self.enter(Phase::Up, None),
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

impl Drop for Link {
    fn drop(&mut self) {
        if self.dispatcher.is_ours() {
            self.dispatcher.forget(self.id.key());
            self.id.destroy();
        }
    }
}

fn check(private_data: &[u8], max: usize) -> Result<(), ConnectError> {
    let is = private_data.len();
    if is <= max { Ok(()) } else { Err(ConnectError::PrivateData { is, max }) }
}

/// The parameters of a request or its answer; `depths` are the READs that we serve, and that we send.
fn param(pilot: &Pilot, private_data: &[u8], depths: (u8, u8)) -> ConnParam {
    ConnParam {
        private_data: private_data.to_vec(),
        responder_resources: depths.0,
        initiator_depth: depths.1,
        flow_control: true,
        retry_count: pilot.retry_count(),
        rnr_retry_count: pilot.rnr_retry_count(),
        srq: pilot.has_srq(),
        qpn: pilot.qpn(),
        qkey: None,
    }
}

/// The reason that a SIDR_REP's status comes down to.
fn of_status(status: i32) -> Refusal {
    match u8::try_from(status) {
        Ok(sidr_status::UNSUPPORTED) => Refusal(reason::INVALID_SERVICE_ID),
        Ok(sidr_status::REJECTED) => Refusal(reason::CONSUMER),
        Ok(sidr_status::NO_QP) => Refusal(reason::NO_QP),
        _ => Refusal(reason::UNSUPPORTED),
    }
}

//! Making a session: the connection, the handshake, and the memory.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use longarm::{Connection, Route, Target};

use crate::auth::{Shield, Unproven};
use crate::client::poll::Client;
use crate::client::session::CallerSession;
use crate::code::{Code, Executed};
use crate::handshake::{Hello, OfferedMemory, Ready, SessionMessage, Welcome};
use crate::observe::ClientObserver;
use crate::options::ClientOptions;
use crate::session::{ClientSession, SessionLimits};
use crate::session_memory::CarrierPlan;
use crate::status::Status;
use crate::verbs::{LinkParts, PeerKeys, Port, PortEvent, PortSizes, VerbsLink};
use crate::way::Way;

/// Receive buffers for datagrams: as many as a session has credits, and some for answers that were sent twice. Many clients of
/// a process have one buffer each in the processor's cache at best.
const DATAGRAMS: u32 = 40;
/// Requests that a send queue holds.
pub(super) const SEND_DEPTH: u32 = 256;

/// Connects to a server and agrees on a session with it. Blocks at most for the time in the options.
pub(super) fn connect(to: impl Into<Target>, options: &ClientOptions, sleeps: bool) -> Result<Client, Status> {
    let until = Instant::now() + options.connect_timeout;
    let route = route_to(to, options, until)?;
    let receives = u32::from(options.slots) * 2 + 16;
    let mut port = open_port(&route, options, PortSizes { receives, datagrams: DATAGRAMS, send_depth: SEND_DEPTH })?;
    let opening = SessionDemands { options, sleeps, token: random(), until };
    let session = open_session(&mut port, &route, &opening, &mut |_| ())?;
    Ok(Client::new(port, session))
}

/// The way to a server.
pub(super) fn route_to(to: impl Into<Target>, options: &ClientOptions, until: Instant) -> Result<Route, Status> {
    check(options)?;
    Route::to(to).wait(left(until)).map_err(unreachable)
}

/// A port on the device of that route. It has no datagrams where the options need none.
pub(super) fn open_port(route: &Route, options: &ClientOptions, sizes: PortSizes) -> Result<Port, Status> {
    let device = route.open_device().map_err(unreachable)?;
    let needs_datagrams = offered(options, &device)?.iter().any(|way| matches!(way, Way::Herd | Way::Datagram));
    let limits = device.limits();
    let sizes = PortSizes {
        receives: sizes.receives.min(limits.max_srq_wr),
        datagrams: if needs_datagrams { sizes.datagrams.min(limits.max_qp_wr) } else { 0 },
        ..sizes
    };
    let domain = device.protection_domain().map_err(unreachable)?;
    Port::new(&domain, sizes).map_err(unreachable)
}

/// The demands of a client on a session to be.
pub(super) struct SessionDemands<'a> {
    pub(super) options: &'a ClientOptions,
    /// The client sleeps while it waits.
    pub(super) sleeps: bool,
    /// The secret of datagrams to the client. Sessions that share a port have different ones.
    pub(super) token: u32,
    pub(super) until: Instant,
}

/// Opens a session over a port. Events of the port's other sessions go to `others`.
pub(super) fn open_session(
    port: &mut Port,
    route: &Route,
    demands: &SessionDemands<'_>,
    others: &mut dyn FnMut(PortEvent),
) -> Result<CallerSession, Status> {
    let SessionDemands { options, sleeps, token, until } = *demands;
    let ways = offered(options, port.device())?;
    let connection = longarm::connect(route, port.rc(&options.tuning), b"").wait(left(until)).map_err(unreachable)?;
    let mut hello = Hello::new(ways, options.way.is_some(), options.sizes(port.datagram_bytes()), sleeps, token);
    hello.typical_bytes = options.typical_bytes;
    let (shield, first) = shield(options).map_err(Unproven::into_status)?;
    let mut opening = OpeningClient { port, others, connection, until, shield, unread: VecDeque::new() };
    opening.prove(&first)?;
    opening.agree(hello, options)
}

/// The protection that the client demands, and the first messages that it needs.
fn shield(options: &ClientOptions) -> Result<(Shield, Vec<SessionMessage>), Unproven> {
    #[cfg(feature = "tls")]
    if let Some(settings) = &options.tls {
        let (tls, first) = crate::auth::TlsShield::client(settings)?;
        return Ok((Shield::Tls(Box::new(tls)), first));
    }
    #[cfg(feature = "shared-key")]
    if let Some(secret) = &options.shared_key {
        let (key, first) = crate::auth::KeyShield::client(secret)?;
        return Ok((Shield::Key(Box::new(key)), vec![first]));
    }
    let _ = options;
    Ok((Shield::Plain, Vec::new()))
}

/// Refuses options that demand two proofs.
fn check(options: &ClientOptions) -> Result<(), Status> {
    #[cfg(all(feature = "tls", feature = "shared-key"))]
    if options.tls.is_some() && options.shared_key.is_some() {
        let words = "a client demands TLS or a shared key, not both";
        return Err(Status::invalid_argument(words).with_executed(Executed::No));
    }
    let _ = options;
    Ok(())
}

fn offered(options: &ClientOptions, device: &longarm::Device) -> Result<Vec<Way>, Status> {
    match options.way {
        Some(way) if !way.runs_on(device) => {
            let words = format!("the device {} cannot carry the way {way}", device.info().name);
            Err(Status::new(Code::FailedPrecondition, words).with_executed(Executed::No))
        }
        Some(way) => Ok(vec![way]),
        None => Ok(Way::ALL.into_iter().filter(|way| way.runs_on(device)).collect()),
    }
}

/// A connection on its way to a session.
struct OpeningClient<'a> {
    port: &'a mut Port,
    /// Takes the events of the port's other sessions.
    others: &'a mut dyn FnMut(PortEvent),
    connection: Connection,
    until: Instant,
    shield: Shield,
    /// Messages that came before they were expected.
    unread: VecDeque<SessionMessage>,
}

impl OpeningClient<'_> {
    /// Exchanges proofs until messages can be sealed. No message of the session leaves before.
    fn prove(&mut self, first: &[SessionMessage]) -> Result<(), Status> {
        first.iter().try_for_each(|message| self.post(message))?;
        while !self.shield.is_ready() {
            let message = self.receive_raw()?;
            self.open(message)?;
        }
        Ok(())
    }

    /// Takes the protection off a message of the server, and answers.
    fn open(&mut self, message: SessionMessage) -> Result<(), Status> {
        let opened = self.shield.open(message);
        let answers = match &opened {
            Ok(unsealed) => &unsealed.answers,
            Err(_) => &self.shield.last_words(),
        };
        answers.iter().try_for_each(|answer| self.post(answer))?;
        self.unread.extend(opened.map_err(Unproven::into_status)?.messages);
        Ok(())
    }

    fn agree(mut self, hello: Hello, options: &ClientOptions) -> Result<CallerSession, Status> {
        let token = hello.token;
        let (offered, wanted, sleeps) = (hello.ways.clone(), hello.sizes, hello.sleeps);
        self.send(&SessionMessage::Hello(hello))?;
        let welcome = match self.receive()? {
            SessionMessage::Welcome(welcome) => welcome,
            SessionMessage::Refused { code, words } => {
                return Err(Status::new(Code::from_number(code), words).with_executed(Executed::No));
            }
            _ => return Err(broken()),
        };
        if !offered.contains(&welcome.way) || wanted.meet(&welcome.sizes) != welcome.sizes {
            return Err(broken());
        }
        self.finish(welcome, token, sleeps, options)
    }

    fn finish(
        mut self,
        welcome: Welcome,
        token: u32,
        sleeps: bool,
        options: &ClientOptions,
    ) -> Result<CallerSession, Status> {
        let Welcome { way, why, sizes, session, token: server_token, .. } = welcome;
        let (written, read) = welcome.memory.keys().ok_or_else(broken)?;
        let plan = CarrierPlan { way, sizes, session, client_sleeps: sleeps, client_token: token, server_token };
        if !plan.fits_server(&written) {
            return Err(broken());
        }
        let carrier = plan.client();
        let areas = self.port.stores().areas();
        let area = plan.client_area(areas, options.tuning.one_region).map_err(unreachable)?;
        let uc = match welcome.memory.uc() {
            None => None,
            Some(info) => {
                let uc = self.port.uc().build().map_err(unreachable)?;
                Some((uc.connection_info(), uc.connect(&info).map_err(unreachable)?))
            }
        };
        let ud = self.port.ud().cloned().zip(welcome.memory.ud());
        let own = ud.as_ref().map(|(ud, _)| ud.address_handle());
        let key = area.key().map_err(unreachable)?;
        let ours = OfferedMemory::new(key, None, uc.as_ref().map(|(info, _)| *info), own);
        self.send(&SessionMessage::Ready(Ready { memory: ours }))?;
        let observer = ClientObserver::new(self.connection.peer_addr());
        let parts = LinkParts {
            uc: uc.map(|(_, uc)| uc),
            datagrams: ud,
            qp: self.connection,
            area,
            read_area: None,
            peer: PeerKeys { written, read },
        };
        let link = VerbsLink::new(parts, self.port.stores(), options.tuning);
        let limits = SessionLimits { slots: sizes.slots, max_message_bytes: sizes.max_message_bytes as usize };
        Ok(CallerSession::new(ClientSession::new(link, carrier, limits), way, why, observer))
    }

    fn send(&mut self, message: &SessionMessage) -> Result<(), Status> {
        let sealed = self.shield.seal(message).map_err(Unproven::into_status)?;
        sealed.iter().try_for_each(|message| self.post(message))
    }

    fn post(&self, message: &SessionMessage) -> Result<(), Status> {
        let buffer = self.port.stores().filled(&[&message.encode()]).ok_or_else(|| unreachable("no memory"))?;
        self.connection.send(buffer).post().map(|_| ()).map_err(unreachable)
    }

    /// The server's next message, without its protection.
    fn receive(&mut self) -> Result<SessionMessage, Status> {
        loop {
            if let Some(message) = self.unread.pop_front() {
                return Ok(message);
            }
            let message = self.receive_raw()?;
            self.open(message)?;
        }
    }

    /// The server's next message, as it came.
    fn receive_raw(&mut self) -> Result<SessionMessage, Status> {
        let own = self.connection.qpn();
        loop {
            match self.port.next().map_err(unreachable)? {
                Some(PortEvent::Message(qpn, bytes)) if qpn == own => {
                    return SessionMessage::decode(&bytes).ok_or_else(broken);
                }
                Some(PortEvent::Failed(qpn, why, _)) if qpn == own => return Err(unreachable(why)),
                Some(other) => (self.others)(other),
                None if !self.connection.is_connected() => {
                    return Err(unreachable("the server ended the connection before the session began"));
                }
                None if Instant::now() >= self.until => return Err(unreachable("the server did not answer in time")),
                None => self.sleep()?,
            }
        }
    }

    fn sleep(&mut self) -> Result<(), Status> {
        self.port.arm().map_err(unreachable)?;
        if !self.port.has_event().map_err(unreachable)? {
            let _ = self.port.channel().wait(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn unreachable(why: impl ToString) -> Status {
    Status::unavailable(why.to_string()).with_executed(Executed::No)
}

fn broken() -> Status {
    Status::internal("the server broke the rules of the handshake").with_executed(Executed::No)
}

/// A number that nobody else can guess: from the keys of the standard library's hash maps, which the system draws.
pub(crate) fn random() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

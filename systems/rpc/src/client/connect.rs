//! Making a session: the connection, the handshake, and the memory.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use longarm::{Connection, Route, Target};

use crate::client::poll::Client;
use crate::code::{Code, Executed};
use crate::handshake::{Hello, OfferedMemory, Ready, SessionMessage, Welcome};
use crate::options::ClientOptions;
use crate::session::{ClientSession, SessionLimits};
use crate::session_memory::CarrierPlan;
use crate::status::Status;
use crate::verbs::{LinkParts, PeerKeys, Port, PortEvent, PortSizes, VerbsLink};
use crate::way::Way;

/// Connects to a server and agrees on a session with it. Blocks at most for the time in the options.
pub(super) fn connect(to: impl Into<Target>, options: &ClientOptions, sleeps: bool) -> Result<Client, Status> {
    let until = Instant::now() + options.connect_timeout;
    let route = Route::to(to).wait(left(until)).map_err(unreachable)?;
    let device = route.open_device().map_err(unreachable)?;
    let ways = offered(options, &device)?;
    let receives = u32::from(options.slots) * 2 + 16;
    let datagrams = if ways.iter().any(|way| matches!(way, Way::Herd | Way::Datagram)) { 128 } else { 0 };
    let port = Port::new(&device, PortSizes { receives, datagrams, send_depth: 256 }).map_err(unreachable)?;
    let connection = longarm::connect(&route, port.rc(), b"").wait(left(until)).map_err(unreachable)?;
    let hello = Hello::new(ways, options.way.is_some(), options.sizes(), sleeps, random());
    OpeningClient { port, connection, until }.agree(hello, options)
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
struct OpeningClient {
    port: Port,
    connection: Connection,
    until: Instant,
}

impl OpeningClient {
    fn agree(mut self, hello: Hello, options: &ClientOptions) -> Result<Client, Status> {
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

    fn finish(self, welcome: Welcome, token: u32, sleeps: bool, options: &ClientOptions) -> Result<Client, Status> {
        let Welcome { way, why, sizes, session, .. } = welcome;
        let (written, read) = welcome.memory.keys().ok_or_else(broken)?;
        let plan = CarrierPlan { way, sizes, session, client_sleeps: sleeps };
        let carrier = plan.client().ok_or_else(broken)?;
        let area = plan.area(self.port.stores().domain()).map_err(unreachable)?;
        let uc = match welcome.memory.uc() {
            None => None,
            Some(info) => {
                let uc = self.port.uc().build().map_err(unreachable)?;
                Some((uc.connection_info(), uc.connect(&info).map_err(unreachable)?))
            }
        };
        let ud = self.port.ud().zip(welcome.memory.ud());
        let own = ud.map(|(ud, _)| ud.address_handle());
        let ours = OfferedMemory::new(area.key(), None, uc.as_ref().map(|(info, _)| *info), own);
        let _ = token;
        self.send(&SessionMessage::Ready(Ready { memory: ours }))?;
        let parts = LinkParts {
            uc: uc.map(|(_, uc)| uc),
            datagrams: ud.map(|(ud, to)| (ud.clone(), to)),
            qp: self.connection,
            area,
            read_area: None,
            peer: PeerKeys { written, read },
        };
        let link = VerbsLink::new(parts, self.port.stores(), options.tuning);
        let limits = SessionLimits { slots: sizes.slots, max_message_bytes: sizes.max_message_bytes as usize };
        Ok(Client::new(self.port, ClientSession::new(link, carrier, limits), way, why))
    }

    fn send(&self, message: &SessionMessage) -> Result<(), Status> {
        let buffer = self.port.stores().filled(&[&message.encode()]).ok_or_else(|| unreachable("no memory"))?;
        self.connection.send(buffer).post().map(|_| ()).map_err(unreachable)
    }

    /// The server's next message.
    fn receive(&mut self) -> Result<SessionMessage, Status> {
        loop {
            match self.port.next().map_err(unreachable)? {
                Some(PortEvent::Message(_, bytes)) => return SessionMessage::decode(&bytes).ok_or_else(broken),
                Some(PortEvent::Failed(_, why, _)) => return Err(unreachable(why)),
                Some(_) => {}
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

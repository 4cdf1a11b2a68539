//! MADs, and sessions that wait for them.

use super::TestHub;
use longarm_hub::AddressedMad;
use longarm_hub::client::manager::{self, ManagerEvent, ManagerSession};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use testkit::PATIENCE;
use wire::mad::{self, CmMessage, Drep, Dreq, MadHeader, Rtu, SidrReq};
use wire::{PKey, Qpn};

pub const TCP: u16 = 0x0106;
pub const UDP: u16 = 0x0111;

/// A MAD between two addresses.
pub fn packet(local: &str, remote: &str, transaction_id: u64, message: CmMessage) -> AddressedMad {
    let header = MadHeader { transaction_id, ..MadHeader::default() };
    AddressedMad {
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
        interface: 0,
        traffic_class: 0,
        mad: mad::encode(&header, &message),
    }
}

/// The communication id of a process.
pub fn id(number: u16, counter: u32) -> u32 {
    u32::from(number) << 20 | counter
}

pub fn rtu(local_id: u32, remote_id: u32) -> CmMessage {
    CmMessage::Rtu(Rtu { local_id, remote_id, private_data: [0; Rtu::PRIVATE_LEN] })
}

pub fn dreq(local_id: u32, remote_id: u32) -> CmMessage {
    let private_data = [0; Dreq::PRIVATE_LEN];
    CmMessage::Dreq(Dreq { local_id, remote_id, remote_qpn: Qpn::new(1), private_data })
}

pub fn drep(local_id: u32, remote_id: u32) -> CmMessage {
    CmMessage::Drep(Drep { local_id, remote_id, private_data: [0; Drep::PRIVATE_LEN] })
}

/// Asks for the service on a port.
pub fn sidr_req(request_id: u32, space: u16, port: u16) -> CmMessage {
    let service_id = u64::from(space) << 16 | u64::from(port);
    let private_data = [0; SidrReq::PRIVATE_LEN];
    CmMessage::SidrReq(SidrReq { request_id, pkey: PKey::DEFAULT, service_id, private_data })
}

pub fn message(packet: &AddressedMad) -> CmMessage {
    mad::decode(&packet.mad).unwrap().1
}

pub fn transaction(packet: &AddressedMad) -> u64 {
    mad::decode(&packet.mad).unwrap().0.transaction_id
}

/// A session that the test maintains while it waits.
pub struct Manager {
    pub session: ManagerSession,
    /// Events that the test has not waited for yet.
    passed: Vec<ManagerEvent>,
}

impl Manager {
    pub fn new(place: &TestHub) -> Manager {
        Manager { session: manager::manage(&place.options()).unwrap(), passed: Vec::new() }
    }

    /// A port of this host's, listening.
    pub fn listen(&mut self, space: u16, address: &str) -> manager::BoundPort {
        let binding = self.session.bind(space, address.parse().unwrap(), Default::default()).unwrap();
        self.session.listen(binding.token).unwrap();
        binding
    }

    /// Maintains the session, and waits a little.
    pub fn step(&mut self) {
        let most = Duration::from_millis(20);
        let now = Instant::now();
        let wake = self.session.maintain(now);
        while let Some(event) = self.session.next_event() {
            self.passed.push(event);
        }
        let wait = wake.map_or(most, |wake| wake.saturating_duration_since(now).min(most));
        let mut fds = [PollFd::from_borrowed_fd(self.session.poll_fd(), PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec::try_from(wait).unwrap())).unwrap();
    }

    /// Sends a packet every second until the event comes: the packet and its return may get lost.
    pub fn send_until<R>(
        &mut self,
        what: &str,
        packet: &AddressedMad,
        is_it: impl Fn(&ManagerEvent) -> Option<R>,
    ) -> R {
        let began = Instant::now();
        loop {
            self.session.send_mad(packet);
            let sent = Instant::now();
            while sent.elapsed() < Duration::from_secs(1) {
                if let Some(found) = self.passed.iter().find_map(&is_it) {
                    self.passed.retain(|event| is_it(event).is_none());
                    return found;
                }
                self.step();
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}, got {:?}", self.passed);
        }
    }

    /// Waits for an event; others are kept.
    pub fn expect<R>(&mut self, what: &str, mut is_it: impl FnMut(&ManagerEvent) -> Option<R>) -> R {
        let began = Instant::now();
        loop {
            if let Some(at) = self.passed.iter().position(|event| is_it(event).is_some()) {
                return is_it(&self.passed.remove(at)).unwrap();
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}, got {:?}", self.passed);
            self.step();
        }
    }

    /// Waits for a MAD.
    pub fn expect_mad(&mut self) -> AddressedMad {
        self.expect("a MAD", |event| match event {
            ManagerEvent::Mad(packet) => Some(packet.clone()),
            _ => None,
        })
    }

    /// Whether an unexpected MAD has come.
    pub fn has_mads(&self) -> bool {
        self.passed.iter().any(|event| matches!(event, ManagerEvent::Mad(_)))
    }

    /// Sends a MAD to a session whose address is `remote`, and returns it as it arrived.
    pub fn exchange(&mut self, to: &mut Manager, local: &str, remote: &str, interface: u32) -> AddressedMad {
        let message = rtu(id(self.session.number(), 1), id(to.session.number(), 2));
        let sent = AddressedMad { interface, ..packet(local, remote, 7, message) };
        self.session.send_mad(&sent);
        let got = to.expect_mad();
        assert_eq!(got.mad, sent.mad);
        assert_eq!((got.local, got.remote), (address(remote), address(local)));
        got
    }
}

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

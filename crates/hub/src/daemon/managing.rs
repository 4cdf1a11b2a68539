//! Requests and frames of clients that manage connections.

use super::connection::{Connection, Managing, Stage};
use super::ports::{Ephemeral, Scope};
use super::relay::{own_interface, random};
use super::server::{Answer, Server};
use crate::channel::{self, MAX_DESCRIPTORS};
use crate::mad::Frame;
use crate::message::{BindRefusal, BindSpec, ErrorCode, Reply};
use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Most wills of one client.
const MAX_CLOSING_MESSAGES: usize = 1 << 17;

/// Most messages that are still taken from a client that is gone: more than its socket holds.
const MAX_LAST_MESSAGES: usize = 4096;

/// Linux' ephemeral ports, if the system does not tell its own.
const EPHEMERAL: (u16, u16) = (32768, 60999);

impl Server {
    /// From now on the connection is that of a process that manages connections.
    pub(super) fn manage(&mut self, id: u64, number: Option<u16>) -> Answer {
        let Some(number) = self.relay.numbers.take(number, id) else {
            self.counters.denied += 1;
            let reason = "no number for a process that manages connections is free";
            return Answer::Say(Reply::error(ErrorCode::NoSlot, reason), Vec::new());
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            log::info!("process {} ({}) manages connections as {number}", connection.pid, connection.program);
            connection.managing = Some(Box::new(Managing::new(number)));
            connection.enter(Stage::Managing);
        }
        let devices = self.devices.list().to_vec();
        Answer::Say(Reply::Managing { number, devices }, Vec::new())
    }

    /// A port for a managing client, who listens at once if it wants to. Without `again` the
    /// address must be there now.
    pub(super) fn bind(&mut self, id: u64, token: u64, wish: &BindSpec, listening: bool, again: bool) -> Answer {
        if !again && !self.is_available(wish) {
            return about_port(token, Err(BindRefusal::NotAvailable));
        }
        let ports = &mut self.relay.ports;
        let mut outcome = ports.bind(id, token, wish, ephemeral);
        if listening && outcome.is_ok() {
            outcome = ports.listen(id, token);
            if outcome.is_err() {
                ports.unbind(id, token);
            }
        }
        about_port(token, outcome)
    }

    pub(super) fn listen_on(&mut self, id: u64, token: u64) -> Answer {
        about_port(token, self.relay.ports.listen(id, token))
    }

    /// Not answered; to give back what is not there changes nothing.
    pub(super) fn unbind(&mut self, id: u64, token: u64) -> Answer {
        self.relay.ports.unbind(id, token);
        Answer::Later
    }

    /// Whether an address to bind to is one of this host's. Addresses that cannot be bound at all
    /// are the port table's to refuse.
    fn is_available(&self, wish: &BindSpec) -> bool {
        let interface = match wish.address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        match Scope::of(wish.address, wish.afonly) {
            Some(Scope::V4(_) | Scope::V6(..)) => {
                own_interface(self.devices.list(), wish.address.ip(), interface).is_some()
            }
            Some(Scope::AnyV4 | Scope::AnyV6 | Scope::Any) | None => true,
        }
    }

    /// Takes a binary message; `None` if it is none, or only for clients to hear.
    pub(super) fn take_frame(&mut self, id: u64, bytes: &[u8]) -> Option<()> {
        let frame = Frame::decode(bytes).filter(|frame| !matches!(frame, Frame::Undelivered(..)))?;
        // It must not be reached by others meanwhile, and comes back at once.
        let mut managing = self.connections.get_mut(&id)?.managing.take()?;
        self.obey(&mut managing, frame);
        self.connections.get_mut(&id)?.managing = Some(managing);
        Some(())
    }

    fn obey(&mut self, managing: &mut Managing, frame: Frame) {
        match frame {
            Frame::Mad(packet) => {
                managing.sent += u64::from(self.relay.send_for_client(packet, self.devices.list()));
            }
            Frame::SetClosingMessage(key, will) => {
                if managing.closing.len() < MAX_CLOSING_MESSAGES || managing.closing.contains_key(&key) {
                    managing.closing.insert(key, will);
                } else {
                    self.relay.counters.closing_dropped += 1;
                }
            }
            Frame::ClearClosingMessage(key) => drop(managing.closing.remove(&key)),
            Frame::Undelivered(..) => {}
        }
    }

    /// A client is gone: what it had said before is heard, its ports are free, and its wills are
    /// carried out.
    pub(super) fn bury(&mut self, id: u64, connection: &mut Connection) {
        let Some(mut managing) = connection.managing.take() else { return };
        for _ in 0..MAX_LAST_MESSAGES {
            let Ok(parcel) = channel::receive(connection.as_fd(), MAX_DESCRIPTORS) else { break };
            if let Some(frame) = Frame::decode(&parcel.bytes) {
                self.obey(&mut managing, frame);
            }
        }
        let Managing { number, closing: wills, .. } = *managing;
        if !wills.is_empty() {
            log::info!("process {} leaves {} last messages", connection.pid, wills.len());
        }
        self.relay.bury(id, number, wills.into_values());
    }
}

fn about_port(token: u64, outcome: Result<u16, BindRefusal>) -> Answer {
    let reply = match outcome {
        Ok(port) => Reply::Bound { token, port },
        Err(refusal) => Reply::NotBound { token, refusal },
    };
    Answer::Say(reply, Vec::new())
}

/// The system's ephemeral ports (ip(7), `ip_local_port_range`), from anywhere on.
fn ephemeral() -> Ephemeral {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let (low, high) = port_range(&text).unwrap_or(EPHEMERAL);
    Ephemeral { range: low..=high, start: random() }
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.trim().split_once(char::is_whitespace)?;
    Some((low.parse().ok()?, high.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_range_is_read() {
        assert_eq!(port_range("32768\t60999\n"), Some((32768, 60999)));
        assert_eq!(port_range("1024 65535"), Some((1024, 65535)));
        for text in ["", "7", "a\tb", "1\t70000"] {
            assert_eq!(port_range(text), None, "{text:?}");
        }
    }
}

//! Connections that arrive.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustls::{ServerConnection, StreamOwned};

use super::reactor::DoorLoop;
use super::serve::RespConnection;
use super::wire::{RespWire, is_later};
use crate::client::RespClient;
use crate::users::DEFAULT;
use crate::valkey::ValkeyListener;

/// Connections that one round accepts.
const MOST_AT_ONCE: usize = 1000;
/// A pause when the system gives no more descriptors.
const PAUSE: Duration = Duration::from_millis(1);

impl DoorLoop {
    pub(super) fn accept(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, address)) => self.admit(stream, address),
                Err(error) if is_later(&error) => return,
                Err(_) => {
                    self.door.counts.refused += 1;
                    thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, mut stream: TcpStream, address: SocketAddr) {
        let is_ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        if is_ready.is_err() {
            return;
        }
        if self.connections.len() >= self.door.settings.max_clients {
            self.door.counts.refused += 1;
            // The client may be gone.
            let _ = stream.write(b"-ERR max number of clients reached\r\n");
            return;
        }
        let Ok(local) = stream.local_addr() else { return };
        let wire = match &self.tls {
            None => RespWire::Plain(stream),
            Some(config) => match ServerConnection::new(Arc::clone(config)) {
                Ok(tls) => RespWire::Tls(Box::new(StreamOwned::new(tls, stream))),
                Err(_) => return,
            },
        };
        self.enter(wire, address, local);
    }

    /// Takes connections that have come by RDMA.
    pub(super) fn accept_rdma(&mut self) {
        while let Some(mut wire) = self.valkey.as_ref().and_then(ValkeyListener::next) {
            let (address, local) = (wire.peer_addr(), wire.local_addr());
            if wire.announce().is_ok() {
                self.enter(RespWire::Valkey(wire), address, local);
            }
        }
    }

    fn enter(&mut self, wire: RespWire, address: SocketAddr, local: SocketAddr) {
        self.next_id += 1;
        let id = self.next_id;
        if epoll::add(&self.epoll, &wire, EventData::new_u64(id), EventFlags::IN).is_err() {
            return;
        }
        self.door.counts.connections += 1;
        let user = self.door.users.welcomes_strangers().then(|| DEFAULT.to_owned());
        let now_ns = self.table.lock().now_ns();
        self.door.clients.insert(id, Box::new(RespClient::new(id, address, local, now_ns, user)));
        self.connections.insert(id, RespConnection::new(wire));
        // The descriptor tells nothing before it was looked at once.
        self.again.push(id);
    }
}

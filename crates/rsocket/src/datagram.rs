//! Datagram sockets: a UDP socket, and a queue pair for every local address that is used.
//!
//! ```text
//!  the peer's queue pair is known:   send ─► queue pair ══ Source, data ══► queue pair ─► inbox
//!  not yet:                          send ─► UDP ────── Inquiry, data ────► service ──► inbox
//!                                  service ◄──────── Inquiry (its number) ◄──┘
//! ```

mod arrivals;
mod core;
mod end;
mod peers;

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use self::core::DatagramState;
use crate::errno::{Errno, Result};
use crate::protocol::datagram::Inquiry;
use crate::rdma_options::{RDMA_INLINE, RDMA_RQSIZE, RDMA_SQSIZE, SOL_RDMA};
use crate::service::{self, InquiryResponder};
use crate::settings::LOW_WATER;
use crate::wait::{self, Bell, Bells, CallPatience};
use crate::{sys, value};

/// A datagram socket.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    udp: OwnedFd,
    v6: bool,
    core: Mutex<DatagramState>,
    bells: Bells,
}

impl DatagramSocket {
    pub(crate) fn new(v6: bool) -> Result<Arc<DatagramSocket>> {
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let udp = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::empty(), None)?;
        Ok(Arc::new(DatagramSocket { udp, v6, core: Mutex::new(DatagramState::new()), bells: Bells::default() }))
    }

    /// The number of its descriptor: that of its UDP socket.
    pub(crate) fn fd(&self) -> RawFd {
        self.udp.as_raw_fd()
    }

    pub(crate) fn bind(self: &Arc<Self>, address: SocketAddr) -> Result<()> {
        rustix::net::bind(&self.udp, &address)?;
        self.start()
    }

    /// Sends to and receives from one peer.
    pub(crate) fn connect(self: &Arc<Self>, address: SocketAddr) -> Result<()> {
        rustix::net::connect(&self.udp, &address)?;
        self.start()?;
        let mut core = self.lock();
        core.know(&self.udp, address)?;
        core.peer = Some(address);
        Ok(())
    }

    /// Has a port, and answers inquiries.
    fn start(self: &Arc<Self>) -> Result<()> {
        let mut core = self.lock();
        if core.started {
            return Ok(());
        }
        core.started = true;
        drop(core);
        if self.local_addr()?.port() == 0 {
            let any: IpAddr = if self.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            rustix::net::bind(&self.udp, &SocketAddr::new(any, 0))?;
        }
        let responder: Arc<dyn InquiryResponder> = self.clone();
        service::answer_for(responder)
    }

    pub(crate) fn local_addr(&self) -> Result<SocketAddr> {
        peers::local_addr(self.udp())
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr> {
        self.lock().peer.ok_or(Errno(libc::ENOTCONN))
    }

    /// Sends one datagram, whole or not at all.
    pub(crate) fn send(self: &Arc<Self>, parts: &[IoSlice<'_>], flags: i32, to: Option<SocketAddr>) -> Result<usize> {
        self.start()?;
        let data: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let to = match to {
            Some(to) => to,
            None => self.lock().peer.ok_or(Errno(libc::EDESTADDRREQ))?,
        };
        let mut core = self.lock();
        core.know(&self.udp, to)?;
        if !core.is_direct(to, data.len()) {
            let inquiry = core.inquiry(to, true).ok_or(Errno::INVAL)?;
            drop(core);
            self.send_over_udp(&inquiry, &data, to, flags)?;
            return Ok(data.len());
        }
        if !core.can_send() {
            drop(core);
            let patience = self.patience(flags, true);
            core = self.until(patience, |core| core.can_send())?;
        }
        core.send(to, &data)?;
        Ok(data.len())
    }

    fn send_over_udp(&self, inquiry: &Inquiry, data: &[u8], to: SocketAddr, flags: i32) -> Result<()> {
        if data.len() + Inquiry::MAX_BYTES > LOW_WATER as usize {
            return Err(Errno(libc::EMSGSIZE));
        }
        let mut bytes = Vec::with_capacity(Inquiry::MAX_BYTES + data.len());
        inquiry.encode(&mut bytes);
        bytes.extend_from_slice(data);
        let now = if self.patience(flags, true).is_none() { SendFlags::DONTWAIT } else { SendFlags::empty() };
        rustix::net::sendto(&self.udp, &bytes, now, &to)?;
        Ok(())
    }

    /// Receives one datagram and its sender. Bytes that do not fit are lost.
    pub(crate) fn recv(&self, parts: &mut [IoSliceMut<'_>], flags: i32) -> Result<(usize, SocketAddr)> {
        if !self.lock().started {
            return Err(Errno::INVAL);
        }
        let mut core = self.until(self.patience(flags, false), |core| core.has_data())?;
        let (source, data) = core.first().ok_or(Errno::AGAIN)?;
        if flags & libc::MSG_PEEK == 0 {
            core.forget_first();
        }
        drop(core);
        let mut rest = &data[..];
        for part in parts {
            let len = part.len().min(rest.len());
            part[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
        Ok((data.len() - rest.len(), source))
    }

    /// Ends it when everything was sent.
    pub(crate) fn close(&self) {
        service::stop_answering(self.fd());
        while let Err(Errno(libc::EINTR)) = self.until(CallPatience::ENDLESS, |core| core.is_all_sent()).map(drop) {}
        self.lock().close();
        self.bells.ring();
    }

    pub(crate) fn revents(&self, events: i16) -> i16 {
        let mut core = self.lock();
        core.pump();
        let mut found = 0;
        if core.has_data() {
            found |= events & (libc::POLLIN | libc::POLLRDNORM);
        }
        if core.can_send() {
            found |= events & (libc::POLLOUT | libc::POLLWRNORM);
        }
        found
    }

    pub(crate) fn bells(&self) -> &Bells {
        &self.bells
    }

    pub(crate) fn arm(&self, mut each: impl FnMut(RawFd)) -> Result<()> {
        let mut core = self.lock();
        core.arm()?;
        if let Some(channel) = core.channel() {
            each(channel.fd().as_raw_fd());
        }
        Ok(())
    }

    pub(crate) fn status_flags(&self) -> i32 {
        self.lock().status_flags
    }

    pub(crate) fn set_status_flags(&self, flags: i32) {
        self.lock().status_flags = flags;
    }

    pub(crate) fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let mut core = self.lock();
        match (level, name) {
            (SOL_RDMA, name) => return core.set_rdma_option(name, value),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => core.recv_timeout = value::time(value)?,
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => core.send_timeout = value::time(value)?,
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => core.set_buffer(true, value::int(value)?),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => core.set_buffer(false, value::int(value)?),
            _ => {}
        }
        drop(core);
        sys::set_option(self.udp(), level, name, value)
    }

    pub(crate) fn option(&self, level: i32, name: i32, max: usize) -> Result<Vec<u8>> {
        let settings = self.lock().settings;
        match (level, name) {
            (SOL_RDMA, RDMA_SQSIZE) => Ok(value::of_int(settings.send_queue.into())),
            (SOL_RDMA, RDMA_RQSIZE) => Ok(value::of_int(settings.recv_queue.into())),
            (SOL_RDMA, RDMA_INLINE) => Ok(value::of_int(settings.inline.into())),
            (SOL_RDMA, _) => Err(Errno::NOT_SUPPORTED),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => Ok(value::of_int(settings.recv_buffer as i32)),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => Ok(value::of_int(settings.send_buffer as i32)),
            _ => sys::get_option(self.udp(), level, name, max),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DatagramState> {
        self.core.lock()
    }

    fn patience(&self, flags: i32, sending: bool) -> CallPatience {
        let core = self.lock();
        match if sending { core.send_timeout } else { core.recv_timeout } {
            _ if (flags & libc::MSG_DONTWAIT) != 0 || core.status_flags & libc::O_NONBLOCK != 0 => CallPatience::NONE,
            Some(timeout) => CallPatience::of(timeout),
            None => CallPatience::ENDLESS,
        }
    }

    /// The state, as soon as the test holds or the socket is closed.
    fn until(
        &self,
        patience: CallPatience,
        test: impl Fn(&mut DatagramState) -> bool,
    ) -> Result<MutexGuard<'_, DatagramState>> {
        let start = std::time::Instant::now();
        loop {
            let core = self.look(&test)?;
            if let Some(core) = core {
                return Ok(core);
            }
            if patience.is_none() {
                return self.look_again(&test)?.ok_or(Errno::AGAIN);
            }
            if start.elapsed() >= crate::settings::polling_time() {
                break;
            }
        }
        let bell = Bell::mine()?;
        let _hung = self.bells.hang(&bell);
        loop {
            if let Some(core) = self.look(&test)? {
                return Ok(core);
            }
            let channel = {
                let mut core = self.lock();
                core.arm()?;
                core.channel().cloned()
            };
            match &channel {
                Some(channel) => wait::sleep(&[channel.fd()], &bell, patience)?,
                None => wait::sleep(&[], &bell, patience)?,
            }
        }
    }

    /// A program that does not wait asks again. On a busy machine that would use up the processor time that it needs
    /// for the next datagram. So it naps before it polls once more.
    fn look_again(&self, test: &impl Fn(&mut DatagramState) -> bool) -> Result<Option<MutexGuard<'_, DatagramState>>> {
        let cq = self.lock().cq().cloned();
        let Some(cq) = cq else { return Ok(None) };
        cq.rest();
        self.look(test)
    }

    fn look(&self, test: &impl Fn(&mut DatagramState) -> bool) -> Result<Option<MutexGuard<'_, DatagramState>>> {
        let mut core = self.lock();
        if core.pump() {
            self.bells.ring();
        }
        match (test(&mut core), core.closed) {
            (true, _) => Ok(Some(core)),
            (false, true) => Err(Errno::BADF),
            (false, false) => Ok(None),
        }
    }
}

impl InquiryResponder for DatagramSocket {
    fn udp(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }

    /// Takes the datagrams and inquiries that have come over UDP.
    fn answer(&self) {
        let mut buffer = [0; LOW_WATER as usize];
        while let Some((len, from)) = peers::receive(self.udp(), &mut buffer) {
            let Some((inquiry, data)) = Inquiry::split(&buffer[..len]) else { continue };
            let mut core = self.lock();
            if let Err(error) = core.know(&self.udp, from) {
                log::debug!("an inquiry of {from} cannot be answered: {error}");
                continue;
            }
            core.learn(from, inquiry.qpn);
            let answer = core.inquiry(from, false).filter(|_| inquiry.data);
            if inquiry.data {
                core.forward(from, data);
            }
            drop(core);
            if let Some(answer) = answer {
                let _ = self.send_over_udp(&answer, &[], from, libc::MSG_DONTWAIT);
            }
            self.bells.ring();
        }
    }
}

//! Options of stream sockets.

use std::mem::offset_of;
use std::time::Duration;

use super::core::{StreamPhase, StreamState};
use super::option_state::{Keepalive, Linger};
use crate::errno::{Errno, Result};
use crate::protocol::greeting::tellable;
use crate::rdma_options::{RDMA_INLINE, RDMA_IOMAPSIZE, RDMA_ROUTE, RDMA_RQSIZE, RDMA_SQSIZE, SOL_RDMA};
use crate::value::{self, boolean, int};

/// The value of TCP_MAXSEG before there is a path.
const SEGMENT: i32 = 2048;
const MAX_QUEUE: i32 = 0xfffe;

impl StreamState {
    /// Sets an option. The new rule for keeping the connection alive, if the option has changed it.
    pub(super) fn set_option(&mut self, level: i32, name: i32, value: &[u8]) -> Result<Option<Keepalive>> {
        let before = self.options.keepalive;
        match level {
            libc::SOL_SOCKET => self.set_socket_option(name, value)?,
            libc::IPPROTO_TCP => self.set_tcp_option(name, value)?,
            libc::IPPROTO_IPV6 => self.set_ipv6_option(name, value)?,
            SOL_RDMA => self.set_rdma_option(name, value)?,
            _ => return Err(Errno::NOT_SUPPORTED),
        }
        let after = self.options.keepalive;
        Ok((before.on != after.on || (after.on && before.idle != after.idle)).then_some(after))
    }

    /// The bytes of the value.
    pub(super) fn option(&mut self, level: i32, name: i32) -> Result<Vec<u8>> {
        match level {
            libc::SOL_SOCKET => self.socket_option(name),
            libc::IPPROTO_TCP => self.tcp_option(name),
            libc::IPPROTO_IPV6 if name == libc::IPV6_V6ONLY => Ok(value::of_bool(self.options.v6_only)),
            SOL_RDMA => self.rdma_option(name),
            _ => Err(Errno::NOT_SUPPORTED),
        }
    }

    fn set_socket_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        match name {
            libc::SO_REUSEADDR => {
                self.options.reuse_address = boolean(value)?;
                if self.phase == StreamPhase::Fresh {
                    self.id.set_reuse_addr(self.options.reuse_address)?;
                }
            }
            libc::SO_RCVBUF if self.endpoint.is_none() => self.settings.recv_buffer = buffer_size(value)?,
            libc::SO_SNDBUF if self.endpoint.is_none() => self.settings.send_buffer = buffer_size(value)?,
            libc::SO_RCVBUF | libc::SO_SNDBUF => {}
            libc::SO_LINGER => {
                let on = boolean(value)?;
                let seconds = int(value.get(offset_of!(libc::linger, l_linger)..).unwrap_or_default())?;
                self.options.linger = Some(Linger { on, seconds });
            }
            libc::SO_KEEPALIVE => self.options.keepalive.on = boolean(value)?,
            libc::SO_OOBINLINE => self.options.oob_inline = boolean(value)?,
            libc::SO_RCVTIMEO => self.options.recv_timeout = value::time(value)?,
            libc::SO_SNDTIMEO => self.options.send_timeout = value::time(value)?,
            _ => return Err(Errno::NOT_SUPPORTED),
        }
        Ok(())
    }

    fn socket_option(&mut self, name: i32) -> Result<Vec<u8>> {
        let options = &self.options;
        Ok(match name {
            libc::SO_REUSEADDR => value::of_bool(options.reuse_address),
            libc::SO_KEEPALIVE => value::of_bool(options.keepalive.on),
            libc::SO_OOBINLINE => value::of_bool(options.oob_inline),
            libc::SO_RCVBUF => value::of_int(self.settings.recv_buffer as i32),
            libc::SO_SNDBUF => value::of_int(self.settings.send_buffer as i32),
            libc::SO_LINGER => {
                let linger = options.linger.unwrap_or(Linger { on: true, seconds: 0 });
                [value::of_bool(linger.on), value::of_int(linger.seconds)].concat()
            }
            libc::SO_RCVTIMEO => value::of_time(options.recv_timeout),
            libc::SO_SNDTIMEO => value::of_time(options.send_timeout),
            libc::SO_ERROR => {
                self.pump();
                value::of_int(self.take_error().map_or(0, |error| error.0))
            }
            libc::SO_TYPE => value::of_int(libc::SOCK_STREAM),
            libc::SO_ACCEPTCONN => value::of_bool(self.phase == StreamPhase::Listening),
            _ => return Err(Errno::NOT_SUPPORTED),
        })
    }

    fn set_tcp_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        match name {
            // The device itself handles a peer that does not answer.
            libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG => {}
            libc::TCP_KEEPIDLE => {
                let seconds = u64::try_from(int(value)?).ok().filter(|seconds| *seconds > 0);
                self.options.keepalive.idle = Some(Duration::from_secs(seconds.ok_or(Errno::INVAL)?));
            }
            libc::TCP_NODELAY => self.options.no_delay = boolean(value)?,
            _ => return Err(Errno::NOT_SUPPORTED),
        }
        Ok(())
    }

    fn tcp_option(&mut self, name: i32) -> Result<Vec<u8>> {
        Ok(match name {
            libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL => value::of_int(1),
            libc::TCP_KEEPIDLE => value::of_int(self.options.keepalive.idle.map_or(0, |time| time.as_secs() as i32)),
            libc::TCP_NODELAY => value::of_bool(self.options.no_delay),
            libc::TCP_MAXSEG => value::of_int(self.id.binding().map_or(SEGMENT, |binding| binding.mtu.bytes() as i32)),
            _ => return Err(Errno::NOT_SUPPORTED),
        })
    }

    fn set_ipv6_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        if name != libc::IPV6_V6ONLY {
            return Err(Errno::NOT_SUPPORTED);
        }
        self.options.v6_only = boolean(value)?;
        Ok(self.id.set_v6_only(self.options.v6_only)?)
    }

    fn set_rdma_option(&mut self, name: i32, value: &[u8]) -> Result<()> {
        if !matches!(self.phase, StreamPhase::Fresh | StreamPhase::Listening) {
            return Err(Errno::INVAL);
        }
        if name == RDMA_ROUTE {
            // Addresses decide the path.
            return Ok(());
        }
        let size = int(value)?.clamp(0, MAX_QUEUE) as u16;
        match name {
            RDMA_SQSIZE => self.settings.send_queue = size,
            RDMA_RQSIZE => self.settings.recv_queue = size,
            RDMA_INLINE => self.settings.inline = size,
            RDMA_IOMAPSIZE => self.settings.mappings = tellable(size),
            _ => return Err(Errno::NOT_SUPPORTED),
        }
        Ok(())
    }

    fn rdma_option(&mut self, name: i32) -> Result<Vec<u8>> {
        Ok(match name {
            RDMA_SQSIZE => value::of_int(self.settings.send_queue.into()),
            RDMA_RQSIZE => value::of_int(self.settings.recv_queue.into()),
            RDMA_INLINE => value::of_int(self.settings.inline.into()),
            RDMA_IOMAPSIZE => value::of_int(self.settings.mappings.into()),
            RDMA_ROUTE => self.id.path().map(|path| value::of_path(&path)).unwrap_or_default(),
            _ => return Err(Errno::NOT_SUPPORTED),
        })
    }
}

/// Twice the size asked for, as with sockets of the system.
fn buffer_size(value: &[u8]) -> Result<u32> {
    Ok((int(value)?.max(0) as u32).saturating_mul(2))
}

//! The options of an id.

use cm::Ece;
use transport::Mtu;

use super::Id;
use crate::connections::{CmIdState, IdPhase};
use crate::error::Error;

impl Id {
    /// Sets the type of service or traffic class of all packets of the id: the DSCP in the
    /// high six bits. This and the following are options, `rdma_set_option(3)`.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy), as of all options.
    pub fn set_tos(&self, tos: u8) -> Result<(), Error> {
        self.set(|id| {
            id.tos = tos;
            Ok(())
        })
    }

    /// Lets several ids bind to the port, as long as none of them listens.
    ///
    /// # Errors
    /// If it listens already; to take it back, if it is bound already.
    pub fn set_reuse_addr(&self, reuse: bool) -> Result<(), Error> {
        self.set(|id| {
            let is_too_late = if reuse { id.phase == IdPhase::Listening } else { id.phase != IdPhase::Idle };
            if is_too_late {
                return Err(Error::State("it is bound already"));
            }
            id.reuse = reuse;
            Ok(())
        })
    }

    /// Makes the wildcard of IPv6 exclude IPv4.
    ///
    /// # Errors
    /// If it listens already, or has a destination.
    pub fn set_v6_only(&self, only: bool) -> Result<(), Error> {
        self.set(|id| {
            if !matches!(id.phase, IdPhase::Idle | IdPhase::Bound) {
                return Err(Error::State("it is more than bound already"));
            }
            id.v6_only = only;
            Ok(())
        })
    }

    /// Sets the queue pair's ACK timeout: 4.096 µs · 2^code, 5 bits.
    ///
    /// # Errors
    /// If the code has more bits, or the queue pair expects no ACKs.
    pub fn set_ack_timeout(&self, code: u8) -> Result<(), Error> {
        self.set(|id| {
            if code > 31 {
                return Err(Error::Invalid("an ACK timeout has five bits"));
            }
            if !id.qp_type.is_reliable() {
                return Err(Error::Invalid("only reliable connections have ACKs"));
            }
            id.ack_timeout = Some(code);
            Ok(())
        })
    }

    /// Sets vendor options for the peer, for the next request, accept or answer to a datagram lookup.
    /// `rdma_set_local_ece(3)`.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy).
    pub fn set_ece(&self, ece: Ece) -> Result<(), Error> {
        self.set(|id| {
            id.local_ece = ece;
            Ok(())
        })
    }

    /// The vendor options that the peer has sent; all zero if none. `rdma_get_remote_ece(3)`.
    pub fn remote_ece(&self) -> Ece {
        self.read(|id| id.remote_ece).unwrap_or_default()
    }

    /// Limits the payload per packet further than the interface does; a request asks for the result.
    ///
    /// # Errors
    /// If the id is not bound to a device.
    pub fn set_mtu(&self, mtu: Mtu) -> Result<(), Error> {
        self.set(|id| {
            let binding = id.binding.as_mut().ok_or(Error::State("it is bound to no device"))?;
            binding.mtu = binding.mtu.min(mtu);
            Ok(())
        })
    }

    fn set(&self, set: impl FnOnce(&mut CmIdState) -> Result<(), Error>) -> Result<(), Error> {
        self.change(|connections, key| set(connections.get_mut(key)?))
    }
}

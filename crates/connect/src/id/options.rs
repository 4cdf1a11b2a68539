//! Options of an id, `rdma_set_option(3)`.

use cm::Ece;
use transport::Mtu;

use super::Id;
use crate::error::Error;
use crate::state::Phase;

impl Id {
    /// Type of service or traffic class of everything that is sent for the id: the DSCP in the
    /// high six bits.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy), as of all options.
    pub fn set_tos(&self, tos: u8) -> Result<(), Error> {
        self.change(|state, key| {
            state.entry(key)?.tos = tos;
            Ok(())
        })
    }

    /// Several ids may bind to the port, as long as one at most listens.
    ///
    /// # Errors
    /// If it listens already; to take it back, if it is bound already.
    pub fn set_reuse_addr(&self, reuse: bool) -> Result<(), Error> {
        self.change(|state, key| {
            let entry = state.entry(key)?;
            let too_late = if reuse { entry.phase == Phase::Listening } else { entry.phase != Phase::Idle };
            if too_late {
                return Err(Error::State("it is bound already"));
            }
            entry.reuse = reuse;
            Ok(())
        })
    }

    /// The wildcard of IPv6 does not take IPv4 in.
    ///
    /// # Errors
    /// If it listens already, or has a destination.
    pub fn set_v6_only(&self, only: bool) -> Result<(), Error> {
        self.change(|state, key| {
            let entry = state.entry(key)?;
            if !matches!(entry.phase, Phase::Idle | Phase::Bound) {
                return Err(Error::State("it is more than bound already"));
            }
            entry.v6_only = only;
            Ok(())
        })
    }

    /// How long the queue pair waits for an acknowledge: 4.096 µs · 2^code, 5 bits.
    ///
    /// # Errors
    /// If the code has more bits, or the queue pair waits for no acknowledges.
    pub fn set_ack_timeout(&self, code: u8) -> Result<(), Error> {
        self.change(|state, key| {
            if code > 31 {
                return Err(Error::Invalid("an acknowledge timeout has five bits"));
            }
            let entry = state.entry(key)?;
            if !entry.qp_type.is_reliable() {
                return Err(Error::Invalid("there are acknowledges on reliable connections only"));
            }
            entry.ack_timeout = Some(code);
            Ok(())
        })
    }

    /// Vendor options for the peer to see, with the next request, accept or datagram lookup's answer.
    /// `rdma_set_local_ece(3)`.
    ///
    /// # Errors
    /// [`Error::State`] after [`destroy`](Id::destroy).
    pub fn set_ece(&self, ece: Ece) -> Result<(), Error> {
        self.change(|state, key| {
            state.entry(key)?.local_ece = ece;
            Ok(())
        })
    }

    /// The peer's vendor options, once it has said any: all zero are none. `rdma_get_remote_ece(3)`.
    pub fn remote_ece(&self) -> Ece {
        self.look(|entry| entry.remote_ece).unwrap_or_default()
    }

    /// Payload per packet at most, if less than what the interface allows: what a request asks for.
    ///
    /// # Errors
    /// If it is not bound to a device.
    pub fn set_mtu(&self, mtu: Mtu) -> Result<(), Error> {
        self.change(|state, key| {
            let binding = state.entry(key)?.binding.as_mut().ok_or(Error::State("it is bound to no device"))?;
            binding.mtu = binding.mtu.min(mtu);
            Ok(())
        })
    }
}

//! The shared-memory path of a queue pair: frames in and out, and the lane that carries them.

use super::{Qp, QpPath};
use crate::drop::DropReason;
use crate::host::Host;
use crate::shm::frame::FrameHead;
use crate::shm::path::ReceivedBody;
use crate::state;
use crate::wire_qp::WireQp;

impl Qp {
    /// Takes a frame of the peer on this host. After [`DropReason::QpState`] the caller answers a request frame with
    /// [`FrameHead::not_ready`]; any other drop is only counted.
    #[inline]
    pub fn handle_frame<H: Host>(
        &mut self,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        let QpPath::Shm(shm) = &mut self.path else { return Err(DropReason::QpState) };
        if head.src != self.core.attr.dest_qpn {
            return Err(DropReason::WrongSource);
        }
        if !state::receives(self.core.state()) {
            // The NAK that waits goes first: it tells the peer why.
            return Err(if shm.has_refused() { DropReason::OutOfSequence } else { DropReason::QpState });
        }
        let outcome = shm.handle_frame(&mut self.core, head, body, host);
        self.settle(host);
        outcome
    }

    /// Shm: executes requests and sends frames until the queue is empty or has to wait. Sends a waiting ACK too,
    /// if `with_acks`.
    #[inline]
    pub fn progress(&mut self, with_acks: bool, host: &mut impl Host) {
        if let QpPath::Shm(shm) = &mut self.path {
            shm.progress(&mut self.core, with_acks, host);
            self.settle(host);
            self.send_refusal(host);
        }
    }

    /// Tells the peer of a failure that `settle` has just carried out.
    #[inline]
    fn send_refusal(&mut self, host: &mut impl Host) {
        if let QpPath::Shm(shm) = &mut self.path
            && shm.has_refusal()
        {
            shm.progress(&mut self.core, false, host);
        }
    }

    /// Shm: acts as if a frame had been lost (fault injection). The caller answers it with
    /// [`FrameHead::not_ready`].
    #[cold]
    pub fn lose_frame(&mut self, head: &FrameHead) {
        if let QpPath::Shm(shm) = &mut self.path {
            shm.lose_frame(head);
        }
    }

    /// Shm: whether it waits for room in the lane to the peer.
    #[inline]
    pub fn waits_for_lane(&self) -> bool {
        matches!(&self.path, QpPath::Shm(shm) if shm.waits_for_lane())
    }

    /// The lane may have room again: shm, and UD that was [held](Qp::hold_datagrams), try to send.
    pub fn resume_sending(&mut self) {
        match &mut self.path {
            QpPath::Shm(shm) => shm.resume_sending(),
            QpPath::Wire(WireQp::Ud(ud)) => ud.resume(),
            QpPath::Wire(_) => {}
        }
    }

    /// Shm: the peer's process is gone. Requests that wait for it fail.
    pub fn peer_died(&mut self, host: &mut impl Host) {
        if let QpPath::Shm(shm) = &mut self.path {
            shm.peer_died(&mut self.core, host);
            self.settle(host);
        }
    }
}

//! What our own processor does on the peer's memory.

use super::frames::mark;
use super::*;
use crate::shm::transcript::Outcome;

impl Requester {
    /// A WRITE by our own processor, at the head of the queue.
    #[inline]
    pub(super) fn write(&mut self, core: &mut Core, remote: RemoteAddr, host: &mut impl Host) -> Result<(), Stop> {
        self.write_now(core, remote, host)?;
        self.note_head(core, Outcome::Done, host);
        self.complete(core, host);
        Ok(())
    }

    #[inline]
    pub(super) fn write_now<H: Host>(&mut self, core: &mut Core, remote: RemoteAddr, host: &H) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        if self.sent_bytes > 0 {
            return Err(Stop::Elsewhere);
        }
        path(host)?.write(host.memory(), core.pd, &wqe.payload, remote)?;
        core.counters.tx_packets += 1;
        core.counters.tx_bytes += u64::from(wqe.len_bytes);
        Ok(())
    }

    /// A WRITE by our own processor, and then a notice that takes a receive WQE.
    pub(super) fn write_imm(
        &mut self,
        core: &mut Core,
        ack: u32,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), Stop> {
        if !core.sq.head().is_some_and(|wqe| wqe.executed) {
            self.write_now(core, remote, host)?;
            if let Some(wqe) = core.sq.get_mut(0) {
                wqe.executed = true;
            }
            self.begun = self.begun.max(1);
        }
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let mut head = self.head(core, Kind::Notice, ack);
        head.len_bytes = wqe.len_bytes;
        mark(&mut head, wqe);
        head.flags |= Flags::FIRST | Flags::LAST;
        path(host)?.send(host.memory(), &head, &[], Body::Bytes(&[]))?;
        self.note(core, wqe, Outcome::Told(head.request), host);
        self.note_whole();
        Ok(())
    }

    /// A READ by our own processor, or else by the peer.
    #[inline]
    pub(super) fn read(
        &mut self,
        core: &mut Core,
        ack: u32,
        remote: RemoteAddr,
        host: &mut impl Host,
    ) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let Payload::Sgl(sgl) = &wqe.payload else { return Err(Stop::Local(MemoryError::NoPermission)) };
        match path(host)?.read(host.memory(), core.pd, sgl, wqe.len_bytes, remote) {
            Ok(()) => {
                self.note(core, wqe, Outcome::Done, host);
                self.complete(core, host);
                Ok(())
            }
            Err(Stop::Elsewhere) => self.ask_for_read(core, ack, remote, host),
            Err(stop) => Err(stop),
        }
    }

    /// An atomic and the like by our own processor, or else by the peer.
    #[inline]
    pub(super) fn errand(&mut self, core: &mut Core, ack: u32, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        let value = atomic_write_value(core.pd, wqe, host)?;
        let Some((errand, rkey)) = Errand::of(&wqe.op, value) else { return Err(Stop::NotReady) };
        match path(host)?.errand(host.memory(), &errand, rkey) {
            Ok(before) => {
                self.note(core, wqe, Outcome::Value(before), host);
                self.complete_with(core, before, host)
            }
            Err(Stop::Elsewhere) => {
                let mut head = self.head(core, Kind::Errand, ack);
                head.value = rkey.0;
                head.flags = Flags::FIRST | Flags::LAST;
                let bytes: [u8; ERRAND_BYTES] = errand.encode();
                path(host)?.send(host.memory(), &head, &bytes, Body::Bytes(&[]))?;
                self.asked = Asked::Result;
                self.note_whole();
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    /// Completes the head, with the result of an atomic.
    pub(super) fn complete_with(&mut self, core: &mut Core, before: u64, host: &mut impl Host) -> Result<(), Stop> {
        let wqe = core.sq.head().ok_or(Stop::Full)?;
        if let (SendOp::Atomic(..), Payload::Sgl(sgl)) = (&wqe.op, &wqe.payload) {
            host.memory().scatter(core.pd, sgl, 0, &before.to_ne_bytes()).map_err(Stop::Local)?;
        }
        self.complete(core, host);
        Ok(())
    }
}

/// The eight bytes of an ATOMIC WRITE.
pub(super) fn atomic_write_value<H: Host>(pd: PdId, wqe: &SendWqe, host: &H) -> Result<[u8; 8], Stop> {
    let mut value = [0; 8];
    if matches!(wqe.op, SendOp::AtomicWrite(_)) {
        match &wqe.payload {
            Payload::Inline(bytes) if bytes.len() == 8 => value.copy_from_slice(bytes),
            Payload::Sgl(sgl) => host.memory().gather(pd, sgl, 0, &mut value).map_err(Stop::Local)?,
            Payload::Inline(_) => return Err(Stop::Local(MemoryError::OutOfBounds)),
        }
    }
    Ok(value)
}

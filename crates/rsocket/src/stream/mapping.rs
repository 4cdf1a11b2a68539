//! Memory of the application's that the peer writes to directly.

use std::io::IoSlice;

use device::Mr;

use super::StreamSocket;
use super::core::StreamState;
use super::endpoint::inline;
use super::mapped::Mapped;
use super::sending::SendSource;
use super::work::Work;
use crate::errno::{Errno, Result};
use crate::protocol::buffer::{BufferMapping, PeerBuffer};
use crate::protocol::message::StreamMessage;
use crate::wait::CallPatience;

const FIRST_PIECE: u32 = 2048;
const LONGEST_PIECE: u32 = 65536;

impl StreamSocket {
    /// The protection domain to register memory in, once there is a connection or one is made.
    pub(crate) fn pd(&self) -> Result<device::Pd> {
        self.lock().endpoint.as_ref().map(|endpoint| endpoint.pd().clone()).ok_or(Errno::INVAL)
    }

    /// Maps registered memory at an offset of the peer's choosing; without one, at its address. The
    /// peer hears of it before the next data.
    pub(crate) fn map(&self, mr: Mr, offset: Option<u64>, writable: bool) -> Result<u64> {
        let most = self.lock().flow.as_ref().map_or(0, |flow| flow.peer.mappings.len);
        let mut mapped = self.mapped.lock();
        let entry = match writable {
            false => None,
            true => {
                let free = (0..most).find(|entry| mapped.iter().all(|other| other.entry != Some(*entry)));
                Some(free.ok_or(Errno(libc::ENOMEM))?)
            }
        };
        let offset = offset.unwrap_or_else(|| mr.addr());
        mapped.push(Mapped { mr, offset, entry, told: !writable });
        Ok(offset)
    }

    /// Ends a mapping. When this returns the peer cannot write there.
    pub(crate) fn unmap(&self, addr: u64, len: u64) -> Result<()> {
        let mut mapped = self.mapped.lock();
        let at = mapped.iter().position(|mapped| mapped.mr.addr() == addr && mapped.mr.len_bytes() == len);
        let gone = mapped.swap_remove(at.ok_or(Errno::INVAL)?);
        drop(mapped);
        drop(gone);
        Ok(())
    }

    /// Tells the peer of new mappings. The caller has the turn to send.
    pub(super) fn announce(&self, patience: CallPatience) -> Result<()> {
        while let Some((entry, mapping)) = self.untold() {
            let mut core = self.writable(patience, StreamState::can_send_message)?;
            core.announce(entry, &mapping)?;
            drop(core);
            self.mapped.lock().iter_mut().filter(|mapped| mapped.entry == Some(entry)).for_each(|m| m.told = true);
        }
        Ok(())
    }

    fn untold(&self) -> Option<(u32, BufferMapping)> {
        self.mapped.lock().iter().find(|mapped| !mapped.told).and_then(|mapped| {
            let len = u32::try_from(mapped.mr.len_bytes()).unwrap_or(u32::MAX);
            let buffer = PeerBuffer { addr: mapped.mr.addr(), key: mapped.mr.rkey().0, len };
            Some((mapped.entry?, BufferMapping { offset: mapped.offset, buffer }))
        })
    }

    /// Writes into the memory that the peer has mapped at `offset`. Writes fewer bytes if its mappings,
    /// the patience or the connection end.
    pub(crate) fn write_mapped(&self, bytes: &[u8], offset: u64, flags: i32) -> Result<usize> {
        let patience = self.patience_to_send(flags);
        self.ready(patience)?;
        let _turn = self.sending.lock();
        let parts = [IoSlice::new(bytes)];
        let mut source = SendSource::new(&parts);
        let written = self.announce(patience).and_then(|()| self.write_pieces(&mut source, offset, patience));
        match written {
            Err(error) if source.left == bytes.len() => Err(error),
            _ => Ok(bytes.len() - source.left),
        }
    }

    fn write_pieces(&self, source: &mut SendSource<'_, '_>, mut offset: u64, patience: CallPatience) -> Result<()> {
        let mut longest = FIRST_PIECE;
        while source.left > 0 {
            let mut core = self.writable(patience, StreamState::can_send_message)?;
            let Some(to) = core.endpoint.as_ref().and_then(|endpoint| endpoint.mapped(offset)) else { break };
            let room = core.reserve_mapped(source.left, longest, to).ok_or(Errno::INVAL)?;
            drop(core);
            longest = LONGEST_PIECE.min(2 * longest);
            offset = offset.wrapping_add(room.len().into());
            self.send_piece(source, &room, None)?;
        }
        Ok(())
    }
}

impl StreamState {
    fn can_send_message(&mut self) -> bool {
        self.writable && self.flow.as_mut().is_some_and(super::flow::StreamFlow::can_send)
    }

    /// Writes an entry of the peer's list of mappings.
    fn announce(&mut self, entry: u32, mapping: &BufferMapping) -> Result<()> {
        let (Some(flow), Some(endpoint)) = (&mut self.flow, &self.endpoint) else { return Err(Errno::INVAL) };
        let list = flow.peer.mappings;
        let into = u64::from(entry) * BufferMapping::BYTES as u64;
        let to = PeerBuffer { addr: list.addr.wrapping_add(into), ..list };
        flow.outgoing.send();
        endpoint.write(Work::Data(0), to, Some(StreamMessage::Iomap(entry)), inline(&mapping.encode(flow.peer.order)))
    }
}

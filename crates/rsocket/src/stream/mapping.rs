//! Memory of the application's that the peer writes to directly.

use device::Mr;
use parking_lot::Mutex;

use super::core::StreamState;
use super::endpoint::inline;
use super::shared::SharedStream;
use super::work::StreamWork;
use crate::errno::{Errno, Result};
use crate::protocol::buffer::{BufferMapping, PeerBuffer};
use crate::protocol::message::StreamMessage;
use crate::wait::CallPatience;

/// A mapped buffer.
#[derive(Debug)]
struct MappedBuffer {
    mr: Mr,
    offset: u64,
    /// The entry of the peer's list that it has; none if the peer is not to write there.
    entry: Option<u32>,
    /// The peer knows.
    told: bool,
}

/// The mapped buffers of one stream.
#[derive(Debug, Default)]
pub(super) struct MappedBuffers(Mutex<Vec<MappedBuffer>>);

impl MappedBuffers {
    /// Maps registered memory at an offset of the peer's choosing; without one, at its address. The
    /// peer hears of it before the next data. Its list has `entries` for writable memory.
    pub(super) fn map(&self, mr: Mr, offset: Option<u64>, writable: bool, entries: u32) -> Result<u64> {
        let mut mapped = self.0.lock();
        let entry = match writable {
            false => None,
            true => {
                let free = (0..entries).find(|entry| mapped.iter().all(|other| other.entry != Some(*entry)));
                Some(free.ok_or(Errno(libc::ENOMEM))?)
            }
        };
        let offset = offset.unwrap_or_else(|| mr.addr());
        mapped.push(MappedBuffer { mr, offset, entry, told: !writable });
        Ok(offset)
    }

    /// Ends a mapping. When this returns the peer cannot write there.
    pub(super) fn unmap(&self, addr: u64, len: u64) -> Result<()> {
        let mut mapped = self.0.lock();
        let at = mapped.iter().position(|mapped| mapped.mr.addr() == addr && mapped.mr.len_bytes() == len);
        let gone = mapped.swap_remove(at.ok_or(Errno::INVAL)?);
        drop(mapped);
        drop(gone);
        Ok(())
    }

    /// Tells the peer of new mappings. The caller has the turn to send.
    pub(super) fn announce(&self, stream: &SharedStream, patience: CallPatience) -> Result<()> {
        while let Some((entry, mapping)) = self.untold() {
            let mut state = stream.writable(patience, StreamState::can_send_message)?;
            announce_entry(&mut state, entry, &mapping)?;
            drop(state);
            self.0.lock().iter_mut().filter(|mapped| mapped.entry == Some(entry)).for_each(|m| m.told = true);
        }
        Ok(())
    }

    /// Drops all mappings.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    fn untold(&self) -> Option<(u32, BufferMapping)> {
        self.0.lock().iter().find(|mapped| !mapped.told).and_then(|mapped| {
            let len = u32::try_from(mapped.mr.len_bytes()).unwrap_or(u32::MAX);
            let buffer = PeerBuffer { addr: mapped.mr.addr(), key: mapped.mr.rkey().0, len };
            Some((mapped.entry?, BufferMapping { offset: mapped.offset, buffer }))
        })
    }
}

/// Writes an entry of the peer's list of mappings.
fn announce_entry(state: &mut StreamState, entry: u32, mapping: &BufferMapping) -> Result<()> {
    let (Some(flow), Some(endpoint)) = (&mut state.flow, &state.endpoint) else { return Err(Errno::INVAL) };
    let list = flow.peer.mappings;
    let into = u64::from(entry) * BufferMapping::BYTES as u64;
    let to = PeerBuffer { addr: list.addr.wrapping_add(into), ..list };
    flow.outgoing.send();
    endpoint.write(StreamWork::Data(0), to, Some(StreamMessage::Iomap(entry)), inline(&mapping.encode(flow.peer.order)))
}

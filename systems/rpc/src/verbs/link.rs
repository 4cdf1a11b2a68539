//! A session's link over queue pairs.

use std::collections::VecDeque;
use std::sync::Arc;

use longarm::service::Uc;
use longarm::{
    AddressHandle, Buffer, Completion, Connection, Lend, MemoryRegion, Qpn, QueuePair, RemoteKey, Ticket, UdQueuePair,
    Work,
};

use crate::link::{LinkBusy, SessionLink};
use crate::published::PublishedSlice;
use crate::tuning::VerbsTuning;
use crate::verbs::area::VerbsArea;
use crate::verbs::stores::{BLOCK_BYTES, Block, ExposedPiece, ExposedPool, ReadBytes, Stores};

/// Messages up to this length are written without a request, where that is possible.
const NOW_BYTES: usize = 512;
/// Published bytes up to this length are copied: a READ of them would take longer.
const COPIED_BYTES: usize = 4096;

/// The queue pairs and the memory of one session. Each queue pair ends before the blocks that it sends are free.
pub(crate) struct VerbsLink {
    qp: Connection,
    rc: PostedSends,
    /// The unreliable connection that carries WRITEs, where the way has one.
    uc: Option<(QueuePair<Uc>, PostedSends)>,
    /// The endpoint that sends datagrams, and the peer's.
    datagrams: Option<(Arc<UdQueuePair>, AddressHandle)>,
    stores: Arc<Stores>,
    exposed: Arc<ExposedPool>,
    area: VerbsArea,
    read_area: Option<VerbsArea>,
    peer: PeerKeys,
    /// READs that the device has, and their tags.
    reads: Vec<(Ticket, u64)>,
    tuning: VerbsTuning,
    more: bool,
}

/// The peer's memory for this session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerKeys {
    pub(crate) written: RemoteKey,
    pub(crate) read: Option<RemoteKey>,
}

/// The parts of a link that the handshake has made.
pub(crate) struct LinkParts {
    pub(crate) qp: Connection,
    pub(crate) uc: Option<QueuePair<Uc>>,
    pub(crate) datagrams: Option<(Arc<UdQueuePair>, AddressHandle)>,
    pub(crate) area: VerbsArea,
    pub(crate) read_area: Option<VerbsArea>,
    pub(crate) peer: PeerKeys,
}

/// The requests of one send queue that have no completion yet, in order: the blocks that they hold.
struct PostedSends {
    blocks: HeldBlocks<Ticket>,
    unsignaled: u32,
    stores: Arc<Stores>,
}

/// The queue pair must be gone by then: its owner declares it before these.
impl Drop for PostedSends {
    fn drop(&mut self) {
        self.blocks.0.drain(..).filter_map(|(_, block)| block).for_each(|block| self.stores.unstage(block));
    }
}

/// The blocks that requests hold, by their tickets. They end nearly in their order: unsignaled ones with the next signaled one.
struct HeldBlocks<K, B = Block>(VecDeque<(K, Option<B>)>);

impl<K: PartialEq, B> HeldBlocks<K, B> {
    fn hold(&mut self, request: K, block: Option<B>) {
        self.0.push_back((request, block));
    }

    /// The block of a request that has ended. Messages of the handshake have none: they left before the session began.
    fn release(&mut self, request: &K) -> Option<B> {
        let at = self.0.iter().position(|(held, _)| held == request)?;
        self.0.remove(at).and_then(|(_, block)| block)
    }
}

impl PostedSends {
    fn new(stores: &Arc<Stores>) -> PostedSends {
        PostedSends { blocks: HeldBlocks(VecDeque::new()), unsignaled: 0, stores: Arc::clone(stores) }
    }

    /// Notes a request; returns whether it is to have a completion of its own.
    fn signals(&mut self, signal_every: u32) -> bool {
        self.unsignaled += 1;
        let signals = self.unsignaled >= signal_every;
        if signals {
            self.unsignaled = 0;
        }
        signals
    }
}

impl VerbsLink {
    pub(crate) fn new(parts: LinkParts, stores: &Arc<Stores>, tuning: VerbsTuning) -> VerbsLink {
        VerbsLink {
            qp: parts.qp,
            rc: PostedSends::new(stores),
            uc: parts.uc.map(|uc| (uc, PostedSends::new(stores))),
            datagrams: parts.datagrams,
            stores: Arc::clone(stores),
            exposed: ExposedPool::new(stores.domain()),
            area: parts.area,
            read_area: parts.read_area,
            peer: parts.peer,
            reads: Vec::new(),
            tuning,
            more: false,
        }
    }

    /// False if the connection has ended.
    pub(crate) fn is_connected(&self) -> bool {
        self.qp.is_connected()
    }

    /// The reason why the connection has ended.
    pub(crate) fn end_reason(&self) -> String {
        let failure = self.qp.failure().map(|reason| reason.to_string());
        failure.unwrap_or_else(|| format!("{} has ended the connection", self.qp.peer_addr()))
    }

    /// Ends the connection. The peer learns it.
    pub(crate) fn disconnect(&self) {
        self.qp.disconnect();
    }

    /// The numbers of its queue pairs, whose completions come to [`on_completion`](VerbsLink::on_completion).
    pub(crate) fn qpns(&self) -> impl Iterator<Item = Qpn> {
        [Some(self.qp.qpn()), self.uc.as_ref().map(|(qp, _)| qp.qpn())].into_iter().flatten()
    }

    /// Takes back what a completed send request held; a READ's tag and bytes for the session.
    pub(crate) fn on_completion(&mut self, completion: Completion) -> Option<(u64, Option<ReadBytes>)> {
        let posted = match &mut self.uc {
            Some((uc, posted)) if uc.qpn() == completion.qpn() => posted,
            _ => &mut self.rc,
        };
        let ticket = completion.ticket();
        if let Some(block) = posted.blocks.release(&ticket) {
            self.stores.unstage(block);
        }
        let is_ok = completion.is_ok();
        let Some(at) = self.reads.iter().position(|(read, _)| *read == ticket) else {
            completion.into_buffers().into_iter().for_each(|buffer| self.stores.put_buffer(buffer));
            return None;
        };
        let (_, tag) = self.reads.swap_remove(at);
        let buffer = completion.into_buffer().filter(|_| is_ok);
        Some((tag, buffer.map(|buffer| ReadBytes::new(buffer, &self.stores))))
    }

    /// The published bytes for the peer to READ, if they are long enough for that.
    pub(crate) fn publish(&self, slice: &PublishedSlice) -> Option<(ExposedBytes, RemoteKey)> {
        let (region, key) = (slice.len() > COPIED_BYTES).then(|| slice.key_in(self.stores.domain())).flatten()?;
        Some((ExposedBytes::Published(region), key))
    }

    /// From now on requests may wait for those that follow, until [`Port::ring`](crate::verbs::Port::ring); or no more.
    pub(crate) fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    fn hints(&self) -> PostHints {
        PostHints { signal_every: self.tuning.signal_every, more: self.more && self.tuning.batch_doorbells }
    }

    /// Writes while we wait, if the peer is on this host and has nothing under way; or inline. `None` if neither is
    /// possible.
    fn write_short(&mut self, parts: &[&[u8]], len_bytes: usize, key: &RemoteKey) -> Option<Result<(), LinkBusy>> {
        let (mut bytes, mut at) = ([0; NOW_BYTES], 0);
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        if self.qp.write_now(&bytes[..len_bytes], key) {
            return Some(Ok(()));
        }
        if len_bytes > self.tuning.inline_bytes as usize {
            return None;
        }
        let hints = self.hints();
        let posted = post(self.qp.write_inline(&bytes[..len_bytes], key), &mut self.rc, None, hints);
        Some(posted.map(|_| ()).map_err(|_| LinkBusy))
    }

    fn write_parts(&mut self, at: u64, parts: &[&[u8]], imm: Option<u32>) -> Result<(), LinkBusy> {
        let len_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let key = self.peer.written.at(at, len_bytes as u64).map_err(|_| LinkBusy)?;
        if imm.is_none()
            && self.uc.is_none()
            && len_bytes <= NOW_BYTES
            && let Some(written) = self.write_short(parts, len_bytes, &key)
        {
            return written;
        }
        if len_bytes as u64 <= BLOCK_BYTES {
            let (block, slice) = self.stores.stage(parts).ok_or(LinkBusy)?;
            return self.post_write(slice, &key, imm, Some(block));
        }
        let buffer = self.stores.filled(parts).ok_or(LinkBusy)?;
        self.post_write(buffer, &key, imm, None)
    }

    fn post_write<B: Lend>(
        &mut self,
        bytes: B,
        key: &RemoteKey,
        imm: Option<u32>,
        block: Option<Block>,
    ) -> Result<(), LinkBusy> {
        let (stores, hints) = (&self.stores, self.hints());
        let posted = match (&mut self.uc, imm) {
            (Some((uc, posted)), _) => {
                let work = uc.write(bytes, key);
                post(work, posted, block, hints)
            }
            (None, None) => post(self.qp.write(bytes, key), &mut self.rc, block, hints),
            (None, Some(imm)) => post(self.qp.write_with_imm(bytes, key, imm), &mut self.rc, block, hints),
        };
        posted.map(|_| ()).map_err(|lost| {
            block.into_iter().for_each(|block| stores.unstage(block));
            lost.into_iter().for_each(|buffer| stores.put_buffer(buffer));
            LinkBusy
        })
    }
}

/// Memory that the peer may READ.
#[expect(dead_code, reason = "held until the peer has read it")]
pub(crate) enum ExposedBytes {
    Copied(ExposedPiece),
    Published(Arc<MemoryRegion>),
}

/// The manner of posting a request.
#[derive(Clone, Copy)]
struct PostHints {
    signal_every: u32,
    more: bool,
}

/// Posts a request; gives its buffers back if the device does not take it.
fn post<T: longarm::Outcome>(
    work: Work<'_, T>,
    posted: &mut PostedSends,
    block: Option<Block>,
    hints: PostHints,
) -> Result<Ticket, Vec<Buffer>> {
    let work = if hints.more { work.more() } else { work };
    let result = if posted.signals(hints.signal_every) { work.post() } else { work.unsignaled().post() };
    match result {
        Ok(ticket) => {
            posted.stores.note_posted(hints.more);
            posted.blocks.hold(ticket, block);
            Ok(ticket)
        }
        Err(failure) => Err(failure.into_buffer().into_iter().collect()),
    }
}

impl SessionLink for VerbsLink {
    type Bytes = ReadBytes;
    type Exposed = ExposedBytes;
    type Area = VerbsArea;

    fn write(&mut self, at: u64, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        self.write_parts(at, parts, None)
    }

    fn write_with_imm(&mut self, at: u64, parts: &[&[u8]], imm: u32) -> Result<(), LinkBusy> {
        self.write_parts(at, parts, Some(imm))
    }

    fn read(&mut self, from: &RemoteKey, tag: u64) -> Result<(), LinkBusy> {
        let buffer = self.stores.buffer(from.len_bytes() as usize).ok_or(LinkBusy)?;
        match self.qp.read(buffer, from).post() {
            Ok(ticket) => {
                self.rc.blocks.hold(ticket, None);
                self.rc.unsignaled = 0;
                self.reads.push((ticket, tag));
                Ok(())
            }
            Err(failure) => {
                failure.into_buffer().into_iter().for_each(|buffer| self.stores.put_buffer(buffer));
                Err(LinkBusy)
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), LinkBusy> {
        let buffer = self.stores.filled(&[message]).ok_or(LinkBusy)?;
        let hints = self.hints();
        post(self.qp.send(buffer), &mut self.rc, None, hints).map(|_| ()).map_err(|lost| {
            lost.into_iter().for_each(|buffer| self.stores.put_buffer(buffer));
            LinkBusy
        })
    }

    fn datagram(&mut self, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        let (ud, to) = self.datagrams.as_ref().ok_or(LinkBusy)?;
        if self.stores.is_crowded() {
            return Err(LinkBusy);
        }
        let buffer = self.stores.filled(parts).ok_or(LinkBusy)?;
        let work = ud.send_to(buffer, to);
        let work = if self.hints().more { work.more() } else { work };
        work.unsignaled().post().map_err(|failure| {
            failure.into_buffer().into_iter().for_each(|buffer| self.stores.put_buffer(buffer));
            LinkBusy
        })?;
        self.stores.note_posted(self.hints().more);
        self.stores.note_datagram();
        Ok(())
    }

    fn expose(&mut self, parts: &[&[u8]]) -> Result<(ExposedBytes, RemoteKey), LinkBusy> {
        let (piece, key) = self.exposed.expose(parts).ok_or(LinkBusy)?;
        Ok((ExposedBytes::Copied(piece), key))
    }

    fn area(&self) -> &VerbsArea {
        &self.area
    }

    fn read_area(&self) -> Option<&VerbsArea> {
        self.read_area.as_ref()
    }

    fn peer_read_key(&self, at: u64, len_bytes: u64) -> Option<RemoteKey> {
        self.peer.read?.at(at, len_bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::HeldBlocks;

    #[test]
    fn a_message_of_the_handshake_frees_no_block_of_a_request() {
        let mut held = HeldBlocks([(7, Some('a')), (8, None), (9, Some('b'))].into());
        assert_eq!(held.release(&6), None, "it was sent before the session began");
        assert_eq!([held.release(&9), held.release(&7), held.release(&8)], [Some('b'), Some('a'), None]);
        assert_eq!(held.release(&9), None);
    }
}

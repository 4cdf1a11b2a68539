//! The queue pair of a connection, its completion queue and its memory.

use std::mem::size_of;
use std::task::Waker;
use std::time::Duration;

use connect::Id;
use device::{
    Access, CompChannel, Completion, Cq, Mr, Payload, Pd, Qp, QpCaps, QpSpec, QpState, QpType, RKey, RecvWr,
    RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl, Span, WriteAtOnce,
};
use smallvec::SmallVec;

use super::work::StreamWork;
use crate::devices::SharedDevices;
use crate::errno::{Errno, Result};
use crate::protocol::buffer::{BufferMapping, ByteOrder, PeerBuffer};
use crate::protocol::greeting::StreamGreeting;
use crate::protocol::message::StreamMessage;
use crate::protocol::outgoing::ENTRIES;
use crate::protocol::ring::RingPlace;
use crate::settings::Settings;

/// The largest entry of a list, which is always sent inline.
const MIN_INLINE: usize = 64;
/// The offset of the list of mappings in the memory that the peer writes: after the list of buffers.
const MAPPINGS: usize = ENTRIES * PeerBuffer::BYTES;
/// The receive buffer begins at a multiple of this.
const ALIGNMENT: usize = 64;

/// One end of a connection, as the device has it.
///
/// ```text
///  the peer writes here: list of its buffers · list of its mappings · receive buffer
///  it does not here:     send buffer
/// ```
#[derive(Debug)]
pub(crate) struct StreamEndpoint {
    qp: Qp,
    cq: Cq,
    /// Tells threads of completions; tasks have a waker.
    channel: Option<CompChannel>,
    pd: Pd,
    send: Mr,
    recv: Mr,
    buffer_at: usize,
    settings: Settings,
    /// Last: it is closed when all else has gone.
    _device: SharedDevices,
}

impl StreamEndpoint {
    pub(super) fn new(shared: &SharedDevices, settings: &Settings, with_channel: bool) -> Result<StreamEndpoint> {
        let (device, pd) = (&shared.device, &shared.pd);
        let settings = settings.for_stream();
        let channel = if with_channel { Some(device.create_channel()?) } else { None };
        let capacity = u32::from(settings.send_queue) + u32::from(settings.recv_queue);
        let cq = device.create_cq(capacity, channel.as_ref(), 0)?;
        let caps = QpCaps {
            max_send_wr: settings.send_queue.into(),
            max_recv_wr: settings.recv_queue.into(),
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_bytes: MIN_INLINE.max(settings.inline.into()) as u32,
        };
        let (qp_type, send_cq, recv_cq) = (QpType::Rc, &cq, &cq);
        let qp = device.create_qp(&QpSpec { qp_type, pd, send_cq, recv_cq, srq: None, caps, signal_all: true })?;
        let lists = MAPPINGS + usize::from(settings.mappings) * BufferMapping::BYTES;
        let buffer_at = lists.next_multiple_of(ALIGNMENT);
        let send = pd.allocate(settings.send_buffer as usize, Access::LOCAL_WRITE)?;
        let recv =
            pd.allocate(buffer_at + settings.recv_buffer as usize, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        Ok(StreamEndpoint { qp, cq, channel, pd: pd.clone(), send, recv, buffer_at, settings, _device: shared.clone() })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn channel(&self) -> Option<&CompChannel> {
        self.channel.as_ref()
    }

    pub(super) fn pd(&self) -> &Pd {
        &self.pd
    }

    pub(super) fn qp(&self) -> &Qp {
        &self.qp
    }

    /// The greeting for the peer.
    pub(super) fn greeting(&self) -> StreamGreeting {
        let key = self.recv.rkey().0;
        StreamGreeting {
            order: ByteOrder::NATIVE,
            credits: self.settings.recv_queue,
            mappings: Some(self.settings.mappings),
            list: PeerBuffer { addr: self.recv.addr(), key, len: ENTRIES as u32 },
            buffer: PeerBuffer { len: self.settings.recv_buffer / 2, ..self.half(0) },
        }
    }

    /// The half of the receive buffer that begins there, as the peer is told.
    pub(super) fn half(&self, offset: u32) -> PeerBuffer {
        let addr = self.recv.addr() + self.buffer_at as u64 + u64::from(offset);
        PeerBuffer { addr, key: self.recv.rkey().0, len: self.settings.recv_buffer / 2 }
    }

    /// Takes the queue pair through `states`, as the id knows how, and fills its receive queue in
    /// the first.
    pub(super) fn bring_up(&self, id: &Id, states: &[QpState]) -> Result<()> {
        for state in states {
            let (attr, mask) = id.qp_attr(*state)?;
            self.qp.modify(&attr, mask)?;
            if *state == QpState::Init {
                self.receive(self.settings.recv_queue.into())?;
            }
        }
        Ok(())
    }

    /// Destroys the queue pair, so that no request is in flight.
    pub(super) fn destroy(&self) {
        if let Err(error) = self.qp.destroy() {
            log::debug!("{error}");
        }
    }

    /// Asks for an event at the next completion.
    pub(super) fn arm(&self) -> Result<()> {
        self.cq.arm(false).map_err(|error| Errno(error.errno()))
    }

    /// Calls `waker` at the next completion after it is armed.
    pub(super) fn set_waker(&self, waker: Waker) {
        self.cq.set_waker(Some(waker));
    }

    /// True if a poll would find completions.
    pub(super) fn has_completions(&self) -> bool {
        !self.cq.is_empty()
    }

    /// Takes the events that are there; whether there was one.
    pub(super) fn take_events(&self) -> bool {
        let mut any = false;
        while self.channel.as_ref().and_then(CompChannel::next).is_some() {
            self.cq.ack_events(1);
            any = true;
        }
        any
    }

    /// Takes completions.
    pub(super) fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize> {
        self.cq.poll_for(out, max, Duration::ZERO).map_err(|error| Errno(error.errno()))
    }

    /// Lets `count` more messages arrive.
    pub(super) fn receive(&self, count: u32) -> Result<()> {
        let wr = || RecvWr { wr_id: StreamWork::Receive.encode(), sgl: Sgl::new() };
        Ok(self.qp.post_recv((0..count).map(|_| wr()))?)
    }

    /// Writes to the peer; with a message it takes notice.
    pub(super) fn write(
        &self,
        work: StreamWork,
        to: PeerBuffer,
        message: Option<StreamMessage>,
        payload: Payload,
    ) -> Result<()> {
        Ok(self.qp.post_send([request(work, to, message, payload)])?)
    }

    /// Writes to the peer, which takes notice by a request of its own.
    pub(super) fn write_and_tell(
        &self,
        work: StreamWork,
        to: PeerBuffer,
        message: StreamMessage,
        payload: Payload,
    ) -> Result<()> {
        let notice = request(StreamWork::Data(0), PeerBuffer::default(), Some(message), Payload::empty());
        Ok(self.qp.post_send([request(work, to, None, payload), notice])?)
    }

    /// Writes bytes of the caller's to the peer at once, if that is possible.
    pub(super) fn write_at_once(&self, bytes: &[u8], to: PeerBuffer) -> WriteAtOnce {
        self.qp.write_at_once(bytes, RemoteAddr { addr: to.addr, rkey: RKey(to.key) })
    }

    /// The next buffer of the peer's, if it has put one into that entry of the list. The entry is
    /// cleared; the peer writes there again only when the buffer is full.
    pub(super) fn take_buffer(&self, entry: usize) -> Option<PeerBuffer> {
        let (addr, rest) = (entry * PeerBuffer::BYTES, entry * PeerBuffer::BYTES + size_of::<u64>());
        let mut bytes = [0; PeerBuffer::BYTES];
        let (first, last) = bytes.split_at_mut(size_of::<u64>());
        // The peer writes the key and the length last, as one word. Once they are there the address is too.
        self.at(rest, last.len())?.read(last);
        if last[4..] == [0; 4] {
            return None;
        }
        self.at(addr, first.len())?.read(first);
        self.at(rest, size_of::<u64>())?.write(&[0; size_of::<u64>()]);
        Some(PeerBuffer::decode(&bytes, ByteOrder::NATIVE))
    }

    /// The buffer that the peer has mapped at an offset, from that offset on.
    pub(super) fn mapped(&self, offset: u64) -> Option<PeerBuffer> {
        (0..usize::from(self.settings.mappings)).find_map(|index| {
            let mut bytes = [0; BufferMapping::BYTES];
            self.at(MAPPINGS + index * BufferMapping::BYTES, BufferMapping::BYTES)?.read(&mut bytes);
            BufferMapping::decode(&bytes, ByteOrder::NATIVE).at_offset(offset)
        })
    }

    /// A part of the receive buffer.
    pub(super) fn received(&self, offset: u32, len: u32) -> Option<Span<'_>> {
        self.at(self.buffer_at + offset as usize, len as usize)
    }

    /// A part of the send buffer.
    pub(super) fn to_send(&self, offset: u32, len: u32) -> Option<Span<'_>> {
        self.send.region()?.span().part(offset as usize, len as usize)
    }

    /// The list for a place in the send buffer.
    pub(super) fn gathered(&self, place: &RingPlace) -> Payload {
        let entry = |(offset, len): &(u32, u32)| Sge {
            addr: self.send.addr() + u64::from(*offset),
            len_bytes: *len,
            lkey: self.send.lkey(),
        };
        Payload::Sgl(place.iter().filter(|(_, len)| *len > 0).map(entry).collect())
    }

    fn at(&self, offset: usize, len: usize) -> Option<Span<'_>> {
        self.recv.region()?.span().part(offset, len)
    }
}

/// A WRITE; with a message the peer takes notice.
fn request(work: StreamWork, to: PeerBuffer, message: Option<StreamMessage>, payload: Payload) -> SendWr {
    let remote = RemoteAddr { addr: to.addr, rkey: RKey(to.key) };
    let op = match message {
        Some(message) => SendOp::WriteImm(remote, message.encode()),
        None => SendOp::Write(remote),
    };
    SendWr { wr_id: work.encode(), op, flags: SendFlags::empty(), payload, datagram: None, xrc_srq: None }
}

/// Bytes that go with the request itself.
pub(super) fn inline(bytes: &[u8]) -> Payload {
    Payload::Inline(SmallVec::from_slice(bytes))
}

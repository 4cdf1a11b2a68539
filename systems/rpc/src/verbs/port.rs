//! A port: what one thread polls for all its sessions. One completion queue, receive buffers for all connections, and an
//! endpoint for datagrams.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use longarm::{
    Buffer, Completion, CompletionChannel, CompletionOp, CompletionQueue, CqError, Device, ProtectionDomain, QpBuilder,
    Qpn, ResourceError, SharedReceiveQueue, UdQueuePair,
};

use crate::tuning::VerbsTuning;
use crate::verbs::stores::{DATAGRAMS_TOGETHER, Stores};

/// The longest message over a connection itself: those of the handshake.
pub(crate) const MESSAGE_BYTES: usize = 2048;
/// Completions that are taken at a time.
const BATCH: usize = 64;
/// Batches that are taken in a row, so that those who wait get their turn.
const BATCHES: u32 = 64;

/// Receive buffers of each kind that a port has from the start. The device fills buffers in turn: more of them than
/// messages that may come at a time only wear out the processor's caches.
const FIRST_RECEIVES: u32 = 128;

/// Messages that may be under way above which there is a buffer for one in so many.
const CROWD: u32 = 1024;
const CROWDED: u32 = 8;

/// Sizes of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortSizes {
    /// Receive buffers that all connections share, at most.
    pub(crate) receives: u32,
    /// Receive buffers for datagrams, at most; zero if there is no endpoint.
    pub(crate) datagrams: u32,
    /// Requests that a send queue holds.
    pub(crate) send_depth: u32,
}

/// The verbs objects of one polling thread.
pub(crate) struct Port {
    device: Device,
    channel: CompletionChannel,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    ud: Option<Arc<UdQueuePair>>,
    stores: Arc<Stores>,
    sizes: PortSizes,
    /// Receive buffers of each kind that it has.
    receives: u32,
    datagrams: u32,
    /// Messages and datagrams that its sessions may send at a time.
    expected: (u32, u32),
    done: VecDeque<Completion>,
    batch: Vec<Completion>,
}

/// Receive buffers that are made together: each time costs a registration and a descriptor.
const TOGETHER: u32 = 64;

/// The receive buffers for so many messages that may be under way.
fn needed(expected: u32) -> u32 {
    (expected.min(CROWD) + expected.saturating_sub(CROWD) / CROWDED).next_multiple_of(TOGETHER)
}

/// Something that has happened on a queue pair.
pub(crate) enum PortEvent {
    /// Immediate data has come.
    Imm(Qpn, u32),
    /// A message has come over a connection.
    Message(Qpn, Vec<u8>),
    /// A datagram has come: to be given back with [`Port::put_datagram`].
    Datagram(Buffer),
    /// A send request is done.
    Sent(Completion),
    /// A send request failed, and so did its queue pair.
    Failed(Qpn, String, Completion),
}

impl Port {
    pub(crate) fn new(domain: &ProtectionDomain, sizes: PortSizes) -> Result<Port, ResourceError> {
        let device = domain.device();
        let channel = device.completion_channel()?;
        let cq = device.completion_queue_on(&channel)?;
        let srq = domain.shared_receive_queue(&cq, sizes.receives)?;
        let mut port = Port {
            device: device.clone(),
            channel,
            cq,
            srq,
            ud: None,
            stores: Arc::new(Stores::new(domain)),
            sizes,
            receives: 0,
            datagrams: 0,
            expected: (FIRST_RECEIVES, FIRST_RECEIVES),
            done: VecDeque::with_capacity(BATCH),
            batch: Vec::with_capacity(BATCH),
        };
        if sizes.datagrams > 0 && device.capabilities().ud {
            port.ud = Some(Arc::new(port.endpoint(domain)?));
        }
        port.add_receives(FIRST_RECEIVES)?;
        port.add_datagrams(FIRST_RECEIVES)?;
        Ok(port)
    }

    /// Makes room for a session that may have so many messages and datagrams under way. Where there are many sessions,
    /// most of them are idle, and get less. If the room is short after all, senders wait, or send again.
    pub(crate) fn expect(&mut self, messages: u32, datagrams: u32) {
        self.expected = (self.expected.0 + messages, self.expected.1 + datagrams);
        let _ = self.add_receives(needed(self.expected.0).saturating_sub(self.receives));
        let _ = self.add_datagrams(needed(self.expected.1).saturating_sub(self.datagrams));
    }

    /// The session that was expected to send so much has ended. Its buffers stay for those that come.
    pub(crate) fn forget(&mut self, messages: u32, datagrams: u32) {
        self.expected = (self.expected.0 - messages, self.expected.1 - datagrams);
    }

    fn add_receives(&mut self, count: u32) -> Result<(), ResourceError> {
        let count = count.min(self.sizes.receives - self.receives);
        for buffer in self.buffers(count, MESSAGE_BYTES)? {
            let _ = self.srq.recv(buffer).post();
            self.receives += 1;
        }
        Ok(())
    }

    fn add_datagrams(&mut self, count: u32) -> Result<(), ResourceError> {
        let Some(ud) = self.ud.clone() else { return Ok(()) };
        let count = count.min(self.sizes.datagrams - self.datagrams);
        for buffer in self.buffers(count, ud.max_message_bytes() as usize)? {
            let _ = ud.recv(buffer).post();
            self.datagrams += 1;
        }
        Ok(())
    }

    fn buffers(&self, count: u32, len_bytes: usize) -> Result<Vec<Buffer>, ResourceError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        Ok(self.stores.domain().allocate(count as usize * len_bytes)?.split_into(len_bytes))
    }

    fn endpoint(&self, domain: &ProtectionDomain) -> Result<UdQueuePair, ResourceError> {
        domain.ud(&self.cq).recv_depth(self.sizes.datagrams).send_depth(2 * DATAGRAMS_TOGETHER).build()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn channel(&self) -> &CompletionChannel {
        &self.channel
    }

    pub(crate) fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    /// The endpoint for datagrams, where the device has them.
    pub(crate) fn ud(&self) -> Option<&Arc<UdQueuePair>> {
        self.ud.as_ref()
    }

    /// The longest datagram; zero without an endpoint for them.
    pub(crate) fn datagram_bytes(&self) -> u32 {
        self.ud.as_ref().map_or(0, |ud| ud.max_message_bytes())
    }

    /// Starts a reliable connection of this port.
    pub(crate) fn rc(&self, tuning: &VerbsTuning) -> QpBuilder {
        let depth = self.sizes.send_depth;
        let builder = self.stores.domain().rc(&self.cq).send_depth(depth).shared_receive_queue(&self.srq);
        builder.inline_bytes(tuning.inline_bytes)
    }

    /// Starts an unreliable connection, for WRITEs only.
    pub(crate) fn uc(&self) -> QpBuilder<longarm::service::Uc> {
        self.stores.domain().uc(&self.cq).send_depth(self.sizes.send_depth).recv_depth(1).inline_bytes(0)
    }

    /// Asks for an event on the [`channel`](Port::channel) at the next completion.
    pub(crate) fn arm(&self) -> Result<(), CqError> {
        self.cq.arm()
    }

    /// True if [`next`](Port::next) has something to look at.
    pub(crate) fn has_event(&mut self) -> Result<bool, CqError> {
        if self.done.is_empty() {
            self.ring(Duration::ZERO)?;
        }
        Ok(!self.done.is_empty())
    }

    /// True if requests wait for [`ring`](Port::ring).
    pub(crate) fn is_unrung(&self) -> bool {
        self.stores.is_unrung()
    }

    /// True if [`ring`](Port::ring) is due before sessions can send datagrams.
    pub(crate) fn is_crowded(&self) -> bool {
        self.stores.is_crowded()
    }

    /// Polls the completion queue, with which requests leave that wait for others. On a busy machine the thread sleeps for
    /// `longest` at most: it looks into its memory between two calls.
    pub(crate) fn ring(&mut self, longest: Duration) -> Result<(), CqError> {
        let mut taken = self.cq.poll_for(&mut self.batch, BATCH, longest)?;
        self.stores.note_polled();
        self.done.extend(self.batch.drain(..));
        // Requests without a completion of their own come with the next one, and hold their places in the send queue till
        // then. All sessions share that of datagrams: a full one lets each of them try in vain.
        for _ in 1..BATCHES {
            if taken < BATCH {
                break;
            }
            taken = self.cq.poll(&mut self.batch, BATCH)?;
            self.done.extend(self.batch.drain(..));
        }
        Ok(())
    }

    /// The next event. Looks into the completion queue only when all events that were there have been taken.
    pub(crate) fn next(&mut self) -> Result<Option<PortEvent>, CqError> {
        self.has_event()?;
        Ok(self.take())
    }

    /// The next event of those that the last look has found.
    pub(crate) fn take(&mut self) -> Option<PortEvent> {
        while let Some(completion) = self.done.pop_front() {
            if let Some(event) = self.sort(completion) {
                return Some(event);
            }
        }
        None
    }

    fn sort(&mut self, completion: Completion) -> Option<PortEvent> {
        let qpn = completion.qpn();
        let is_datagram = self.ud.as_ref().is_some_and(|ud| ud.qpn() == qpn);
        match (completion.op(), completion.error()) {
            (CompletionOp::Recv | CompletionOp::RecvWriteImm, Some(_)) => {
                // Flushed: the connection has ended, or the port does.
                completion.into_buffer().into_iter().for_each(|buffer| self.receive(buffer));
                None
            }
            (CompletionOp::Recv, None) if is_datagram => completion.into_buffer().map(PortEvent::Datagram),
            (CompletionOp::Recv, None) => {
                let buffer = completion.into_buffer()?;
                let message = buffer.to_vec();
                self.receive(buffer);
                Some(PortEvent::Message(qpn, message))
            }
            (CompletionOp::RecvWriteImm, None) => {
                let imm = completion.imm()?;
                completion.into_buffer().into_iter().for_each(|buffer| self.receive(buffer));
                Some(PortEvent::Imm(qpn, imm))
            }
            (_, _) if is_datagram => {
                completion.into_buffers().into_iter().for_each(|buffer| self.stores.put_buffer(buffer));
                None
            }
            (_, None) => Some(PortEvent::Sent(completion)),
            (_, Some(error)) => Some(PortEvent::Failed(qpn, error.to_string(), completion)),
        }
    }

    fn receive(&self, buffer: Buffer) {
        let _ = self.srq.recv(buffer).post();
    }

    /// Posts the buffer of a datagram again.
    pub(crate) fn put_datagram(&self, buffer: Buffer) {
        if let Some(ud) = &self.ud {
            let _ = ud.recv(buffer).post();
        }
    }
}

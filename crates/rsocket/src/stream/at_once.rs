//! Long pieces without the send buffer: to a peer on this host they are copied from the caller's memory to the peer's
//! receive buffer, once. A message without bytes tells the peer, which cannot see the difference.

use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{Payload, WriteAtOnce};

use super::endpoint::StreamEndpoint;
use super::shared::SharedStream;
use super::source::SendSource;
use super::work::StreamWork;
use crate::errno::Result;
use crate::protocol::buffer::PeerBuffer;
use crate::protocol::message::StreamMessage;

/// Shorter pieces go the usual way, which needs one message in place of two.
const LEAST_BYTES: usize = 8192;
/// The time to wait for earlier messages: less than it takes to copy a piece twice.
const PATIENCE: Duration = Duration::from_micros(5);

/// The outcome of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AtOnce {
    /// Some bytes are sent.
    Sent,
    /// It is possible when earlier messages are complete.
    Later,
    /// They must go the usual way.
    No,
}

/// Sends the next bytes, as many as lie together and the peer has room for. The caller has the turn to send.
pub(super) fn send_at_once(stream: &SharedStream, source: &mut SendSource<'_, '_>) -> Result<AtOnce> {
    let bytes = source.next_part();
    if bytes.len() < LEAST_BYTES {
        return Ok(AtOnce::No);
    }
    let Some((endpoint, to)) = target(stream) else { return Ok(AtOnce::No) };
    let bytes = &bytes[..bytes.len().min(to.len as usize)];
    if bytes.len() < LEAST_BYTES {
        return Ok(AtOnce::No);
    }
    match written(stream, &endpoint, bytes, to) {
        WriteAtOnce::Done => {}
        WriteAtOnce::Later => return Ok(AtOnce::Later),
        WriteAtOnce::Refused => return Ok(AtOnce::No),
    }
    let len = bytes.len() as u32;
    {
        let mut state = stream.lock();
        if let Some(flow) = &mut state.flow {
            flow.outgoing.send_data(len);
        }
    }
    source.skip(len as usize);
    let message = Some(StreamMessage::Data(len));
    let posted = endpoint.write(StreamWork::Data(0), PeerBuffer::default(), message, Payload::empty());
    if posted.is_err() {
        stream.lock().check(posted);
        stream.bells.ring();
    }
    posted.map(|()| AtOnce::Sent)
}

/// The buffer of the peer that is being filled, if data can be sent now. Only the caller fills it.
fn target(stream: &SharedStream) -> Option<(Arc<StreamEndpoint>, PeerBuffer)> {
    let mut state = stream.lock();
    if !state.writable || !state.can_send_data() {
        return None;
    }
    let to = state.flow.as_ref()?.outgoing.target();
    Some((state.endpoint.clone()?, to))
}

/// Writes the bytes, if that can be done soon.
fn written(stream: &SharedStream, endpoint: &StreamEndpoint, bytes: &[u8], to: PeerBuffer) -> WriteAtOnce {
    let mut start = None;
    loop {
        match endpoint.write_at_once(bytes, to) {
            WriteAtOnce::Later if start.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {
                stream.pump(&mut stream.lock());
            }
            outcome => return outcome,
        }
    }
}

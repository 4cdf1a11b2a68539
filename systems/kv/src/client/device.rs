//! GETs by calls that the server's device carries out.

use std::collections::VecDeque;
use std::time::Duration;

use longarm::error::{PostError, WorkError};
use longarm::{Buffer, Connection, Failure, InFlight, Reason, RemoteKey, Status};
use remote::{ReadError, ReaderStats};

use crate::client::remote_reader::{EachFound, LookedUp, RemoteReader};
use crate::device_get::{DeviceCall, DeviceReply, LONGEST_KEY, REPLY_BYTES};

/// Calls under way at a time at most: half of the depth of a queue pair.
pub(crate) const MOST_UNDER_WAY: usize = 64;

/// A client of a table whose GETs the server's device carries out.
pub(crate) struct DeviceReader {
    connection: Connection,
    key: RemoteKey,
    timeout: Duration,
    outstanding: usize,
    spare: Vec<Buffer>,
    request: Vec<u8>,
}

/// The reason why there is no such client.
pub(crate) enum NoDeviceGets {
    /// The device here or there carries out no calls, or none for this table.
    Refused(WorkError),
    Failed(ReadError),
}

impl DeviceReader {
    /// Asks the server's device whether it serves the table that `key` leads to.
    pub(crate) fn open(
        connection: Connection,
        key: RemoteKey,
        outstanding: usize,
        timeout: Duration,
    ) -> Result<DeviceReader, NoDeviceGets> {
        let outstanding = outstanding.clamp(1, MOST_UNDER_WAY);
        let mut reader = DeviceReader { connection, key, timeout, outstanding, spare: Vec::new(), request: Vec::new() };
        let asked = reader.start(DeviceCall::AskServed).map_err(NoDeviceGets::Failed)?;
        must_serve(asked.wait(timeout).map_err(Failure::into_error))?;
        Ok(reader)
    }

    fn start(&mut self, call: DeviceCall<'_>) -> Result<InFlight<Buffer>, ReadError> {
        let buffer = match self.spare.pop() {
            Some(buffer) => buffer,
            None => self.connection.protection_domain().allocate(REPLY_BYTES)?,
        };
        call.encode(&mut self.request);
        Ok(self.connection.call(&self.request, buffer, &self.key).start())
    }

    fn finish(&mut self, number: usize, call: InFlight<Buffer>, each: EachFound<'_>) -> Result<(), ReadError> {
        let reply = call.wait(self.timeout).map_err(Failure::into_error)?;
        each(number, looked_up(&reply));
        self.spare.push(reply);
        Ok(())
    }
}

impl RemoteReader for DeviceReader {
    fn look_up(&mut self, keys: &[&[u8]], each: EachFound<'_>) -> Result<(), ReadError> {
        let mut under_way = VecDeque::with_capacity(self.outstanding.min(keys.len()));
        for (number, key) in keys.iter().enumerate() {
            if key.len() > LONGEST_KEY {
                each(number, LookedUp::AskServer);
                continue;
            }
            if under_way.len() == self.outstanding
                && let Some((earlier, call)) = under_way.pop_front()
            {
                self.finish(earlier, call, each)?;
            }
            under_way.push_back((number, self.start(DeviceCall::Get(key))?));
        }
        under_way.into_iter().try_for_each(|(number, call)| self.finish(number, call, each))
    }

    fn stats(&self) -> ReaderStats {
        ReaderStats::default()
    }
}

/// Takes the answer to the question whether the server's device carries out GETs.
pub(crate) fn must_serve(asked: Result<Buffer, WorkError>) -> Result<(), NoDeviceGets> {
    match asked {
        Ok(reply) if DeviceReply::decode(&reply) == Some(DeviceReply::Served) => Ok(()),
        Ok(_) => Err(NoDeviceGets::Refused(WorkError::NotPosted(PostError::Unsupported("GETs by calls")))),
        Err(error) if is_refusal(&error) => Err(NoDeviceGets::Refused(error)),
        Err(error) => Err(NoDeviceGets::Failed(error.into())),
    }
}

/// The outcome that a reply tells.
pub(crate) fn looked_up(reply: &[u8]) -> LookedUp<'_> {
    match DeviceReply::decode(reply) {
        Some(DeviceReply::Found(header, stored)) => LookedUp::Object(header, stored),
        Some(DeviceReply::Absent) => LookedUp::Absent,
        _ => LookedUp::AskServer,
    }
}

/// True if no later call can succeed either.
fn is_refusal(error: &WorkError) -> bool {
    let lacks = matches!(error, WorkError::Failed { reason: Some(Reason::PeerLacksExtension), .. });
    lacks || matches!(error, WorkError::NotPosted(_)) || error.status() == Some(Status::RemoteAccess)
}

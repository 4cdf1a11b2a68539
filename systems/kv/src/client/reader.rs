//! The connection for GETs by READs.

use std::time::{Duration, Instant};

use longarm::RemoteKey;
use remote::{ReaderOptions, WriterPass};

use crate::client::device::NoDeviceGets;
use crate::client::link::DataLink;
use crate::client::options::{GetWay, PutWay};
use crate::client::remote_reader::RemoteReader;
use crate::client::session::{ATTEMPT, Repeat, TableSession};
use crate::error::KvError;
use crate::protocol::{ATTACH, AttachReply, AttachRequest, WriterRight, encode};
use crate::server::{KvLayout, private_data};
use crate::surroundings::{instant, sleep};

/// The pause between two questions whether the server has the connection, too.
const PAUSE: Duration = Duration::from_micros(100);
/// A reader of a table whose clients write waits so long for an object that is being written.
pub(crate) const LOCKED: Duration = Duration::from_millis(1);

/// Connects to the server's memory, and makes a reader of the table there.
pub(crate) fn attach(session: &mut TableSession, until: Instant) -> Result<Box<dyn RemoteReader>, KvError> {
    let opened = session.open(until)?;
    let (grant, data_port, writable) = (opened.grant, opened.data_port, opened.writable);
    let layout: KvLayout = opened.layout.parse().map_err(|_| {
        KvError::Invalid(format!("the table has the layout {:?}, which this client cannot read", opened.layout))
    })?;
    let mut attempt = [0; 8];
    getrandom::fill(&mut attempt).map_err(|error| not_attached(session, error))?;
    let attempt = u64::from_le_bytes(attempt);
    let writes = session.options.put == PutWay::OneSided;
    let private_data = private_data(&grant, attempt, writes);
    let connected = session.network().attach(&session.address, data_port, &private_data, until);
    let connection = connected.map_err(|why| not_attached(session, why))?;
    let (key, writer) = loop {
        let reply: AttachReply = session
            .call(ATTACH, Repeat::Always, until, |grant, out| encode(&AttachRequest { grant, attempt }, &[], out))?;
        match reply.key {
            Some(bytes) => {
                let key = RemoteKey::from_bytes(&bytes).map_err(|error| not_attached(session, error))?;
                break (key, reply.writer.map(pass_of));
            }
            None if !connection.is_connected() => return Err(not_attached(session, "the server ended the connection")),
            None if instant() >= until => return Err(not_attached(session, "the server has not accepted it")),
            None => sleep(PAUSE),
        }
    };
    let options = ReaderOptions {
        locations: session.options.locations,
        outstanding: session.options.outstanding,
        timeout: if session.is_impatient { session.options.timeout.min(ATTEMPT) } else { session.options.timeout },
        // A lock may be that of a client that is gone: then the server has to be asked.
        patience: if writable { LOCKED } else { session.options.timeout },
        ..ReaderOptions::default()
    };
    if session.options.get == GetWay::Device {
        return device_reader(session, connection, key, until);
    }
    connection.into_reader(layout, (key, writer), options).map_err(KvError::Read)
}

/// The server tells where the block for copies is. A wrong place only harms the table that it has.
pub(crate) fn pass_of(right: WriterRight) -> WriterPass {
    WriterPass { holder: right.holder, copy_at: right.copy_at, copy_bytes: right.copy_bytes }
}

fn device_reader(
    session: &mut TableSession,
    connection: Box<dyn DataLink>,
    key: RemoteKey,
    until: Instant,
) -> Result<Box<dyn RemoteReader>, KvError> {
    let (outstanding, timeout) = (session.options.outstanding, session.options.timeout);
    match connection.into_device_reader(key, outstanding, timeout) {
        Ok(reader) => Ok(reader),
        Err(NoDeviceGets::Failed(error)) => Err(not_attached(session, error)),
        Err(NoDeviceGets::Refused(error)) => {
            // A right that was revoked meanwhile looks the same.
            session.confirm(until)?;
            Err(KvError::NoDeviceGets(error.to_string()))
        }
    }
}

fn not_attached(session: &TableSession, why: impl std::fmt::Display) -> KvError {
    KvError::NotAttached(session.options.timeout, why.to_string())
}

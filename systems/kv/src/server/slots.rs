//! The key that a request is about, and the refusal of a key that another server has.

use cluster::NotServing;
use longarm_rpc::{Executed, Method, Status};

use crate::protocol::*;

/// Clients ask again at once after this, on the same connection.
const HANDING_OVER: &str = "the key's slot is being handed over to another server";

/// The answer to a request for a key that this member does not serve. It was not executed.
pub(crate) fn refusal(error: &NotServing) -> Status {
    let status = match error {
        NotServing::Moved { slot, address, epoch } => {
            Status::failed_precondition(format!("{MOVED}{slot} {address} {epoch}"))
        }
        other => Status::unavailable(other.to_string()),
    };
    status.with_executed(Executed::No)
}

/// The answer to a change of a key whose slot is being handed over: for some milliseconds nobody changes it. It was not executed.
pub(crate) fn handing_over() -> Status {
    Status::unavailable(HANDING_OVER).with_executed(Executed::No)
}

/// True for [`handing_over`].
pub(crate) fn is_handing_over(status: &Status) -> bool {
    status.message() == HANDING_OVER
}

/// The key that a request is about. Pieces and the end of a long value have none: their beginning has it.
pub(crate) fn key_of(method: Method, request: &[u8]) -> Result<Option<&[u8]>, Status> {
    Ok(match method {
        GET => Some(decode::<GetRequest>(request)?.1),
        DELETE => Some(decode::<DeleteRequest>(request)?.1),
        ADD => Some(decode::<AddRequest>(request)?.1),
        EXPIRE => Some(decode::<ExpireRequest>(request)?.1),
        BEGIN => Some(decode::<BeginRequest>(request)?.1),
        PUT => {
            let (head, rest) = decode::<PutRequest>(request)?;
            // The handler refuses a key that is longer than the message.
            rest.get(..head.key_bytes as usize)
        }
        _ => None,
    })
}

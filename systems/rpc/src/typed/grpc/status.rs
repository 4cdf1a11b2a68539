//! Statuses of both kinds.

use std::error::Error;

use ::tonic::metadata::MetadataMap;
use ::tonic::{Code as GrpcCode, ConnectError, Status as GrpcStatus};

use super::metadata::EXECUTED;
use crate::code::{Code, Executed};
use crate::status::Status;

/// Our status for a client of gRPC.
pub(super) fn to_grpc(status: &Status) -> GrpcStatus {
    let executed = match status.executed() {
        Executed::No => "no",
        Executed::Yes => "yes",
        Executed::Unknown => "unknown",
    };
    let mut trailers = MetadataMap::new();
    trailers.insert(EXECUTED, ::tonic::metadata::MetadataValue::from_static(executed));
    let code = GrpcCode::from_i32(status.code().number().into());
    GrpcStatus::with_metadata(code, status.message(), trailers)
}

/// The status that a server of gRPC, or tonic's channel, has given.
pub(super) fn from_grpc(status: &GrpcStatus) -> Status {
    let code = u8::try_from(status.code() as i32).map_or(Code::Unknown, Code::from_number);
    let said = status.metadata().get(EXECUTED).and_then(|value| value.to_str().ok());
    let executed = match said {
        Some("no") => Executed::No,
        Some("yes") => Executed::Yes,
        _ if is_without_connection(status) => Executed::No,
        _ => Executed::Unknown,
    };
    Status::new(code, status.message()).with_executed(executed)
}

/// True if tonic could not connect, so the request has not left.
fn is_without_connection(status: &GrpcStatus) -> bool {
    std::iter::successors(status.source(), |&error| error.source()).any(|error| error.is::<ConnectError>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_goes_there_and_back() {
        for code in Code::ALL {
            for executed in [Executed::No, Executed::Yes, Executed::Unknown] {
                let status = Status::new(code, "words").with_executed(executed);
                assert_eq!(from_grpc(&to_grpc(&status)), status);
            }
        }
    }

    #[test]
    fn another_server_does_not_say_whether_it_executed() {
        assert_eq!(from_grpc(&GrpcStatus::unavailable("busy")).executed(), Executed::Unknown);
    }
}

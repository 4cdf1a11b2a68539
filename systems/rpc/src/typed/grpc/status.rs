//! Statuses of both kinds.

use std::error::Error;

use ::tonic::{Code as GrpcCode, ConnectError, Status as GrpcStatus};
use bytes::Bytes;

use super::metadata::{self, EXECUTED};
use crate::code::{Code, Executed};
use crate::metadata::Metadata;
use crate::status::{DETAILS, Status};

/// Our status for a client of gRPC.
pub(super) fn to_grpc(status: &Status) -> GrpcStatus {
    let executed = match status.executed() {
        Executed::No => "no",
        Executed::Yes => "yes",
        Executed::Unknown => "unknown",
    };
    // Metadata that gRPC cannot carry are left out: the code and the words matter more.
    let mut trailers = metadata::to_grpc(&without_details(status)).unwrap_or_default();
    trailers.insert(EXECUTED, ::tonic::metadata::MetadataValue::from_static(executed));
    let code = GrpcCode::from_i32(status.code().number().into());
    let details = Bytes::copy_from_slice(status.details());
    GrpcStatus::with_details_and_metadata(code, status.message(), details, trailers)
}

fn without_details(status: &Status) -> Metadata {
    let mut metadata = Metadata::default();
    let entries = status.metadata().into_iter().flat_map(Metadata::iter);
    entries.filter(|(name, _)| *name != DETAILS).for_each(|(name, value)| metadata.insert(name, value));
    metadata
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
    let ours = Status::new(code, status.message()).with_executed(executed);
    let ours = ours.with_metadata(metadata::from_grpc(status.metadata()));
    if status.details().is_empty() { ours } else { ours.with_details(status.details()) }
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
    fn metadata_and_details_go_along() {
        let mut metadata = Metadata::default();
        metadata.insert("retry-after", "3");
        metadata.insert("trace-bin", [0, 255]);
        let status = Status::aborted("later").with_metadata(metadata).with_details([1, 2, 200]);
        let there = to_grpc(&status);
        assert_eq!(
            (there.details(), there.metadata().get("retry-after").unwrap().as_bytes()),
            (&[1, 2, 200][..], &b"3"[..])
        );
        assert_eq!(from_grpc(&there), status);
    }

    #[test]
    fn another_server_does_not_say_whether_it_executed() {
        assert_eq!(from_grpc(&GrpcStatus::unavailable("busy")).executed(), Executed::Unknown);
    }
}

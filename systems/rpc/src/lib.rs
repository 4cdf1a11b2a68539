//! Requests and replies over RDMA: five ways to carry them, one meaning.
#![forbid(unsafe_code)]

mod carrier;
mod code;
mod frame;
mod link;
mod message;
mod metadata;
mod service;
mod session;
mod status;

pub use code::{Code, Executed};
pub use message::{Request, Response};
pub use metadata::{MAX_METADATA_BYTES, Metadata};
pub use service::{Answer, AnswerFuture, BoxFuture, Call, IntoMethods, Method, Methods, Router, RunOn, number_of};
pub use status::Status;

// Generated code names this crate; that of the reflection service is inside it.
#[cfg(feature = "reflection")]
extern crate self as longarm_rpc;

mod typed;

pub use typed::*;

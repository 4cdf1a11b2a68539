//! The names that generated code uses (crate `longarm-rpc-build`). Programs use them where they have no better source.

pub use std::sync::Arc;

pub use async_trait::async_trait;
pub use bytes::Bytes;
pub use prost;
pub use prost_types;
pub use tower_service::Service;

pub use crate::message::{Request, Response};
pub use crate::service::{Call, IntoMethods, Method, Methods, RunOn};
pub use crate::status::Status;
pub use crate::typed::errors::BoxError;
pub use crate::typed::unary::unary;

//! gRPC by [tonic](::tonic) as one more way: the same handlers and the same generated clients, on TCP or on byte streams over RDMA.
//!
//! [`routes`] makes the services of a [`Router`](crate::Router) those of tonic's server, for any client of gRPC. [`GrpcChannel`] makes a
//! channel of tonic one of this crate, for any server of gRPC.
//!
//! ```no_run
//! # async fn example(router: longarm_rpc::Router) -> Result<(), Box<dyn std::error::Error>> {
//! use longarm_rpc::grpc::{GrpcChannel, routes};
//!
//! let routes = routes(router);   // tonic::transport::Server::builder().add_routes(routes).serve(address)
//! # drop(routes);
//! # Ok(()) }
//! ```
//!
//! Codes, messages, metadata and deadlines go over unchanged. Names of metadata are lower-case, and binary values have names that
//! end with `-bin`, as gRPC demands. Between two ends of this crate the answer to [`Status::executed`](crate::Status::executed) goes
//! over, too; other servers do not give it, so there it is [`Executed::Unknown`](crate::Executed::Unknown).

mod channel;
mod codec;
mod metadata;
mod server;
mod status;

pub use channel::GrpcChannel;
pub use server::{GrpcMethods, routes};

//! Services of [tarpc](::tarpc): its macro stays, and each of its messages is a call.
//!
//! A service of tarpc is one [`Method`](crate::Method) here, with a name that both sides choose. The request of a call is the trace
//! context and the message, the reply is the message or the `ServerError`, both as [postcard](::postcard) writes them.
//! The deadline travels as that of the call, and a caller that loses interest drops the call.
//!
//! ```
//! use longarm_rpc::{Method, Router, RunOn};
//! use tarpc::context::Context;
//! use tarpc::server::Serve;
//!
//! #[tarpc::service]
//! trait World {
//!     async fn hello(name: String) -> String;
//! }
//!
//! #[derive(Clone)]
//! struct Polite;
//!
//! impl World for Polite {
//!     async fn hello(self, _: Context, name: String) -> String {
//!         format!("Hello {name}!")
//!     }
//! }
//!
//! const WORLD: Method = Method::new("/tarpc.World/Call");
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let mut router = Router::default();
//! let serve = |context, request| Polite.serve().serve(context, request);
//! router.add(longarm_rpc::tarpc::serve(WORLD, RunOn::Executor, serve))?;
//!
//! let client = WorldClient::from(longarm_rpc::tarpc::stub(router, WORLD));
//! assert_eq!(client.hello(tarpc::context::current(), "Ada".into()).await?, "Hello Ada!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! [`stub`] needs no task of its own. [`client`] is for programs that hand a transport to tarpc's client: it has tarpc's
//! limits and spans, and costs a task and two queues.
//!
//! tarpc's generated clients panic if a server answers with the reply of another method. So a tarpc client trusts its server that far.

mod messages;
mod server;
mod stub;
mod transport;

pub use server::serve;
pub use stub::{ChannelStub, stub};
pub use transport::{CallTransport, client};

//! Servers and channels by address: `rdma://HOST:PORT` and `grpc://HOST:PORT`.

use std::net::SocketAddr;

use longarm_rpc::grpc::{GrpcChannel, routes};
use longarm_rpc::{BoxError, Call, Channel, ClientOptions, Response, Router, Server, Status};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Endpoint;
use tower::util::BoxCloneSyncService;

/// A channel of any kind.
pub type AnyChannel = BoxCloneSyncService<Call, Response<longarm_rpc::codegen::Bytes>, Status>;

/// A channel to the server at an address.
///
/// # Errors
/// An address of another kind; a server that cannot be reached.
pub async fn connect(address: &str) -> Result<AnyChannel, BoxError> {
    match address.split_once("://") {
        Some(("rdma", host)) => Ok(AnyChannel::new(Channel::connect(host, ClientOptions::default()).await?)),
        Some(("grpc", host)) => {
            let endpoint = Endpoint::from_shared(format!("http://{host}"))?;
            Ok(AnyChannel::new(GrpcChannel::new(endpoint.connect().await?)))
        }
        _ => Err(unknown(address)),
    }
}

/// Serves until the program ends, in the background, and returns the address with its port.
///
/// # Errors
/// An address of another kind, or one that is in use.
pub async fn serve(router: Router, address: &str) -> Result<String, BoxError> {
    match address.split_once("://") {
        Some(("rdma", host)) => Ok(format!("rdma://{}", serve_rdma(&router, host)?)),
        Some(("grpc", host)) => Ok(format!("grpc://{}", serve_grpc(router, host).await?)),
        _ => Err(unknown(address)),
    }
}

fn serve_rdma(router: &Router, host: &str) -> Result<SocketAddr, BoxError> {
    let mut server = Server::builder();
    for methods in router.services() {
        server = server.add_service(methods.clone())?;
    }
    // Handlers with `RunOn::Executor` run in tokio's tasks.
    let tokio = Handle::current();
    let server = server.executor(move |future| drop(tokio.spawn(future))).bind(host)?;
    let address = server.local_addr();
    std::thread::Builder::new().name("serve".into()).spawn(move || server.wait())?;
    Ok(address)
}

async fn serve_grpc(router: Router, host: &str) -> Result<SocketAddr, BoxError> {
    let listener = TcpListener::bind(host).await?;
    let address = listener.local_addr()?;
    let server = tonic::transport::Server::builder().add_routes(routes(router));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Ok(address)
}

fn unknown(address: &str) -> BoxError {
    format!("{address}: addresses are rdma://HOST:PORT and grpc://HOST:PORT").into()
}

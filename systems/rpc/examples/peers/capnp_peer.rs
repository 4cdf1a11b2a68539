//! capnp-rpc. The messages are bytes as they are: an interface written by hand takes the place of a compiled schema.

use std::ops::Deref;
use std::rc::Rc;

use capnp::capability::{Client, DispatchCallResult, FromClientHook, FromServer, Params, Promise, Results, Server};
use capnp::private::capability::ClientHook;
use capnp::{any_pointer, data};
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use capnp_rpc::{RpcSystem, new_client};
use futures_util::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::spawn_local;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::{Outcome, PeerKind, PeerOptions, PeerTally, concurrent};

/// The number of the interface, which has one method.
const INTERFACE: u64 = 0xc0de_0001;

pub(super) async fn serve(peer: PeerKind, place: &str) -> Outcome<()> {
    if peer == PeerKind::CapnpTcp {
        let listener = TcpListener::bind(place).await?;
        println!("listening on {}", listener.local_addr()?);
        loop {
            let stream = listener.accept().await?.0;
            stream.set_nodelay(true)?;
            let (read, write) = stream.into_split();
            answer(read.compat(), write.compat_write());
        }
    }
    let listener = UnixListener::bind(place)?;
    println!("listening on {place}");
    loop {
        let (read, write) = listener.accept().await?.0.into_split();
        answer(read.compat(), write.compat_write());
    }
}

/// Serves one connection.
fn answer(read: impl AsyncRead + Unpin + 'static, write: impl AsyncWrite + Unpin + 'static) {
    let network = VatNetwork::new(read, write, Side::Server, Default::default());
    let repeat: RepeatClient = new_client(Repeat);
    spawn_local(RpcSystem::new(Box::new(network), Some(repeat.0)));
}

pub(super) async fn measure(peer: PeerKind, place: &str, options: &PeerOptions) -> Outcome<PeerTally> {
    let client = if peer == PeerKind::CapnpTcp {
        let stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        connect(read.compat(), write.compat_write())
    } else {
        let (read, write) = UnixStream::connect(place).await?.into_split();
        connect(read.compat(), write.compat_write())
    };
    let size = options.size;
    let call = move |client: RepeatClient| async move {
        let mut request = client.0.new_call::<any_pointer::Owned, any_pointer::Owned>(INTERFACE, 0, None);
        request.get().set_as::<data::Owned>(&vec![7; size][..])?;
        let reply = request.send().promise.await?;
        let len = reply.get()?.get_as::<&[u8]>()?.len();
        if len == size { Ok(()) } else { Err("a reply of another length".into()) }
    };
    concurrent::flood_local(client, call, options).await
}

fn connect(read: impl AsyncRead + Unpin + 'static, write: impl AsyncWrite + Unpin + 'static) -> RepeatClient {
    let network = VatNetwork::new(read, write, Side::Client, Default::default());
    let mut system = RpcSystem::new(Box::new(network), None);
    let client = system.bootstrap(Side::Server);
    spawn_local(system);
    client
}

/// The caller's end of the interface.
#[derive(Clone)]
struct RepeatClient(Client);

impl FromClientHook for RepeatClient {
    fn new(hook: Box<dyn ClientHook>) -> RepeatClient {
        RepeatClient(Client::new(hook))
    }

    fn into_client_hook(self) -> Box<dyn ClientHook> {
        self.0.hook
    }

    fn as_client_hook(&self) -> &dyn ClientHook {
        &*self.0.hook
    }
}

/// The handler: replies with the request.
struct Repeat;

#[derive(Clone)]
struct RepeatDispatch(Rc<Repeat>);

impl Deref for RepeatDispatch {
    type Target = Repeat;

    fn deref(&self) -> &Repeat {
        &self.0
    }
}

impl FromServer<Repeat> for RepeatClient {
    type Dispatch = RepeatDispatch;

    fn from_server(server: Rc<Repeat>) -> RepeatDispatch {
        RepeatDispatch(server)
    }
}

impl Server for RepeatDispatch {
    fn dispatch_call(
        self,
        interface: u64,
        method: u16,
        params: Params<any_pointer::Owned>,
        mut results: Results<any_pointer::Owned>,
    ) -> DispatchCallResult {
        let mut repeat = || {
            if (interface, method) != (INTERFACE, 0) {
                return Err(capnp::Error::unimplemented("no such method".into()));
            }
            results.get().set_as::<data::Owned>(params.get()?.get_as::<&[u8]>()?)
        };
        DispatchCallResult::new(repeat().map_or_else(Promise::err, |()| Promise::ok(())), false)
    }

    fn as_ptr(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }
}

//! tarpc with bincode over a Unix socket.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tarpc::serde_transport::unix;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context};

use super::{Outcome, PeerOptions, PeerTally, concurrent};

#[tarpc::service]
trait Repeater {
    async fn repeat(body: Vec<u8>) -> Vec<u8>;
}

#[derive(Clone)]
struct RepeaterServer;

impl Repeater for RepeaterServer {
    async fn repeat(self, _: context::Context, body: Vec<u8>) -> Vec<u8> {
        body
    }
}

pub(super) async fn serve(place: &str) -> Outcome<()> {
    let mut incoming = unix::listen(place, Bincode::default).await?;
    println!("listening on {place}");
    while let Some(transport) = incoming.next().await {
        let requests = BaseChannel::with_defaults(transport?).execute(RepeaterServer.serve());
        tokio::spawn(requests.for_each(|reply| async move {
            tokio::spawn(reply);
        }));
    }
    Ok(())
}

pub(super) async fn measure(place: &str, options: &PeerOptions) -> Outcome<PeerTally> {
    let transport = unix::connect(place, Bincode::default).await?;
    let client = RepeaterClient::new(client::Config::default(), transport).spawn();
    let size = options.size;
    let call = move |client: RepeaterClient| async move {
        let mut context = context::current();
        context.deadline = Instant::now() + Duration::from_secs(10);
        let reply = client.repeat(context, vec![7; size]).await?;
        if reply.len() == size { Ok(()) } else { Err("a reply of another length".into()) }
    };
    concurrent::flood(client, call, options).await
}

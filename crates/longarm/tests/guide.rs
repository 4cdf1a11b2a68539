//! The fragments of the guide, `docs/rust-api.md`: they compile here, and stand in the guide word
//! for word.
#![allow(unused_variables, unused_assignments, dead_code)]
#![allow(clippy::needless_borrow, reason = "in the guide they are values")]

use std::error::Error;
use std::time::Duration;

use longarm::{
    Access, Buffer, CompletionQueue, Connection, ConnectionInfo, Device, Endpoint, Listener, MemoryRegion,
    ProtectionDomain, QKey, QueuePair, RemoteKey, Route, UdQueuePair,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn endpoint(timeout: Duration) -> Result<()> {
    // guide
    let endpoint = Endpoint::connect("host:7471", b"hello").wait(timeout)?;
    let reply = endpoint.recv(endpoint.allocate(4096)?).start();
    endpoint.send_inline(b"hello").wait(timeout)?;
    println!("{:?}", &reply.wait(timeout)?[..]);
    // end
    Ok(())
}

async fn accepting() -> Result<()> {
    // guide
    let listener = Listener::bind("0.0.0.0:7471").await?;
    loop {
        let endpoint = listener.accept().await?; // or .wait(timeout)
        let message = endpoint.recv(endpoint.allocate(4096)?).await?;
        println!("{} says {:?}", endpoint.peer_addr(), &message[..]);
    }
    // end
}

fn listening(domain: &ProtectionDomain, cq: &CompletionQueue, key: RemoteKey, timeout: Duration) -> Result<()> {
    // guide
    let listener = Listener::bind("0.0.0.0:7471").wait(timeout)?;
    let incoming = listener.incoming().wait(timeout)?; // or .await
    println!("{} says {:?}", incoming.peer_addr(), incoming.private_data());
    let qp = incoming.accept(domain.rc(&cq), &key.to_bytes()).wait(timeout)?; // or incoming.reject(b"why")?
    // end
    Ok(())
}

async fn calling(domain: &ProtectionDomain, cq: &CompletionQueue) -> Result<()> {
    // guide
    let qp = longarm::connect("host:7471", domain.rc(&cq), b"hello").await?; // or .wait(timeout)
    let key = RemoteKey::from_bytes(&qp.private_data()[..RemoteKey::ENCODED_BYTES])?;
    // end
    Ok(())
}

fn addresses(timeout: Duration) -> Result<()> {
    // guide
    let device = Device::open()?;
    let listener = Listener::bind((device.addresses()[0], 7471)).wait(timeout)?;
    // end
    Ok(())
}

fn routes(
    domain: &ProtectionDomain,
    cq: &CompletionQueue,
    listener: &Listener,
    buffer: Buffer,
    other: Buffer,
    timeout: Duration,
) -> Result<()> {
    // guide
    let route = Route::to("host:7471").wait(timeout)?;
    let qp = domain.rc(&cq).on(&route.open_device()?).build()?; // Unconnected<Rc>
    let message = qp.recv(buffer).start();
    let qp = longarm::connect(&route, qp, b"hello").wait(timeout)?; // Connection<Rc>

    let incoming = listener.incoming().wait(timeout)?;
    let qp = domain.rc(&cq).on(&incoming.open_device()?).build()?;
    let message = qp.recv(other).start();
    let qp = incoming.accept(qp, b"welcome").wait(timeout)?;
    // end
    Ok(())
}

async fn ending(qp: &Connection) {
    // guide
    qp.disconnected().await; // the peer has gone, or we
    // end
}

fn by_hand(domain: &ProtectionDomain, cq: &CompletionQueue, theirs: &[u8]) -> Result<()> {
    // guide
    let qp = domain.rc(&cq).send_depth(256).recv_depth(64).build()?; // Unconnected<Rc>
    let mine: [u8; 28] = qp.connection_info().to_bytes(); // to the peer, by any means
    let qp = qp.connect(&ConnectionInfo::from_bytes(&theirs)?)?; // QueuePair<Rc>
    // end
    Ok(())
}

fn lending(qp: &QueuePair, buffer: Buffer, timeout: Duration) -> Result<()> {
    // guide
    let buffer = qp.send(buffer).wait(timeout)?; // Result<Buffer, Failure>
    // end
    Ok(())
}

fn given(domain: &ProtectionDomain, qp: QueuePair, timeout: Duration) -> Result<()> {
    // guide
    let page = domain.register(std::fs::read("page.html")?)?;
    let page = qp.send(page).wait(timeout)?;
    // end
    Ok(())
}

fn exposed(domain: &ProtectionDomain, mut scratch: Vec<u8>, ask_peer: impl Fn(RemoteKey)) -> Result<()> {
    // guide
    let table = domain.expose_memory(vec![0; 4096], Access::REMOTE_READ)?;
    domain.expose_scoped(&mut scratch, Access::REMOTE_WRITE, |region| ask_peer(region.key()))?;
    // end
    Ok(())
}

fn windows(qp: &QueuePair, region: &MemoryRegion, timeout: Duration) -> Result<()> {
    // guide
    let window = region.window(4096..8192, Access::REMOTE_WRITE)?;
    let bound = qp.bind(window).wait(timeout)?; // tell the peer bound.key()
    let window = qp.unbind(bound).wait(timeout)?; // or drop it
    // end
    Ok(())
}

fn polling(qp: &QueuePair, cq: &CompletionQueue, mut free: Vec<Buffer>, key: &RemoteKey) -> Result<()> {
    // guide
    let mut done = Vec::new();
    loop {
        cq.poll(&mut done, 64)?;
        for completion in done.drain(..) {
            if let Some(error) = completion.error() {
                eprintln!("{:?}: {error}", completion.ticket());
            }
            free.extend(completion.into_buffer());
        }
        while let Some(buffer) = free.pop() {
            qp.write(buffer, &key).unsignaled().post()?;
        }
    }
    // end
}

fn datagrams(domain: &ProtectionDomain, cq: &CompletionQueue, buffer: Buffer, timeout: Duration) -> Result<()> {
    // guide
    let endpoint = domain.ud(&cq).qkey(QKey(0x77)).build()?;
    let group = endpoint.join("239.255.71.71".parse()?)?; // leaves when dropped
    let buffer = endpoint.send_to(buffer, &group.address_handle()).wait(timeout)?;
    let message = endpoint.recv(buffer).wait(timeout)?;
    endpoint.send_inline_to(b"thanks", message.source().unwrap()).wait(timeout)?;
    // end
    Ok(())
}

fn finding(endpoint: &UdQueuePair, timeout: Duration) -> Result<()> {
    // guide
    let listener = Listener::bind_ud("0.0.0.0:7471").wait(timeout)?; // one side
    listener.incoming().wait(timeout)?.answer(&endpoint, b"it is me")?;

    let endpoint = Route::to("host:7471").wait(timeout)?.ud()?; // the other
    let found = endpoint.look_up("host:7471", b"who?").wait(timeout)?;
    endpoint.send_inline_to(b"hello", &found.address).wait(timeout)?;
    // end
    Ok(())
}

fn sharing(domain: &ProtectionDomain, cq: &CompletionQueue) -> Result<()> {
    // guide
    let srq = domain.shared_receive_queue(&cq, 4096)?;
    let qp = domain.rc(&cq).shared_receive_queue(&srq).build()?;
    // end
    Ok(())
}

/// The lines between the marks.
fn fragments(source: &str) -> Vec<String> {
    let mut fragments = Vec::new();
    let mut lines = source.lines();
    while lines.any(|line| line.trim() == "// guide") {
        let fragment: Vec<_> = lines.by_ref().take_while(|line| line.trim() != "// end").collect();
        fragments.push(words(&fragment.join(" ")));
    }
    fragments
}

/// The text without differences of white space.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_fragments_stand_in_the_guide() {
    let guide = include_str!("../../../docs/rust-api.md");
    let blocks = guide.split("```rust\n").skip(1);
    let blocks: Vec<_> = blocks.map(|rest| words(rest.split("```").next().unwrap_or_default())).collect();
    let fragments = fragments(include_str!("guide.rs"));
    assert_eq!(blocks.len(), fragments.len());
    for (block, fragment) in blocks.iter().zip(fragments) {
        assert_eq!(*block, fragment);
    }
}

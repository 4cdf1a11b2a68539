//! Streams between processes: large transfers, many connections, and the death of a peer.

mod support;

use std::io::ErrorKind;

use longarm_stream::{RdmaListener, RdmaStream, StreamConfig};
use support::{is_peer, listener, pattern, peer, peer_command, to_server, with_hub};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LARGE: usize = 64 << 20;

async fn echo(mut stream: RdmaStream) {
    let (mut read, mut write) = tokio::io::split(&mut stream);
    tokio::io::copy(&mut read, &mut write).await.unwrap();
    write.shutdown().await.unwrap();
}

/// Sends a lot to a process that sends it back.
async fn large_transfer() {
    if is_peer() {
        return echo(to_server().await).await;
    }
    let listener = listener(&StreamConfig::new()).await;
    let echo = peer(test_name().as_str(), &listener);
    let (mut read, mut write) = listener.accept().await.unwrap().into_split();
    let bytes = pattern(0, LARGE);
    let writer = async {
        write.write_all(&bytes).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let reader = async {
        let mut back = Vec::with_capacity(LARGE);
        read.read_to_end(&mut back).await.unwrap();
        back
    };
    let ((), back) = tokio::join!(writer, reader);
    assert!(back == bytes, "bytes differ");
    echo.must_succeed();
}

/// The name of the test, which is that of its thread.
fn test_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn much_goes_there_and_back() {
    with_hub("much_goes_there_and_back", large_transfer);
}

#[test]
fn much_goes_there_and_back_in_packets() {
    if testkit::role().is_none() {
        let mut command = testkit::run_again("much_goes_there_and_back_in_packets", "body");
        command.env("LONGARM_LOCAL", "off");
        return hub::testing::passes_with_hub("stream-packets", command);
    }
    with_hub("much_goes_there_and_back_in_packets", large_transfer);
}

#[test]
fn much_goes_there_and_back_despite_loss() {
    if testkit::role().is_none() {
        let mut command = testkit::run_again("much_goes_there_and_back_despite_loss", "body");
        command.env("LONGARM_LOCAL", "off").env("LONGARM_FAULTS", "seed=7,loss=0.001,dup=0.001,reorder=0.001");
        return hub::testing::passes_with_hub("stream-loss", command);
    }
    with_hub("much_goes_there_and_back_despite_loss", large_transfer);
}

/// Reads until something other than bytes comes.
async fn end_of(stream: &mut RdmaStream) -> std::io::Result<()> {
    let mut some = vec![0; 4096];
    while stream.read(&mut some).await? > 0 {}
    Ok(())
}

async fn killed(listener: RdmaListener, mut child: support::PeerProcess) {
    let mut stream = listener.accept().await.unwrap();
    let mut other = listener.accept().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    let writer = tokio::spawn(async move {
        loop {
            if let Err(error) = other.write(&[1; 10_000]).await {
                return error.kind();
            }
        }
    });
    child.0.kill().unwrap();
    let error = end_of(&mut stream).await.expect_err("an orderly end of a peer that was killed");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    assert!(error.to_string().contains("its program died"), "{error}");
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::ConnectionReset, "again");
    let kind = writer.await.unwrap();
    assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::TimedOut), "{kind:?}");
}

async fn peer_that_is_killed() {
    if is_peer() {
        let (mut stream, _other) = (to_server().await, to_server().await);
        stream.write_u8(7).await.unwrap();
        return std::future::pending().await;
    }
    let listener = listener(&StreamConfig::new()).await;
    let child = peer(&test_name(), &listener);
    killed(listener, child).await;
}

#[test]
fn the_death_of_a_peer_is_reported() {
    with_hub("the_death_of_a_peer_is_reported", peer_that_is_killed);
}

#[test]
fn the_death_of_a_peer_is_reported_in_packets() {
    if testkit::role().is_none() {
        let mut command = testkit::run_again("the_death_of_a_peer_is_reported_in_packets", "body");
        command.env("LONGARM_LOCAL", "off");
        return hub::testing::passes_with_hub("stream-death", command);
    }
    with_hub("the_death_of_a_peer_is_reported_in_packets", peer_that_is_killed);
}

#[test]
fn a_process_that_exits_after_a_shutdown_has_delivered_everything() {
    with_hub("a_process_that_exits_after_a_shutdown_has_delivered_everything", || async {
        if is_peer() {
            let mut stream = to_server().await;
            stream.write_all(&pattern(0, 300_000)).await.unwrap();
            stream.shutdown().await.unwrap();
            std::process::exit(0);
        }
        let listener = listener(&StreamConfig::new()).await;
        let child = peer("a_process_that_exits_after_a_shutdown_has_delivered_everything", &listener);
        let mut stream = listener.accept().await.unwrap();
        let mut heard = vec![0; 300_000];
        stream.read_exact(&mut heard).await.unwrap();
        assert!(heard == pattern(0, 300_000), "bytes differ");
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        child.must_succeed();
    });
}

#[test]
fn a_thousand_connections_are_open_at_once() {
    const MANY: usize = 1000;
    with_hub("a_thousand_connections_are_open_at_once", || async {
        if is_peer() {
            let mut streams = Vec::new();
            for _ in 0..MANY {
                streams.push(to_server().await);
            }
            for (at, stream) in streams.iter_mut().enumerate() {
                stream.write_u32(at as u32).await.unwrap();
            }
            for (at, stream) in streams.iter_mut().enumerate() {
                assert_eq!(stream.read_u32().await.unwrap(), at as u32);
            }
            return;
        }
        let config = StreamConfig::new().send_buffer(16 << 10).recv_buffer(16 << 10);
        let listener = listener(&config).await;
        let child =
            support::PeerProcess(peer_command("a_thousand_connections_are_open_at_once", &listener).spawn().unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..MANY {
            tasks.spawn(echo(listener.accept().await.unwrap()));
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        child.must_succeed();
    });
}

#[test]
fn devices_of_the_system_are_refused() {
    if testkit::role().is_none() {
        let mut command = testkit::run_again("devices_of_the_system_are_refused", "body");
        command.env("LONGARM_PROVIDER", "verbs");
        assert!(command.status().unwrap().success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let errors = [
            RdmaListener::bind("127.0.0.1:0").await.map(drop).unwrap_err(),
            RdmaStream::connect("127.0.0.1:7471").await.map(drop).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    });
}

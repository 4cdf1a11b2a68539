//! Streams behave as those of TCP do. Both ends are in one process.

mod support;

use std::io::{ErrorKind, IoSlice};
use std::time::Duration;

use longarm_stream::{RdmaListener, RdmaStream, StreamConfig};
use support::{listener, pair, pattern, with_hub};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

const SOON: Duration = Duration::from_millis(50);

#[test]
fn each_end_knows_both_addresses() {
    with_hub("each_end_knows_both_addresses", || async {
        let (client, server) = pair(&StreamConfig::new()).await;
        assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
        assert_eq!(client.local_addr().unwrap(), server.peer_addr().unwrap());
        assert_ne!(client.local_addr().unwrap().port(), 0);
    });
}

#[test]
fn a_direction_ends_and_the_other_goes_on() {
    with_hub("a_direction_ends_and_the_other_goes_on", || async {
        let (mut client, mut server) = pair(&StreamConfig::new()).await;
        client.write_all(b"the last words").await.unwrap();
        client.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(client.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"the last words");
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0, "the end stays");
        server.write_all(b"the answer").await.unwrap();
        drop(server);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"the answer");
    });
}

#[test]
fn dropping_a_half_ends_its_direction() {
    with_hub("dropping_a_half_ends_its_direction", || async {
        let (client, mut server) = pair(&StreamConfig::new()).await;
        let (mut read, mut write) = client.into_split();
        write.write_all(b"bye").await.unwrap();
        drop(write);
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"bye");
        server.write_all(b"still here").await.unwrap();
        let mut answer = [0; 10];
        read.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"still here");
        assert_eq!(read.peer_addr().unwrap(), server.local_addr().unwrap());

        let (other, _there) = pair(&StreamConfig::new()).await;
        let (other_read, other_write) = other.into_split();
        let refused = read.reunite(other_write).unwrap_err();
        assert!(other_read.reunite(refused.1).is_ok());
    });
}

#[test]
fn parts_are_written_in_order_and_small_writes_are_not_lost() {
    with_hub("parts_are_written_in_order_and_small_writes_are_not_lost", || async {
        let (mut client, mut server) = pair(&StreamConfig::new()).await;
        assert!(client.is_write_vectored());
        let parts = [&pattern(0, 40)[..], &[], &pattern(40, 30_000), &pattern(30_040, 3)];
        let slices = parts.map(IoSlice::new);
        let sent = client.write_vectored(&slices).await.unwrap();
        assert_eq!(sent, 30_043);
        let writer = async {
            for at in 0..5000 {
                client.write_all(&pattern(30_043 + at, 1)).await.unwrap();
            }
            client.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let ((), read) = tokio::join!(writer, server.read_to_end(&mut heard));
        assert_eq!(read.unwrap(), 35_043);
        assert!(heard == pattern(0, 35_043), "bytes differ");
    });
}

#[test]
fn a_slow_reader_holds_the_writer_back() {
    with_hub("a_slow_reader_holds_the_writer_back", || async {
        let config = StreamConfig::new().send_buffer(64 << 10).recv_buffer(64 << 10);
        let (mut client, mut server) = pair(&config).await;
        let bytes = pattern(0, 4 << 20);
        let mut sent = 0;
        while let Ok(written) = timeout(SOON, client.write(&bytes[sent..])).await {
            sent += written.unwrap();
        }
        assert!((64 << 10..=128 << 10).contains(&sent), "{sent} bytes went into buffers of 128 KiB");
        let writer = async {
            client.write_all(&bytes[sent..]).await.unwrap();
            client.shutdown().await.unwrap();
        };
        let reader = async {
            let mut heard = Vec::<u8>::new();
            let mut some = vec![0; 10_007];
            loop {
                match server.read(&mut some).await.unwrap() {
                    0 => return heard,
                    len => heard.extend(&some[..len]),
                }
                tokio::task::yield_now().await;
            }
        };
        let ((), heard) = tokio::join!(writer, reader);
        assert!(heard == bytes, "bytes differ");
    });
}

#[test]
fn connecting_and_accepting_can_be_given_up() {
    with_hub("connecting_and_accepting_can_be_given_up", || async {
        let listener = listener(&StreamConfig::new()).await;
        let address = listener.local_addr().unwrap();
        for _ in 0..20 {
            // Some come through nevertheless: a task is told of its time late.
            drop(timeout(Duration::ZERO, RdmaStream::connect(address)).await);
            drop(timeout(Duration::ZERO, listener.accept()).await);
        }
        let mut client = RdmaStream::connect(address).await.unwrap();
        client.write_all(b"it is me").await.unwrap();
        let heard = loop {
            let mut stream = listener.accept().await.unwrap();
            let mut heard = Vec::new();
            // Those that were given up may have come, and end.
            match timeout(SOON * 100, stream.read_buf(&mut heard)).await.unwrap() {
                Ok(0) | Err(_) => {}
                Ok(_) => break heard,
            }
        };
        assert_eq!(heard, b"it is me");
    });
}

#[test]
fn failures_tell_their_kind_and_cause() {
    with_hub("failures_tell_their_kind_and_cause", || async {
        let refused = RdmaStream::connect("127.0.0.1:7471").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(
            refused.to_string(),
            "cannot connect to 127.0.0.1:7471: nobody listens there, or the listener refused"
        );
        let unknown = RdmaStream::connect("no-such-host.invalid:7471").await.unwrap_err();
        assert!(unknown.to_string().contains("no-such-host.invalid"), "{unknown}");
        assert!(RdmaStream::connect("no port at all").await.is_err());
        let _here = RdmaListener::bind("127.0.0.1:7471").await.unwrap();
        let taken = RdmaListener::bind("127.0.0.1:7471").await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse, "{taken}");
        let elsewhere = RdmaListener::bind("192.0.2.1:7471").await.unwrap_err();
        assert_eq!(elsewhere.kind(), ErrorKind::AddrNotAvailable, "{elsewhere}");
        let (mut client, server) = pair(&StreamConfig::new()).await;
        drop(server);
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0, "it was closed in good order");
        let gone = client.write_all(&[0; 1 << 20]).await.unwrap_err();
        assert!(matches!(gone.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{gone}");
    });
}

#[test]
fn a_full_backlog_refuses() {
    with_hub("a_full_backlog_refuses", || async {
        let listener = listener(&StreamConfig::new().backlog(2)).await;
        let address = listener.local_addr().unwrap();
        let _waiting = [RdmaStream::connect(address).await.unwrap(), RdmaStream::connect(address).await.unwrap()];
        let refused = RdmaStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        listener.accept().await.unwrap();
        RdmaStream::connect(address).await.unwrap();
        drop(listener);
        assert!(RdmaStream::connect(address).await.is_err());
        RdmaListener::bind(address).await.unwrap();
    });
}

#[test]
fn incoming_connections_are_a_stream() {
    with_hub("incoming_connections_are_a_stream", || async {
        use futures::StreamExt;
        let listener = listener(&StreamConfig::new()).await;
        let address = listener.local_addr().unwrap();
        let mut incoming = listener.incoming();
        for round in 0..3u8 {
            let (client, server) = tokio::join!(RdmaStream::connect(address), incoming.next());
            let (mut client, mut server) = (client.unwrap(), server.unwrap().unwrap());
            client.write_u8(round).await.unwrap();
            assert_eq!(server.read_u8().await.unwrap(), round);
        }
        assert_eq!(incoming.listener().local_addr().unwrap(), address);
    });
}

#[test]
fn a_task_waits_without_keeping_others_from_running() {
    with_hub("a_task_waits_without_keeping_others_from_running", || async {
        let (mut client, mut server) = pair(&StreamConfig::new().busy_poll(Duration::from_secs(3600))).await;
        // Both run on this thread: the reader looks for news all the time, and the writer has its turns.
        let reader = async { server.read_u8().await.unwrap() };
        let writer = async {
            tokio::time::sleep(SOON).await;
            client.write_u8(7).await.unwrap();
        };
        assert_eq!(tokio::join!(reader, writer).0, 7);
    });
}

#[test]
fn streams_go_where_tcp_streams_go() {
    fn is_a_stream<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static>() {}
    is_a_stream::<RdmaStream>();
    with_hub("streams_go_where_tcp_streams_go", || async {
        let (client, mut server) = pair(&StreamConfig::new()).await;
        let (mut read, mut write) = tokio::io::split(client);
        let there = tokio::spawn(async move {
            let (mut from, mut to) = tokio::io::split(&mut server);
            tokio::io::copy(&mut from, &mut to).await.unwrap()
        });
        write.write_all(&pattern(0, 100_000)).await.unwrap();
        let mut back = vec![0; 100_000];
        read.read_exact(&mut back).await.unwrap();
        assert!(back == pattern(0, 100_000), "bytes differ");
        write.shutdown().await.unwrap();
        assert_eq!(there.await.unwrap(), 100_000);
    });
}

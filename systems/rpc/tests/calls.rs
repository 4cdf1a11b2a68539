//! Calls between a server and clients in one process, over every way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use longarm_rpc::{
    Channel, Client, ClientOptions, Code, Executed, Metadata, Method, Methods, Request, Response, RunOn, Server,
    ServerOptions, Status, Way,
};

const SAY: Method = Method::new("/echo.Echo/Say");
const LATER: Method = Method::new("/echo.Echo/Later");
const BLOCK: Method = Method::new("/echo.Echo/Block");
const FAIL: Method = Method::new("/echo.Echo/Fail");
const PANIC: Method = Method::new("/echo.Echo/Panic");
const TELL: Method = Method::new("/tell.Tell/Tell");
const MISSING: Method = Method::new("/echo.Echo/Missing");
/// Patience: other programs share the machine.
const SECOND: Duration = Duration::from_secs(20);
const WAYS: [Way; 5] = Way::ALL;

struct EchoServer {
    server: Server,
    /// Runs of the handler `Later`.
    runs: Arc<AtomicU32>,
}

/// A server whose methods echo: at once, after a pause, in a pool; and others that fail.
fn serve(options: ServerOptions) -> EchoServer {
    let runs = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&runs);
    let echo = Methods::new("echo.Echo")
        .direct(SAY, |request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .direct(FAIL, |_, _| Err(Status::not_found("nothing here")))
        .direct(PANIC, |_, _| panic!("a handler that panics, on purpose"))
        .asynchronous(LATER, RunOn::Executor, move |request| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                let (message, metadata, _) = request.into_parts();
                std::thread::sleep(Duration::from_millis(30));
                Ok(Response::from_parts(message, metadata))
            }
        })
        .blocking(BLOCK, |request| Ok(Response::new(request.into_inner())));
    let server = Server::builder().add_service(echo).unwrap().options(options).bind("127.0.0.1:0").unwrap();
    EchoServer { server, runs }
}

fn options(way: Way) -> ClientOptions {
    ClientOptions { way: Some(way), connect_timeout: SECOND, ..ClientOptions::default() }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn messages_of_all_sizes_come_back() {
    let EchoServer { server, .. } = serve(ServerOptions::default());
    for way in WAYS {
        let mut client = Client::connect(server.local_addr(), &options(way)).unwrap();
        assert_eq!(client.way(), way);
        for len in [0, 1, 7, 8, 32, 479, 480, 481, 1000, 16_000, 17_000, 100_000, 1 << 20, 8 << 20] {
            let body = bytes(len);
            assert_eq!(client.call(SAY, &body, SECOND).unwrap(), body, "{way}: {len} bytes");
        }
        let too_long = client.call(SAY, &bytes((8 << 20) + 8193), SECOND).unwrap_err();
        assert_eq!((too_long.code(), too_long.executed()), (Code::ResourceExhausted, Executed::No));
    }
}

#[test]
fn many_calls_at_a_time_get_their_own_replies() {
    let EchoServer { server, .. } = serve(ServerOptions::default());
    for way in WAYS {
        let mut client = Client::connect(server.local_addr(), &options(way)).unwrap();
        let (mut started, mut ended) = (0_u64, 0_u64);
        let mut sent = std::collections::HashMap::new();
        while ended < 3000 {
            while started < 3000
                && let Ok(id) = client.start(SAY, &bytes(started as usize % 700), None)
            {
                assert!(sent.insert(id, started).is_none(), "{way}: a call's number is used twice");
                started += 1;
            }
            client.poll(|id, reply| {
                let number = sent.remove(&id).expect("a reply to a call that was made");
                assert_eq!(reply.unwrap(), bytes(number as usize % 700));
                ended += 1;
            });
        }
        assert!(sent.is_empty());
        assert_eq!(client.stats().ok, 3000);
    }
}

#[test]
fn errors_bring_their_metadata_and_details() {
    let tell = Methods::new("tell.Tell").direct(TELL, |request, _| {
        let mut metadata = Metadata::default();
        metadata.insert("retry-after", "3");
        Err(Status::aborted("later").with_metadata(metadata).with_details(request))
    });
    let server = Server::builder().add_service(tell).unwrap().bind("127.0.0.1:0").unwrap();
    for way in WAYS {
        let mut client = Client::connect(server.local_addr(), &options(way)).unwrap();
        for len in [0, 1, 400, 8000] {
            let status = client.call(TELL, &bytes(len), SECOND).unwrap_err();
            assert_eq!((status.code(), status.message(), status.executed()), (Code::Aborted, "later", Executed::Yes));
            assert_eq!(status.details(), bytes(len), "{way}: {len} bytes");
            assert_eq!(status.metadata().and_then(|metadata| metadata.get("retry-after")), Some(&b"3"[..]), "{way}");
        }
        // Metadata beyond the longest are left out.
        let status = client.call(TELL, &bytes(9000), SECOND).unwrap_err();
        assert_eq!((status.code(), status.message(), status.metadata()), (Code::Aborted, "later", None));
    }
}

#[test]
fn errors_tell_whether_the_handler_ran() {
    let EchoServer { server, .. } = serve(ServerOptions::default());
    for way in WAYS {
        let mut client = Client::connect(server.local_addr(), &options(way)).unwrap();
        let failed = client.call(FAIL, b"", SECOND).unwrap_err();
        assert_eq!(
            (failed.code(), failed.message(), failed.executed()),
            (Code::NotFound, "nothing here", Executed::Yes)
        );
        let panicked = client.call(PANIC, b"", SECOND).unwrap_err();
        assert_eq!((panicked.code(), panicked.executed()), (Code::Internal, Executed::Yes));
        let missing = client.call(MISSING, b"", SECOND).unwrap_err();
        assert_eq!((missing.code(), missing.executed()), (Code::Unimplemented, Executed::No));
        assert_eq!(client.call(BLOCK, b"still there", SECOND).unwrap(), "still there");
    }
}

#[test]
fn a_deadline_ends_a_call_and_its_slot_comes_back() {
    let EchoServer { server, .. } = serve(ServerOptions::default());
    for way in WAYS {
        let mut client = Client::connect(server.local_addr(), &options(way)).unwrap();
        let late = client.call(LATER, b"slow", Duration::from_millis(3)).unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded, "{way}");
        let until = Instant::now() + SECOND;
        while client.outstanding() > 0 && Instant::now() < until {
            client.poll(|id, _| panic!("{id:?} has ended twice"));
        }
        assert_eq!(client.outstanding(), 0, "{way}");
        assert!(client.start(SAY, b"", Some(Instant::now() - Duration::from_millis(1))).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_share_a_channel() {
    let EchoServer { server, .. } = serve(ServerOptions::default());
    for way in WAYS {
        let channel = Channel::connect(server.local_addr(), options(way)).await.unwrap();
        let tasks: Vec<_> = (0..100)
            .map(|number: usize| {
                let channel = channel.clone();
                tokio::spawn(async move {
                    let method = if number.is_multiple_of(10) { LATER } else { SAY };
                    let mut request = Request::new(Bytes::from(bytes(number * 20)));
                    request.metadata_mut().insert("number", number.to_string());
                    let response = channel.call(method, request).await.unwrap();
                    if method == LATER {
                        assert_eq!(response.metadata().get("number"), Some(number.to_string().as_bytes()));
                    }
                    assert_eq!(response.into_inner(), bytes(number * 20));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(channel.stats().way, Some(way));
        assert_eq!(channel.stats().ok, 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_is_withdrawn() {
    let EchoServer { server, .. } = serve(ServerOptions { pool_threads: 1, ..ServerOptions::default() });
    let channel = Channel::connect(server.local_addr(), options(Way::Immediate)).await.unwrap();
    for _ in 0..3 {
        let call = channel.call(LATER, Request::new(Bytes::from_static(b"nobody waits")));
        assert!(tokio::time::timeout(Duration::from_millis(2), call).await.is_err());
    }
    assert_eq!(channel.call(SAY, Request::new(Bytes::from_static(b"next"))).await.unwrap().into_inner(), "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_finds_a_server_that_comes_back() {
    let EchoServer { server, .. } = serve(ServerOptions::default());
    let address = server.local_addr();
    let channel = Channel::connect(address, options(Way::Immediate)).await.unwrap();
    let say = || channel.call(SAY, Request::new(Bytes::from_static(b"hello")));
    assert_eq!(say().await.unwrap().into_inner(), "hello");
    drop(server);
    let until = Instant::now() + SECOND;
    let lost = loop {
        match say().await {
            Err(status) => break status,
            Ok(_) => assert!(Instant::now() < until, "a dropped server goes on answering"),
        }
    };
    assert_eq!(lost.code(), Code::Unavailable);
    let echo = Methods::new("echo.Echo").direct(SAY, |request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let _server = Server::builder().add_service(echo).unwrap().bind(address).unwrap();
    while say().await.is_err() {
        assert!(Instant::now() < until, "the channel does not find the server again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(channel.stats().sessions >= 2);
}

#[test]
fn a_server_drains_before_it_stops() {
    for way in WAYS {
        let EchoServer { server, runs } = serve(ServerOptions::default());
        let mut client = Client::connect(server.local_addr(), &options(way)).unwrap();
        client.start(LATER, b"accepted", None).unwrap();
        let until = Instant::now() + SECOND;
        while runs.load(Ordering::SeqCst) == 0 {
            client.poll(|_, _| ());
            assert!(Instant::now() < until, "{way}: the handler does not run");
        }
        let stopping = std::thread::spawn(move || server.shut_down(SECOND));
        let mut answer = None;
        while answer.is_none() {
            client.poll(|_, reply| answer = Some(reply.map(<[u8]>::to_vec)));
            assert!(Instant::now() < until, "{way}: no answer");
        }
        assert_eq!(answer.unwrap().unwrap(), b"accepted");
        let refused = loop {
            match client.call(SAY, b"", SECOND) {
                Err(status) => break status,
                Ok(_) => assert!(Instant::now() < until, "{way}: the server does not drain"),
            }
        };
        assert_eq!((refused.code(), refused.executed()), (Code::Unavailable, Executed::No), "{way}");
        assert!(stopping.join().unwrap(), "{way}: not all were answered");
    }
}

#[test]
fn a_way_that_the_server_lacks_is_refused() {
    let EchoServer { server, .. } = serve(ServerOptions { ways: vec![Way::Ring], ..ServerOptions::default() });
    let refused = Client::connect(server.local_addr(), &options(Way::Immediate)).unwrap_err();
    assert_eq!((refused.code(), refused.executed()), (Code::FailedPrecondition, Executed::No));
    let any = ClientOptions { connect_timeout: SECOND, ..ClientOptions::default() };
    assert_eq!(Client::connect(server.local_addr(), &any).unwrap().way(), Way::Ring);
}

//! Published bytes: replies and requests that the peer READs out of registered memory.

use std::time::{Duration, Instant};

use longarm_rpc::{
    Client, ClientOptions, Code, Executed, Method, Methods, NotStarted, Published, Server, ServerOptions, Status, Way,
};

const GET: Method = Method::new("/blob.Store/Get");
const SUM: Method = Method::new("/blob.Store/Sum");
const PATIENCE: Duration = Duration::from_secs(20);
const STORED_BYTES: usize = 9 << 20;

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

fn stored() -> Vec<u8> {
    (0..STORED_BYTES).map(pattern).collect()
}

/// `Get` replies with the range of stored bytes that the request names, `Sum` with the sum of the request's bytes.
fn store(bytes: Published) -> Methods {
    Methods::new("blob.Store")
        .published(GET, move |request| {
            let words = request.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word) as usize);
            let (start, end) = (words.clone().next().unwrap_or(0), words.clone().nth(1).unwrap_or(0));
            bytes.slice(start..end).ok_or_else(|| Status::invalid_argument("no such range"))
        })
        .direct(SUM, |request, reply| {
            reply.extend_from_slice(&sum(request).to_le_bytes());
            Ok(())
        })
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

fn serve(bytes: &Published, threads: usize) -> Server {
    let options = ServerOptions { threads, ..ServerOptions::default() };
    Server::builder().add_service(store(bytes.clone())).unwrap().options(options).bind("127.0.0.1:0").unwrap()
}

fn connect(server: &Server, way: Way) -> Client {
    let options = ClientOptions { way: Some(way), connect_timeout: PATIENCE, ..ClientOptions::default() };
    Client::connect(server.local_addr(), &options).unwrap()
}

fn range(start: usize, end: usize) -> Vec<u8> {
    [start as u64, end as u64].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn get_all_sizes(client: &mut Client) {
    for len in [0, 1, 100, 4096, 4097, 40_000, 1 << 20, 8 << 20] {
        for start in [0, 1, 4099] {
            let reply = client.call(GET, &range(start, start + len), PATIENCE).unwrap();
            assert!(reply.iter().copied().eq((start..start + len).map(pattern)), "{}: {len} at {start}", client.way());
        }
    }
}

#[test]
fn replies_of_all_sizes_arrive_on_every_way() {
    let server = serve(&Published::new(stored()), 2);
    for way in Way::ALL {
        let mut client = connect(&server, way);
        get_all_sizes(&mut client);
        let beyond = client.call(GET, &range(0, STORED_BYTES + 1), PATIENCE).unwrap_err();
        assert_eq!((beyond.code(), beyond.executed()), (Code::InvalidArgument, Executed::Yes));
        let too_long = client.call(GET, &range(0, STORED_BYTES), PATIENCE).unwrap_err();
        assert_eq!((too_long.code(), too_long.executed()), (Code::ResourceExhausted, Executed::Yes), "{way}");
    }
}

#[test]
fn two_servers_may_publish_the_same_bytes() {
    let bytes = Published::new(stored());
    let servers = [serve(&bytes, 1), serve(&bytes, 1)];
    for server in &servers {
        get_all_sizes(&mut connect(server, Way::Ring));
    }
    drop(bytes);
    let [first, second] = servers;
    drop(first);
    get_all_sizes(&mut connect(&second, Way::Immediate));
}

#[test]
fn requests_are_read_where_they_lie() {
    let server = serve(&Published::new(vec![0]), 1);
    let bytes = Published::new(stored());
    let all = stored();
    for way in Way::ALL {
        let mut client = connect(&server, way);
        for (start, len) in [(0, 0), (5, 3), (1, 4096), (3, 5000), (7, 8 << 20)] {
            let slice = bytes.slice(start..start + len).unwrap();
            client.start_published(SUM, &slice, Some(Instant::now() + PATIENCE)).unwrap();
            let mut reply = None;
            while reply.is_none() {
                client.poll(|_, ended| reply = Some(ended.map(<[u8]>::to_vec)));
            }
            assert_eq!(reply.unwrap().unwrap(), sum(&all[start..start + len]).to_le_bytes(), "{way}: {len} at {start}");
        }
        match client.start_published(SUM, &bytes.clone().into(), None) {
            Err(NotStarted::Refused(status)) => assert_eq!(status.code(), Code::ResourceExhausted),
            other => panic!("{way}: a request that is too long was started: {other:?}"),
        }
    }
}

#[test]
fn many_published_replies_at_a_time_end_in_a_stopped_server_without_a_trace() {
    let server = serve(&Published::new(stored()), 1);
    let mut client = connect(&server, Way::Ring);
    for at in 0..8 {
        client.start(GET, &range(at, at + (1 << 20)), None).unwrap();
    }
    drop(server);
    let (mut ended, until) = (0, Instant::now() + PATIENCE);
    while ended < 8 && Instant::now() < until {
        ended += client.poll(|_, reply| {
            if let Ok(reply) = reply {
                assert_eq!(reply.len(), 1 << 20);
            }
        });
    }
    assert_eq!(ended, 8, "every call ends");
}

//! A memory server in a process of its own: regions, rights, leases, clients that are killed or break the rules.

use std::process::Child;
use std::time::Duration;

use longarm::{Connection, RemoteKey, Route};
use longarm_remote::{
    MemoryClient, MemoryClientOptions, MemoryServer, MemoryServerOptions, PieceLife, ProofSecret, RegionError,
    RegionRole, RemoteRegion, TenantOptions, connection_data,
};
use longarm_rpc::{Client, ClientOptions, Code, Method};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1:7490";
const OWNER: &[u8; 16] = b"an owner's secre";
/// The word in which a client counts, behind its pieces.
const COUNT_AT: u64 = (64 << 10) - 8;
const LEASE: Duration = Duration::from_millis(1500);

/// Runs `body` with a hub and a namespace; over packets if `wire` is true.
fn with_hub(test: &str, wire: bool, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => {
            let mut body = testkit::run_again(test, "body");
            if wire {
                body.env("LONGARM_LOCAL", "off");
            }
            hub::testing::passes_with_hub(&format!("regions-{test}"), body);
        }
        Some("body") => body(),
        Some(role) => {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            if role == "server" { serve() } else { hold() }
        }
    }
}

fn serve() {
    let options = MemoryServerOptions {
        memory_bytes: 16 << 20,
        lease: LEASE,
        client_pieces: 100,
        ..MemoryServerOptions::default()
    };
    let secret = Some(owner());
    let bounded = TenantOptions { secret, max_bytes: 1 << 20, max_regions: 3 };
    let builder = MemoryServer::builder(options).tenant("open", TenantOptions::default()).tenant("closed", bounded);
    builder.bind(ADDRESS).unwrap().wait();
}

/// A client that has pieces, counts in the first word, and is killed.
fn hold() {
    let client = client();
    let region = client.open("open", "shared", RegionRole::Writer, None).unwrap();
    for _ in 0..10 {
        region.allocate(4000, PieceLife::Client).unwrap();
    }
    loop {
        region.fetch_add(COUNT_AT, 1).unwrap();
    }
}

/// A process of the test. Dropping it kills it.
struct Part(Child);

impl Part {
    fn start(role: &str) -> Part {
        let test = std::thread::current().name().expect("the thread of a test").to_owned();
        Part(testkit::run_again(&test, role).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn owner() -> ProofSecret {
    ProofSecret::new(OWNER).unwrap()
}

fn client() -> MemoryClient {
    let options = || MemoryClientOptions { timeout: PATIENCE, ..MemoryClientOptions::default() };
    testkit::wait_for("the server listens", || MemoryClient::connect(ADDRESS, options()).ok())
}

fn code<T: std::fmt::Debug>(outcome: Result<T, RegionError>) -> Code {
    match outcome {
        Err(RegionError::Server(status)) => status.code(),
        other => panic!("{other:?}"),
    }
}

fn word(region: &RemoteRegion, at: u64) -> u64 {
    let mut bytes = [0; 8];
    region.read(at, &mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

fn all_operations() {
    let server = Part::start("server");
    let (one, two) = (client(), client());
    one.create("open", "r", 3 << 20).unwrap();
    let region = one.open("open", "r", RegionRole::Writer, None).unwrap();
    let reader = two.open("open", "r", RegionRole::Reader, None).unwrap();
    // More than one READ and WRITE, at odd places.
    let bytes: Vec<u8> = (0..(2 << 20) + 77).map(|at| (at % 251) as u8).collect();
    region.write(13, &bytes).unwrap();
    let mut copy = vec![0; bytes.len()];
    reader.read(13, &mut copy).unwrap();
    assert!(copy == bytes);
    assert_eq!(word(&reader, 3_000_000 / 8 * 8), 0, "a region begins with zeros");
    let at = (3 << 20) - 8;
    assert_eq!((region.fetch_add(at, 7).unwrap(), region.compare_swap(at, 7, 9).unwrap()), (0, 7));
    assert_eq!((region.compare_swap(at, 7, 8).unwrap(), word(&reader, at)), (9, 9));
    // Bounds and rights are checked before anything is sent.
    assert!(matches!(region.read(at, &mut [0; 9]), Err(RegionError::Key(_))));
    assert!(matches!(region.write(u64::MAX, &[0]), Err(RegionError::Key(_))));
    for wrong in [at + 8, at + 1, u64::MAX, 4] {
        assert!(matches!(region.fetch_add(wrong, 1), Err(RegionError::Key(_))), "{wrong}");
    }
    assert!(matches!(reader.write(0, &[1]), Err(RegionError::ReadOnly)));
    assert!(matches!(reader.fetch_add(0, 1), Err(RegionError::ReadOnly)));
    assert_eq!(code(reader.allocate(10, PieceLife::Client)), Code::PermissionDenied);
    // The data of a server that is stopped are there on one host; over packets nobody answers.
    if std::env::var_os("LONGARM_LOCAL").is_none() {
        server.signal(Signal::STOP);
        assert_eq!(word(&reader, at), 9);
        server.signal(Signal::CONT);
    }
    // A dropped region is gone for all, and its memory comes back as zeros.
    one.drop_region("open", "r").unwrap();
    assert!(matches!(reader.read(0, &mut [0; 8]), Err(RegionError::Link(_))));
    assert_eq!(code(client().open("open", "r", RegionRole::Reader, None)), Code::NotFound);
    let three = client();
    three.create("open", "s", 8 << 20).unwrap();
    let fresh = three.open("open", "s", RegionRole::Writer, None).unwrap();
    let mut copy = vec![1; 8 << 20];
    fresh.read(0, &mut copy).unwrap();
    assert!(copy.iter().all(|byte| *byte == 0));
}

#[test]
fn regions_are_read_and_written_on_one_host() {
    with_hub("regions_are_read_and_written_on_one_host", false, all_operations);
}

#[test]
fn regions_are_read_and_written_over_packets() {
    with_hub("regions_are_read_and_written_over_packets", true, all_operations);
}

#[test]
fn pieces_of_a_client_that_was_killed_go_back_with_its_lease() {
    with_hub("pieces_of_a_client_that_was_killed_go_back_with_its_lease", false, || {
        let _server = Part::start("server");
        let client = client();
        client.create("open", "shared", 64 << 10).unwrap();
        let info = || client.list("open").unwrap().remove(0);
        let region = client.open("open", "shared", RegionRole::Writer, None).unwrap();
        let kept = region.allocate(100, PieceLife::Region).unwrap();
        for life in 0..2 {
            let other = Part::start("client");
            testkit::wait_until("the other has its pieces", || info().pieces == 11 && word(&region, COUNT_AT) > 0);
            assert_eq!(info().clients, 2);
            // One that is only stopped loses them, too, and its key: it changes nothing when it goes on.
            if life == 0 {
                drop(other);
                testkit::wait_until("the pieces are back", || info().pieces == 1 && info().clients == 1);
            } else {
                other.signal(Signal::STOP);
                testkit::wait_until("the pieces are back", || info().pieces == 1 && info().clients == 1);
                let count = word(&region, COUNT_AT);
                other.signal(Signal::CONT);
                let mut other = other;
                assert!(!other.0.wait().unwrap().success(), "it finds out");
                assert_eq!(word(&region, COUNT_AT), count);
            }
            region.write(COUNT_AT, &[0; 8]).unwrap();
        }
        region.free(kept).unwrap();
        assert_eq!(info().used_bytes, 0);
        // A client that works keeps its lease; one that sleeps too long has lost it.
        let began = std::time::Instant::now();
        while began.elapsed() < 2 * LEASE {
            region.write(0, &[1; 8]).unwrap();
            std::thread::sleep(LEASE / 10);
        }
        std::thread::sleep(2 * LEASE);
        assert!(matches!(client.renew(), Err(RegionError::LeaseEnded)));
        assert!(region.read(0, &mut [0; 8]).is_err());
    });
}

#[test]
fn tenants_have_rights_and_bounds() {
    with_hub("tenants_have_rights_and_bounds", false, || {
        let _server = Part::start("server");
        let (one, two) = (client(), client());
        assert_eq!(code(one.create("closed", "r", 100)), Code::PermissionDenied);
        assert_eq!(code(one.list("closed")), Code::PermissionDenied);
        assert_eq!(code(one.list("none")), Code::NotFound);
        let wrong = ProofSecret::new(b"another secret of 22 b").unwrap();
        assert_eq!(code(one.own("closed", &wrong)), Code::Unauthenticated);
        assert_eq!(code(one.own("open", &owner())), Code::FailedPrecondition);
        one.own("closed", &owner()).unwrap();
        one.create("closed", "r", 64 << 10).unwrap();
        assert_eq!(code(two.list("closed")), Code::PermissionDenied, "the proof is the other client's");
        assert_eq!(code(one.create("closed", "big", 1 << 20)), Code::ResourceExhausted);
        one.create("closed", "s", 100).unwrap();
        one.create("closed", "t", 100).unwrap();
        assert_eq!(code(one.create("closed", "u", 100)), Code::ResourceExhausted);
        // Secrets of a region and a role, made by the owner.
        let secret = |region, role| owner().of_region("closed", region, role);
        let (reading, writing) = (secret("r", RegionRole::Reader), secret("r", RegionRole::Writer));
        let open = |role, secret: &ProofSecret| two.open("closed", "r", role, Some(secret));
        for (role, wrong) in [
            (RegionRole::Writer, &reading),
            (RegionRole::Reader, &writing),
            (RegionRole::Reader, &secret("s", RegionRole::Reader)),
            (RegionRole::Writer, &owner()),
        ] {
            assert_eq!(code(open(role, wrong)), Code::Unauthenticated);
        }
        assert_eq!(code(two.open("closed", "r", RegionRole::Reader, None)), Code::PermissionDenied);
        let (reader, writer) =
            (open(RegionRole::Reader, &reading).unwrap(), open(RegionRole::Writer, &writing).unwrap());
        writer.write(8, &5_u64.to_ne_bytes()).unwrap();
        assert_eq!(word(&reader, 8), 5);
        let own = one.open("closed", "r", RegionRole::Writer, None).unwrap();
        assert_eq!(own.fetch_add(8, 1).unwrap(), 5);
        // Pieces: bounded, and safe from other clients.
        let pieces: Vec<u64> = (0..100).map(|_| writer.allocate(64, PieceLife::Client).unwrap()).collect();
        assert_eq!(code(writer.allocate(64, PieceLife::Client)), Code::ResourceExhausted);
        assert_eq!(code(own.free(pieces[0])), Code::PermissionDenied);
        writer.free(pieces[0]).unwrap();
        writer.allocate(64, PieceLife::Client).unwrap();
        drop((reader, writer, two));
        testkit::wait_until("its pieces are back", || one.list("closed").unwrap()[0].pieces == 0);
    });
}

/// A connection that somebody makes without the client library.
fn connect(port: u16, data: &[u8]) -> Option<Connection> {
    let address = format!("127.0.0.1:{port}");
    let device = Route::to(address.as_str()).wait(PATIENCE).ok()?.open_device().ok()?;
    let (domain, queue) = (device.protection_domain().ok()?, device.completion_queue().ok()?);
    longarm::connect(address.as_str(), domain.rc(&queue), data).wait(PATIENCE).ok()
}

#[test]
fn hostile_clients_change_nothing() {
    with_hub("hostile_clients_change_nothing", true, || {
        let _server = Part::start("server");
        let tenant = client();
        tenant.own("closed", &owner()).unwrap();
        tenant.create("closed", "r", 4096).unwrap();
        let region = tenant.open("closed", "r", RegionRole::Writer, None).unwrap();
        region.write(0, &7_u64.to_ne_bytes()).unwrap();
        let mut hostile = Client::connect(ADDRESS, &ClientOptions::default()).unwrap();
        let begin = || Method::new("/longarm.memory.Server/Begin");
        let begun = hostile.call(begin(), &postcard::to_stdvec(&1_u16).unwrap(), PATIENCE).unwrap();
        let (token, _, port): ([u8; 16], [u8; 32], u16) = postcard::take_from_bytes(&begun).unwrap().0;
        let other = hostile.call(begin(), &postcard::to_stdvec(&2_u16).unwrap(), PATIENCE).unwrap_err();
        assert_eq!(other.code(), Code::InvalidArgument);
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..3000 {
            let longest = [0, 3, 20, 90, 400][random.usize(..5)];
            let body: Vec<u8> = (0..random.usize(..=longest)).map(|_| random.u8(..)).collect();
            // With a right token, and with a guess.
            let head = if round % 2 == 0 { token } else { random.u128(..).to_le_bytes() };
            let ask = Method::new("/longarm.memory.Server/Ask");
            let answer = hostile.call(ask, &[&head[..], &body].concat(), PATIENCE);
            let codes = [Code::InvalidArgument, Code::Aborted, Code::NotFound, Code::PermissionDenied];
            match answer {
                Err(refused) if codes.contains(&refused.code()) => {}
                // The message was End by chance, or asked for nothing much.
                Ok(_) if round % 2 == 0 => {}
                other => panic!("{other:?}"),
            }
        }
        // The key of another connection, and places beside a region.
        let thief = client();
        thief.create("open", "mine", 4096).unwrap();
        let mine = thief.open("open", "mine", RegionRole::Writer, None).unwrap();
        drop(mine);
        let begun = hostile.call(begin(), &postcard::to_stdvec(&1_u16).unwrap(), PATIENCE).unwrap();
        let (token, _, _): ([u8; 16], [u8; 32], u16) = postcard::take_from_bytes(&begun).unwrap().0;
        let key = region.key();
        for place in [key, RemoteKey::from_parts(key.addr() + 4096, key.rkey(), 8)] {
            let connection = testkit::wait_for("a connection", || connect(port, &connection_data(&token, 1)));
            let buffer = connection.protection_domain().allocate(8).unwrap();
            assert!(connection.read(buffer, &place.word(0).unwrap()).wait(PATIENCE).is_err());
        }
        for data in [&b""[..], &[9; 24], &[0; 56]] {
            assert!(connect(port, data).is_none());
        }
        assert_eq!(word(&region, 0), 7);
        assert_eq!(tenant.list("closed").unwrap().len(), 1);
    });
}

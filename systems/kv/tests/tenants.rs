//! Tables of tenants: secrets, windows, revocation, and clients that break the rules.

mod support;

use longarm::{Connection, RemoteKey, Route};
use longarm_kv::{GetWay, KvError, KvOptions, KvTable, TableSecret};
use longarm_rpc::{Client, ClientOptions, Code, Method};
use support::{ADDRESS, KvProcess, PATIENCE, SECRET, get, open, options, with_hub};

fn client(_: u32) {}

fn with_secret(secret: &[u8], way: GetWay) -> KvOptions {
    KvOptions { secret: Some(TableSecret::new(secret).unwrap()), ..options(way) }
}

#[test]
fn only_clients_with_the_secret_get_in() {
    with_hub("only_clients_with_the_secret_get_in", || {
        let _server = KvProcess::server();
        let mut tenant = open("secret", with_secret(SECRET, GetWay::OneSided));
        tenant.put(b"key", b"value").unwrap();
        let refused = |table: &str, options: KvOptions| KvTable::open(ADDRESS, table, options).map(|_| ()).unwrap_err();
        let other = refused("secret", with_secret(b"another secret of 16", GetWay::OneSided));
        assert!(matches!(other, KvError::NotAuthorized(_)), "{other:?}");
        assert!(matches!(refused("secret", options(GetWay::Rpc)), KvError::NotAuthorized(_)));
        assert!(matches!(refused("none", options(GetWay::Rpc)), KvError::NoSuchTable(_)));
        // A server without the secret is the wrong one.
        assert!(matches!(refused("small", with_secret(SECRET, GetWay::Rpc)), KvError::WrongServer));
        assert_eq!(get(&mut open("small", options(GetWay::OneSided)), b"key"), None, "tables are apart");
        assert_eq!(get(&mut tenant, b"key").unwrap(), b"value");
    });
}

#[test]
fn a_revoked_client_reads_nothing_more() {
    with_hub("a_revoked_client_reads_nothing_more", || {
        let _server = KvProcess::server();
        let [mut one, mut two, mut three] =
            [GetWay::OneSided, GetWay::OneSided, GetWay::Rpc].map(|way| open("secret", with_secret(SECRET, way)));
        one.put(b"key", b"value").unwrap();
        for table in [&mut one, &mut two, &mut three] {
            assert_eq!(get(table, b"key").unwrap(), b"value");
        }
        let clients = one.clients().unwrap();
        assert_eq!(clients.iter().filter(|client| client.address.is_some()).count(), 2);
        assert_eq!(one.revoke(two.client()).unwrap(), 1);
        for _ in 0..2 {
            let refused = two.get(b"key");
            assert!(matches!(refused, Err(KvError::Revoked)), "{refused:?}");
        }
        assert!(matches!(two.put(b"key", b"mine"), Err(KvError::Revoked)));
        assert_eq!(get(&mut three, b"key").unwrap(), b"value");
        assert_eq!(one.revoke(None).unwrap(), 1);
        assert!(matches!(three.get(b"key"), Err(KvError::Revoked)));
        assert_eq!(get(&mut one, b"key").unwrap(), b"value");
        // Clients that go give their right back.
        let four = open("secret", with_secret(SECRET, GetWay::Rpc));
        assert_eq!(one.figures().unwrap().clients, 2);
        drop((two, three, four));
        testkit::wait_until("one client is left", || one.figures().unwrap().clients == 1);
    });
}

#[test]
fn messages_of_hostile_clients_change_nothing() {
    const METHODS: [&str; 17] = [
        "Challenge",
        "Open",
        "Close",
        "Attach",
        "Get",
        "Put",
        "Delete",
        "Add",
        "Expire",
        "Scan",
        "Report",
        "Figures",
        "Begin",
        "Piece",
        "Commit",
        "Clients",
        "Revoke",
    ];
    with_hub("messages_of_hostile_clients_change_nothing", || {
        let _server = KvProcess::server();
        let mut tenant = open("secret", with_secret(SECRET, GetWay::OneSided));
        tenant.put(b"key", b"value").unwrap();
        let before = tenant.figures().unwrap();
        let mut hostile = Client::connect(ADDRESS, &ClientOptions::default()).unwrap();
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..4000_usize {
            let name = METHODS[round % METHODS.len()];
            let method = Method::new(Box::leak(format!("/longarm.kv.Store/{name}").into_boxed_str()));
            let longest = [0, 16, 17, 40, 300, 5000][random.usize(..6)];
            let bytes: Vec<u8> = (0..random.usize(..=longest)).map(|_| random.u8(..)).collect();
            // A random grant is never one that the server has given, and no proof is right.
            let Err(refused) = hostile.call(method, &bytes, PATIENCE) else {
                assert_eq!(name, "Close", "a right that does not exist has ended");
                continue;
            };
            let codes = [Code::InvalidArgument, Code::Aborted, Code::NotFound, Code::Unauthenticated];
            assert!(codes.contains(&refused.code()), "{name}: {refused}");
        }
        let after = tenant.figures().unwrap();
        assert_eq!((after.keys, after.puts, after.deletes, after.clients), (1, before.puts, 0, 1));
        assert_eq!(get(&mut tenant, b"key").unwrap(), b"value");
    });
}

/// A client that speaks the protocol by itself.
struct RawClient {
    rpc: Client,
    grant: [u8; 16],
    data_port: u16,
}

impl RawClient {
    fn call<T: serde::de::DeserializeOwned>(rpc: &mut Client, method: Method, request: &impl serde::Serialize) -> T {
        let reply = rpc.call(method, &postcard::to_allocvec(request).unwrap(), PATIENCE).unwrap();
        postcard::take_from_bytes::<T>(&reply).unwrap().0
    }

    fn open(table: &str) -> RawClient {
        let mut rpc = Client::connect(ADDRESS, &ClientOptions::default()).unwrap();
        let challenge = (3_u16, table);
        let (nonce, _): ([u8; 32], bool) =
            RawClient::call(&mut rpc, Method::new("/longarm.kv.Store/Challenge"), &challenge);
        let request = (table, nonce, [0_u8; 32], [0_u8; 32]);
        let opened: ([u8; 16], u64, [u8; 32], String, u16) =
            RawClient::call(&mut rpc, Method::new("/longarm.kv.Store/Open"), &request);
        RawClient { rpc, grant: opened.0, data_port: opened.4 }
    }

    fn connect(&self, private_data: &[u8]) -> Option<Connection> {
        let address = format!("127.0.0.1:{}", self.data_port);
        let device = Route::to(address.as_str()).wait(PATIENCE).unwrap().open_device().unwrap();
        let (domain, queue) = (device.protection_domain().unwrap(), device.completion_queue().unwrap());
        longarm::connect(address.as_str(), domain.rc(&queue), private_data).wait(PATIENCE).ok()
    }

    /// The key that the server has made for the connection with that number.
    fn key(&mut self, attempt: u64) -> Option<RemoteKey> {
        let attach = Method::new("/longarm.kv.Store/Attach");
        let bytes: Option<Vec<u8>> = RawClient::call(&mut self.rpc, attach, &(self.grant, attempt));
        bytes.map(|bytes| RemoteKey::from_bytes(&bytes).unwrap())
    }

    fn attach(&mut self, attempt: u64) -> (Connection, RemoteKey) {
        let connection = self.connect(&[&self.grant[..], &attempt.to_le_bytes()].concat()).unwrap();
        let key = testkit::wait_for("the server has bound the window", || self.key(attempt));
        (connection, key)
    }
}

/// A READ of the first bytes that a key leads to.
fn read(connection: &Connection, key: &RemoteKey) -> bool {
    let buffer = connection.protection_domain().allocate(64).unwrap();
    connection.read(buffer, &key.at(0, 64).unwrap()).wait(PATIENCE).is_ok()
}

#[test]
fn a_key_is_for_one_connection_and_for_reading() {
    with_hub("a_key_is_for_one_connection_and_for_reading", || {
        let _server = KvProcess::server();
        drop(open("small", options(GetWay::OneSided)));
        let [mut one, mut two, mut three] = ["small", "small", "strict"].map(RawClient::open);
        let ((first, first_key), (second, second_key)) = (one.attach(1), two.attach(1));
        assert!(read(&first, &first_key) && read(&second, &second_key));
        assert!(one.key(2).is_none(), "another attempt");
        // A client of another table, and one of the same, use the key that they have seen.
        let (other, _) = three.attach(1);
        assert!(!read(&other, &first_key));
        assert!(!read(&second, &first_key));
        // Reading is all that a key is good for.
        let word = first_key.word(0).unwrap();
        assert!(first.write_inline(&[0; 8], &word).wait(PATIENCE).is_err());
        let (first, first_key) = one.attach(3);
        assert!(first.compare_swap(&first_key.word(0).unwrap(), 0, 0).wait(PATIENCE).is_err());
        // Without a grant, with a part of one, or with a guess, nobody gets a connection.
        for data in [&b""[..], &one.grant[..15], &[7; 24], &[0; 56]] {
            assert!(one.connect(data).is_none());
        }
        assert_eq!(get(&mut open("small", options(GetWay::OneSided)), b"key"), None, "the table is whole");
    });
}

/// Calls that no client of ours makes.
#[test]
fn calls_of_hostile_clients_change_nothing() {
    with_hub("calls_of_hostile_clients_change_nothing", || {
        let _server = KvProcess::server();
        let mut tenant = open("small", options(GetWay::Device));
        tenant.put(b"key", b"value").unwrap();
        let [mut one, mut two] = ["small", "strict"].map(RawClient::open);
        let ((mut connection, mut key), (other, _)) = (one.attach(1), two.attach(1));
        let call = |connection: &Connection, key: &RemoteKey, request: &[u8], room: usize| {
            let buffer = connection.protection_domain().allocate(room).unwrap();
            connection.call(request, buffer, key).wait(PATIENCE).ok().map(|reply| reply.to_vec())
        };
        let found = call(&connection, &key, b"\x01key", 1000).unwrap();
        assert!(found[0] == 1 && found.ends_with(b"value"), "{found:?}");
        assert_eq!(call(&connection, &key, b"\x01key", 8).unwrap(), [2], "no room: ask the server");
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..2000 {
            let longest = [0, 1, 8, 40, 256][random.usize(..5)];
            let request: Vec<u8> = (0..random.usize(..=longest)).map(|_| random.u8(..)).collect();
            let at = random.u64(..key.len_bytes());
            let place = key.at(at, random.u64(..=key.len_bytes() - at)).unwrap();
            let reply = call(&connection, &place, &request, [1, 8, 1000][round % 3]).unwrap();
            assert!(reply.is_empty() || reply == [0] || reply == [2] || reply == [3], "{request:?}: {reply:?}");
        }
        // Beyond the table, and by a connection whose window it is not.
        let beyond = RemoteKey::from_parts(key.addr() + key.len_bytes(), key.rkey(), 8);
        assert_eq!(call(&connection, &beyond, b"\x01key", 100), None);
        (connection, key) = one.attach(2);
        assert_eq!(call(&other, &key, b"\x01key", 100), None);
        assert!(call(&connection, &key, b"\x01key", 100).is_some());
        assert_eq!(get(&mut tenant, b"key").unwrap(), b"value");
        assert_eq!(tenant.figures().unwrap().keys, 1);
    });
}

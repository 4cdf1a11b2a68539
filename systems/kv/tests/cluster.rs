//! One table on two servers, which have the slots of Redis Cluster.

mod support;

use longarm_kv::{ClusterConfig, GetWay, HashSlot, KvCluster, KvError, KvServer, KvTable, KvValue, TableOptions};

const SERVERS: [(&str, &str); 2] = [("a", "127.0.0.1:7491"), ("b", "127.0.0.1:7492")];

fn client(_: u64) {}

/// Starts one of the servers; the one before may just be going.
fn start((name, address): (&str, &str)) -> KvServer {
    let options = TableOptions { max_bytes: 16 << 20, keys: 64, ..TableOptions::default() };
    testkit::wait_for("the server starts", || {
        let config = ClusterConfig::fixed(&SERVERS).unwrap();
        KvServer::builder().cluster(config, name).table("t", options.clone()).bind(address).ok()
    })
}

fn bytes(found: Option<KvValue>) -> Option<Vec<u8>> {
    found.map(|value| value.bytes)
}

#[test]
fn keys_are_where_their_slots_are() {
    support::with_hub("keys_are_where_their_slots_are", || {
        let servers = SERVERS.map(start);
        for way in GetWay::ALL {
            // One address is enough.
            let mut cluster = KvCluster::open(&[SERVERS[1].1], "t", support::options(way)).unwrap();
            assert_eq!(cluster.config().unwrap().members.len(), 2);
            for number in 0..200_u32 {
                let key = format!("{}-{number}", way.name()).into_bytes();
                cluster.with(&key, |table| table.put(&key, &number.to_le_bytes())).unwrap();
                let found = cluster.with(&key, |table| table.get(&key)).unwrap();
                assert_eq!(bytes(found), Some(number.to_le_bytes().to_vec()));
            }
        }
        // Half of them on each.
        let mut counts = Vec::new();
        let mut cluster = KvCluster::open(&[SERVERS[0].1], "t", support::options(GetWay::Rpc)).unwrap();
        let scan = |table: &mut KvTable| table.scan(0, 1000, b"").map(|(keys, _)| counts.push(keys));
        cluster.on_each(scan).unwrap();
        assert_eq!(counts.iter().map(Vec::len).sum::<usize>(), 200 * GetWay::ALL.len());
        for (number, keys) in counts.iter().enumerate() {
            let half = |key: &Vec<u8>| usize::from(HashSlot::of_key(key).number() / 8192);
            assert!(keys.len() > 100 && keys.iter().all(|key| half(key) == number), "{}", keys.len());
        }
        drop(servers);
    });
}

/// Each request about a key that another server has is refused, with the address of that server, and changes nothing.
#[test]
fn a_key_of_another_server_is_refused() {
    support::with_hub("a_key_of_another_server_is_refused", || {
        let servers = SERVERS.map(start);
        // Slot 12182: of the second server.
        let (key, long) = (b"foo", vec![7; 5 << 20]);
        let mut first = KvTable::open(SERVERS[0].1, "t", support::options(GetWay::Rpc)).unwrap();
        let refusals = [
            first.get(key).map(drop),
            first.put(key, b"x").map(drop),
            first.put(key, &long).map(drop),
            first.insert(key, b"x").map(drop),
            first.add(key, 1).map(drop),
            first.delete(key).map(drop),
            first.persist(key).map(drop),
            first.time_to_live(key).map(drop),
            first.multi_put(1, |_| (key, b"x")).map(drop),
        ];
        for (number, refused) in refusals.into_iter().enumerate() {
            let Err(KvError::Moved { slot, address, epoch }) = refused else { panic!("{number}: {refused:?}") };
            assert_eq!((slot, address.as_str(), epoch), (12_182, SERVERS[1].1, 1));
        }
        assert_eq!(first.figures().unwrap().keys, 0);
        // Callers in the process have to ask whether the key is this server's.
        assert!(servers[0].local_table("t").is_some_and(|table| table.serving_right().is_some()));
        let mut cluster = KvCluster::open(&[SERVERS[0].1], "t", support::options(GetWay::OneSided)).unwrap();
        cluster.with(key, |table| table.put(key, &long)).unwrap();
        assert_eq!(bytes(cluster.with(key, |table| table.get(key)).unwrap()), Some(long));
        drop(servers);
    });
}

#[test]
fn a_server_that_was_away_is_found_again() {
    support::with_hub("a_server_that_was_away_is_found_again", || {
        let [a, b] = SERVERS.map(start);
        let mut cluster = KvCluster::open(&[SERVERS[0].1], "t", support::options(GetWay::OneSided)).unwrap();
        for key in [b"bar", b"foo"] {
            cluster.with(key, |table| table.put(key, b"1")).unwrap();
        }
        drop(b);
        // The other server goes on.
        assert_eq!(bytes(cluster.with(b"bar", |table| table.get(b"bar")).unwrap()), Some(b"1".to_vec()));
        let b = start(SERVERS[1]);
        // It has lost its data.
        assert_eq!(bytes(cluster.with(b"foo", |table| table.get(b"foo")).unwrap()), None);
        cluster.with(b"foo", |table| table.put(b"foo", b"2")).unwrap();
        drop((a, b));
    });
}

#[test]
fn a_name_that_is_no_member_is_refused() {
    let config = ClusterConfig::fixed(&SERVERS).unwrap();
    support::with_hub("a_name_that_is_no_member_is_refused", || {
        let refused = KvServer::builder().cluster(config, "c").bind("127.0.0.1:0").unwrap_err();
        assert!(refused.to_string().contains("no member \"c\""), "{refused}");
    });
}

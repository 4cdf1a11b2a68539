//! GETs that the server's device carries out: on one host and over packets, while others write, and by those who may not.

mod support;

use longarm_kv::{GetWay, KvError, KvOptions, KvTable, TableSecret};
use support::{KvProcess, SECRET, get, open, options, with_hub};

const KEYS: u32 = 60;

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// A value of a round, of one of many lengths: some are longer than a reply.
fn value(number: u32, round: u32) -> Vec<u8> {
    let len_bytes = if number % 20 == 7 { 20_000 } else { 4 + (number * 37 + round * 11) as usize % 900 };
    round.to_le_bytes().into_iter().cycle().take(len_bytes).collect()
}

/// The writer's process: rounds of puts.
fn client(_: u32) {
    let mut table = open("cluster", options(GetWay::Rpc));
    for round in 1.. {
        for number in 0..KEYS {
            table.put(&key(number), &value(number, round)).unwrap();
        }
    }
}

fn read_while_others_write() {
    let _server = KvProcess::server();
    let mut table = open("cluster", options(GetWay::Device));
    for number in 0..KEYS {
        table.put(&key(number), &value(number, 0)).unwrap();
    }
    let _writer = KvProcess::start("client 0");
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let (mut seen, mut rounds) = (vec![0; KEYS as usize], 0);
    while *seen.iter().min().unwrap() < 20 || rounds < 30 {
        let mut told = 0;
        rounds += 1;
        table
            .multi_get(&keys, |number, found| {
                let (bytes, _) = found.unwrap_or_else(|| panic!("key {number} is missing"));
                let round = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                assert!(bytes == value(number as u32, round), "key {number}: a torn value of round {round}");
                assert!(round >= seen[number], "key {number}: round {round} after {}", seen[number]);
                (seen[number], told) = (round, told + 1);
            })
            .unwrap();
        assert_eq!(told, KEYS);
    }
    let stats = table.stats();
    assert!(
        stats.device_gets == rounds * u64::from(KEYS) && stats.reads == 0 && stats.one_sided_gets == 0,
        "{stats:?}"
    );
    assert!(stats.rpc_gets > 0 && stats.rpc_gets < stats.device_gets / 4, "long values go by RPC: {stats:?}");
}

#[test]
fn the_device_reads_while_others_write() {
    with_hub("the_device_reads_while_others_write", read_while_others_write);
}

#[test]
fn the_device_reads_over_packets() {
    with_hub("the_device_reads_over_packets", || {
        if std::env::var_os("LONGARM_LOCAL").is_none() {
            let mut again = testkit::run_again("the_device_reads_over_packets", "body");
            testkit::must_succeed(again.env("LONGARM_LOCAL", "off"));
            return;
        }
        read_while_others_write();
    });
}

#[test]
fn a_revoked_client_is_refused_and_others_go_on() {
    with_hub("a_revoked_client_is_refused_and_others_go_on", || {
        let _server = KvProcess::server();
        let tenant = || {
            let secret = Some(TableSecret::new(SECRET).unwrap());
            open("secret", KvOptions { secret, ..options(GetWay::Device) })
        };
        let (mut one, mut two) = (tenant(), tenant());
        one.put(b"key", b"value").unwrap();
        for table in [&mut one, &mut two] {
            assert_eq!(get(table, b"key").unwrap(), b"value");
            assert_eq!(get(table, b"none"), None);
        }
        let revoked = |table: &mut KvTable| matches!(table.get(b"key"), Err(KvError::Revoked));
        assert_eq!(two.revoke(one.client()).unwrap(), 1);
        assert!(revoked(&mut one) && revoked(&mut one));
        assert_eq!(get(&mut two, b"key").unwrap(), b"value");
        assert!(matches!(one.put(b"key", b"other"), Err(KvError::Revoked)));
    });
}

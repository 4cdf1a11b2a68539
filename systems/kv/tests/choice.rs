//! Clients that choose at run time who searches, with a server in another process.

mod support;

use std::time::Duration;

use longarm_kv::{GetWay, KvOptions};
use support::{KvProcess, get, open, options, with_hub};

fn client(_: u32) {}

#[test]
fn a_choosing_client_tries_both_ways_and_reads_alone_while_the_server_stands() {
    with_hub("a_choosing_client_tries_both_ways_and_reads_alone_while_the_server_stands", || {
        let server = KvProcess::server();
        for layout in ["tree", "cluster"] {
            // Far less than all requests below would take if each waited for the server.
            let short = KvOptions { timeout: Duration::from_secs(2), ..options(GetWay::Choose) };
            let mut table = open(layout, short);
            let keys: Vec<[u8; 4]> = (0..500_u32).map(u32::to_be_bytes).collect();
            keys.iter().for_each(|key| assert!(table.put(key, key).is_ok()));
            let every_way = |table: &mut longarm_kv::KvTable| {
                for key in &keys {
                    assert_eq!(get(table, key).unwrap(), key);
                }
                assert_eq!(get(table, b"none"), None);
                let mut told = 0;
                table
                    .multi_get(&keys, |number, found| {
                        told += 1;
                        assert_eq!(found.unwrap().0, keys[number]);
                    })
                    .unwrap();
                assert_eq!(told, keys.len());
                if layout == "tree" {
                    let items = table.range(keys[3]..keys[103], 60).unwrap();
                    assert!(items.len() == 60 && items.iter().zip(&keys[3..]).all(|(item, key)| item.key == key));
                }
            };
            testkit::wait_until("both ways were tried", || {
                every_way(&mut table);
                let stats = table.stats();
                stats.one_sided_gets > 0 && stats.rpc_gets > 0
            });
            server.stop();
            let before = table.stats();
            (0..40).for_each(|_| every_way(&mut table));
            let stats = table.stats();
            assert!(stats.one_sided_gets >= before.one_sided_gets + 40 * 1001, "{stats:?} after {before:?}");
            server.go_on();
            testkit::wait_until("the server is asked again", || {
                every_way(&mut table);
                table.stats().rpc_gets > stats.rpc_gets
            });
        }
    });
}

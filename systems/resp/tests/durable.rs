//! A door to a table that is kept on disk.

mod support;

use std::path::Path;

use longarm_kv::{DataOptions, FsyncRule, KvServer, TableOptions};
use longarm_resp::{RespOptions, RespServer};
use support::{DOOR, OpenDoor, Raw, with_hub};

fn open(place: &Path, fsync: FsyncRule) -> OpenDoor {
    let data = DataOptions { fsync, ..DataOptions::new(place) };
    let builder = KvServer::builder().table("default", TableOptions::default()).data(data);
    let server = builder.bind("127.0.0.1:7480").unwrap();
    let table = server.local_table("default").unwrap();
    OpenDoor { door: RespServer::open(table, DOOR, RespOptions::default()).unwrap(), server }
}

#[test]
fn a_restart_keeps_all_that_was_answered() {
    with_hub("a_restart_keeps_all_that_was_answered", || {
        for (fsync, name) in
            [(FsyncRule::Always, "always"), (FsyncRule::EverySecond, "everysec"), (FsyncRule::Never, "no")]
        {
            let place = testkit::TestDir::new("resp-durable");
            let door = open(place.path(), fsync);
            let mut raw = Raw::connect(DOOR);
            assert_eq!(raw.ask(&["config", "get", "appendonly"]), "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n");
            assert!(raw.ask(&["config", "get", "appendfsync"]).contains(name));
            assert!(raw.ask(&["info", "persistence"]).contains("aof_enabled:1\r\n"));
            for number in 0..100 {
                assert_eq!(raw.ask(&["set", &format!("k{number}"), &number.to_string()]), "+OK\r\n");
            }
            assert_eq!(raw.ask(&["mset", "a", "1", "b", "2"]), "+OK\r\n");
            assert_eq!(raw.ask(&["del", "k7"]), ":1\r\n");
            assert_eq!(raw.ask(&["expire", "a", "10000"]), ":1\r\n");
            raw.send_bytes(b"multi\r\nincr b\r\nappend b !\r\nexec\r\n").unwrap();
            let replies: Vec<_> = (0..4).map(|_| raw.reply().unwrap()).collect();
            assert_eq!(replies[3], b"*2\r\n:3\r\n:2\r\n");
            drop((raw, door));
            let _door = open(place.path(), fsync);
            let mut raw = Raw::connect(DOOR);
            assert_eq!(raw.ask(&["dbsize"]), ":101\r\n");
            assert_eq!(raw.ask(&["mget", "k0", "k7", "k99", "b"]), "*4\r\n$1\r\n0\r\n$-1\r\n$2\r\n99\r\n$2\r\n3!\r\n");
            let left: i64 = raw.ask(&["ttl", "a"])[1..].trim_end().parse().unwrap();
            assert!((9000..=10_000).contains(&left), "{left}");
        }
    });
}

#[test]
fn a_table_in_memory_says_so() {
    with_hub("a_table_in_memory_says_so", || {
        let _door = OpenDoor::new(RespOptions::default());
        let mut raw = Raw::connect(DOOR);
        assert_eq!(raw.ask(&["config", "get", "appendonly"]), "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
        assert!(raw.ask(&["info", "persistence"]).contains("aof_enabled:0\r\n"));
    });
}

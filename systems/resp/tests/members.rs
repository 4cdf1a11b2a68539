//! Doors of servers that keep backups of each other's keys: Redis clients lose nothing that was answered when servers go, and
//! while slots move.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longarm_kv::{
    ClusterOrder, KvCluster, KvOptions, KvServer, LocalCoordinator, MemberOptions, MembershipOptions, TableOptions,
};
use longarm_resp::{RespOptions, RespServer};
use redis::Commands;
use redis::cluster::{ClusterClient, ClusterConnection};
use support::{Raw, with_hub};

/// Name, address and door of each.
const MEMBERS: [(&str, &str, &str); 3] = [
    ("a", "127.0.0.1:7481", "127.0.0.1:7001"),
    ("b", "127.0.0.1:7482", "127.0.0.1:7002"),
    ("c", "127.0.0.1:7483", "127.0.0.1:7003"),
];

/// Fields drop in this order.
struct MemberDoor {
    door: RespServer,
    _server: KvServer,
}

/// Starts a member; the one before at its address may just be going.
fn start((name, address, door): (&str, &str, &str), coordinator: &LocalCoordinator) -> MemberDoor {
    let member = MemberOptions {
        name: name.into(),
        address: address.into(),
        term: Duration::from_millis(1000),
        replicas: 1,
        form_with: 3,
        ..MemberOptions::default()
    };
    // On a busy machine nobody is left out for being slow.
    let options = MembershipOptions { member, secret: None, patience: Duration::from_secs(20) };
    let server = testkit::wait_for("the server starts", || {
        let builder =
            KvServer::builder().table("default", TableOptions { max_bytes: 64 << 20, ..TableOptions::default() });
        builder.member(options.clone(), coordinator.clone()).bind(address).ok()
    });
    let mut options = RespOptions::default();
    options.doors = MEMBERS.iter().map(|(name, _, door)| ((*name).into(), (*door).into())).collect();
    let table = server.local_table("default").unwrap();
    MemberDoor { door: RespServer::open(table, door, options).unwrap(), _server: server }
}

/// Waits until each share has a primary and a backup.
fn all_have_backups() -> KvCluster {
    let servers = MEMBERS.map(|(_, address, _)| address);
    let mut cluster =
        testkit::wait_for("the cluster is formed", || KvCluster::open(&servers, "default", KvOptions::default()).ok());
    testkit::wait_until("all shares have backups", || {
        let _ = cluster.refresh();
        cluster
            .config()
            .is_some_and(|config| config.shares.iter().all(|share| share.primary.is_some() && share.backups.len() == 1))
    });
    cluster
}

/// A client that repeats nothing: this one would send `INCR` again when a connection broke, and never ask for the slots of a server
/// that is gone. So a test that gets an error connects anew.
fn connect() -> ClusterConnection {
    let places = MEMBERS.map(|(_, _, door)| format!("redis://{door}"));
    testkit::wait_for("a door lets the client in", || {
        ClusterClient::builder(places.clone()).retries(0).build().unwrap().get_connection().ok()
    })
}

/// Sets a mark when it is dropped, also by a panic.
struct MarkAtEnd<'a>(&'a AtomicBool);

impl Drop for MarkAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The changes of a client: all that was answered is there, and each that was not, happened once or not at all.
#[derive(Default)]
struct Counted {
    answered: AtomicU64,
    unknown: AtomicU64,
}

/// Adds to one key until the mark is set.
fn count(key: &str, counted: &Counted, is_over: &AtomicBool) {
    let mut connection = connect();
    let mut last = 0;
    while !is_over.load(Ordering::Relaxed) {
        match connection.incr::<_, _, u64>(key, 1) {
            Ok(sum) => {
                assert!(sum > last, "{key}: {sum} after {last}");
                last = sum;
                counted.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                counted.unknown.fetch_add(1, Ordering::Relaxed);
                connection = connect();
            }
        }
    }
}

/// Runs clients while `act` does something to the servers, and checks their counts.
fn under_load(act: impl FnOnce()) {
    let (is_over, counted) =
        (AtomicBool::new(false), [const { Counted { answered: AtomicU64::new(0), unknown: AtomicU64::new(0) } }; 4]);
    std::thread::scope(|scope| {
        let _end = MarkAtEnd(&is_over);
        for (number, counted) in counted.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || count(&format!("count-{number}"), counted, is_over));
        }
        let moved = || counted.iter().map(|one| one.answered.load(Ordering::Relaxed)).min().unwrap_or(0);
        testkit::wait_until("all clients count", || moved() > 50);
        act();
        let before = moved();
        testkit::wait_until("all clients go on", || moved() > before + 50);
    });
    let mut connection = connect();
    for (number, counted) in counted.iter().enumerate() {
        let found: u64 = connection.get(format!("count-{number}")).unwrap();
        let answered = counted.answered.load(Ordering::Relaxed);
        let most = answered + counted.unknown.load(Ordering::Relaxed);
        assert!((answered..=most).contains(&found), "{found} is not within {answered} to {most}");
    }
}

#[test]
fn nothing_that_was_answered_is_lost_when_servers_go() {
    with_hub("nothing_that_was_answered_is_lost_when_servers_go", || {
        let coordinator = LocalCoordinator::default();
        let mut doors = MEMBERS.map(|place| Some(start(place, &coordinator)));
        drop(all_have_backups());
        let mut connection = connect();
        for number in 0..200_u32 {
            let _: () = connection.set(format!("key-{number}"), number).unwrap();
        }
        under_load(|| {
            for (number, place) in MEMBERS.into_iter().enumerate() {
                drop(all_have_backups());
                drop(doors[number].take());
                // The others serve all slots.
                for key in 0..200_u32 {
                    let found = testkit::wait_for("another server serves the key", || {
                        let found = connection.get::<_, Option<u32>>(format!("key-{key}"));
                        found.inspect_err(|_| connection = connect()).ok()
                    });
                    assert_eq!(found, Some(key));
                }
                doors[number] = Some(start(place, &coordinator));
            }
        });
    });
}

#[test]
fn slots_move_under_redis_clients() {
    with_hub("slots_move_under_redis_clients", || {
        let coordinator = LocalCoordinator::default();
        let doors = MEMBERS.map(|place| start(place, &coordinator));
        let mut cluster = all_have_backups();
        let moves_are_over = |cluster: &mut KvCluster| {
            testkit::wait_until("the moves are over", || {
                let _ = cluster.refresh();
                cluster.config().is_some_and(|config| config.shares.iter().all(|share| share.moving.is_none()))
            });
        };
        let shares = |cluster: &KvCluster| {
            let config = cluster.config().unwrap();
            config.members.iter().map(|member| config.shares_of(&member.id).count()).collect::<Vec<_>>()
        };
        under_load(|| {
            cluster.order(&ClusterOrder::Drain { member: "b".into() }, None).unwrap();
            testkit::wait_until("the member is drained", || {
                let _ = cluster.refresh();
                shares(&cluster)[1] == 0
            });
            cluster.order(&ClusterOrder::Undrain { member: "b".into() }, None).unwrap();
            cluster.order(&ClusterOrder::Rebalance, None).unwrap();
            testkit::wait_until("the member has slots again", || {
                let _ = cluster.refresh();
                shares(&cluster)[1] > 0
            });
            moves_are_over(&mut cluster);
        });
        let refused: u64 = doors.iter().map(|member| member.door.counts().errors).sum();
        assert!(refused > 0, "clients were sent to other doors");
    });
}

/// Listeners at all doors get each message once, in the order of its sender, also when a server has gone and come back.
#[test]
fn messages_reach_listeners_at_all_doors() {
    with_hub("messages_reach_listeners_at_all_doors", || {
        let coordinator = LocalCoordinator::default();
        let mut doors = MEMBERS.map(|place| Some(start(place, &coordinator)));
        drop(all_have_backups());
        let listen = |door: &str| {
            let mut raw = Raw::connect(door);
            assert!(raw.ask(&["subscribe", "news"]).contains("subscribe"));
            raw
        };
        let heard = |raw: &mut Raw, text: &str| {
            let message = format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{text}\r\n", text.len());
            assert!(raw.reply().is_some_and(|reply| reply == message.as_bytes()), "{text:.20}");
        };
        let mut listeners = MEMBERS.map(|(_, _, door)| listen(door));
        let mut patterns = Raw::connect(MEMBERS[2].2);
        patterns.ask(&["psubscribe", "n?ws"]);
        let mut publisher = Raw::connect(MEMBERS[0].2);
        for number in 0..100 {
            assert_eq!(publisher.ask(&["publish", "news", &number.to_string()]), ":1\r\n", "those of this door count");
        }
        assert_eq!(publisher.ask(&["publish", "other", "x"]), ":0\r\n");
        for raw in &mut listeners {
            (0..100).for_each(|number| heard(raw, &number.to_string()));
        }
        let first = "*4\r\n$8\r\npmessage\r\n$4\r\nn?ws\r\n$4\r\nnews\r\n$1\r\n0\r\n";
        assert_eq!(patterns.reply().unwrap(), first.as_bytes());
        let long = "x".repeat(longarm_kv::MOST_MESSAGE_BYTES);
        assert!(publisher.ask(&["publish", "news", &long]).starts_with("-ERR other nodes"));
        let fits = &long[..1 << 20];
        assert_eq!(publisher.ask(&["publish", "news", fits]), ":1\r\n");
        listeners.iter_mut().for_each(|raw| heard(raw, fits));
        // Another process of a member: messages find it when it belongs to the cluster.
        drop(doors[1].take());
        doors[1] = Some(start(MEMBERS[1], &coordinator));
        let mut again = listen(MEMBERS[1].2);
        let hears = std::thread::spawn(move || again.reply());
        testkit::wait_until("its listeners hear", || {
            publisher.ask(&["publish", "news", "again"]);
            hears.is_finished()
        });
        assert!(hears.join().unwrap().is_some_and(|reply| reply.ends_with(b"again\r\n")));
    });
}

/// A member's table has keys of other primaries too, whose backup it is. Its door shows none of them.
#[test]
fn doors_show_the_keys_of_their_own_member() {
    with_hub("doors_show_the_keys_of_their_own_member", || {
        let coordinator = LocalCoordinator::default();
        let _doors = MEMBERS.map(|place| start(place, &coordinator));
        drop(all_have_backups());
        let mut connection = connect();
        for number in 0..90_u32 {
            let _: () = connection.set(format!("key-{number}"), number).unwrap();
        }
        let mut raw = MEMBERS.map(|(_, _, door)| Raw::connect(door));
        let mut sum = 0;
        for raw in &mut raw {
            let size: usize = raw.ask(&["dbsize"]).trim_start_matches(':').trim_end().parse().unwrap();
            assert!(size > 0);
            sum += size;
            assert!(raw.ask(&["keys", "*"]).starts_with(&format!("*{size}\r\n")));
            assert!(raw.ask(&["scan", "0", "count", "10000"]).contains(&format!("*{size}\r\n")));
            assert!(raw.ask(&["randomkey"]).contains("key-"));
        }
        assert_eq!(sum, 90);
        // Slots 12182 and 5061.
        let answers = |raw: &mut [Raw], words: &[&str]| raw.iter_mut().map(|one| one.ask(words)).collect::<Vec<_>>();
        let moved = answers(&mut raw, &["set", "foo", "1"]);
        assert_eq!(moved.iter().filter(|answer| *answer == "+OK\r\n").count(), 1, "{moved:?}");
        assert_eq!(
            moved.iter().filter(|answer| answer.starts_with("-MOVED 12182 127.0.0.1:700")).count(),
            2,
            "{moved:?}"
        );
        let mine = moved.iter().position(|answer| answer == "+OK\r\n").unwrap();
        // A transaction, and one whose key another client changes.
        let one = &mut raw[mine];
        for words in [&["multi"][..], &["incr", "foo"], &["rename", "foo", "{foo}2"]] {
            assert!(one.ask(words).starts_with('+'));
        }
        assert_eq!(one.ask(&["exec"]), "*2\r\n:2\r\n+OK\r\n");
        assert_eq!(one.ask(&["get", "{foo}2"]), "$1\r\n2\r\n");
        assert_eq!(one.ask(&["wait", "1", "0"]), ":1\r\n");
        assert_eq!(one.ask(&["watch", "foo"]), "+OK\r\n");
        assert_eq!(Raw::connect(MEMBERS[mine].2).ask(&["set", "foo", "3"]), "+OK\r\n");
        assert_eq!(one.ask(&["multi"]), "+OK\r\n");
        assert_eq!(one.ask(&["set", "foo", "4"]), "+QUEUED\r\n");
        assert_eq!(one.ask(&["exec"]), "*-1\r\n");
        // It flushes its own keys only.
        let before: usize = sum + 2;
        let mine_has: usize = raw[mine].ask(&["dbsize"]).trim_start_matches(':').trim_end().parse().unwrap();
        assert_eq!(raw[mine].ask(&["flushall"]), "+OK\r\n");
        let left: usize = raw
            .iter_mut()
            .map(|one| one.ask(&["dbsize"]).trim_start_matches(':').trim_end().parse::<usize>().unwrap())
            .sum();
        assert_eq!(left, before - mine_has);
    });
}

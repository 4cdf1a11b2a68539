//! Servers that keep backups of each other's keys, in one process, with a coordinator in memory.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cluster::LocalCoordinator;
use journal::{DiskFault, SimDisk};
use longarm_kv::{
    AsyncKvCluster, ClusterConfig, ClusterOrder, DataOptions, FsyncRule, GetWay, KvCluster, KvError, KvOptions,
    KvServer, KvTable, KvValue, MemberOptions, MembershipOptions, PutExpiry, PutIf, PutWay, TableOptions, TableSecret,
    TimeToLive,
};

const TERM: Duration = Duration::from_millis(1000);
const PORTS: [(&str, u16); 3] = [("a", 7501), ("b", 7502), ("c", 7503)];

fn client(_: u64) {}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn member(name: &str, port: u16, form_with: usize) -> MembershipOptions {
    let member = MemberOptions {
        name: name.into(),
        address: address(port),
        term: TERM,
        replicas: 1,
        form_with,
        ..MemberOptions::default()
    };
    // On a busy machine nobody is left out for being slow.
    MembershipOptions { member, secret: None, patience: Duration::from_secs(20) }
}

fn table() -> TableOptions {
    TableOptions { max_bytes: 64 << 20, keys: 64, ..TableOptions::default() }
}

/// Starts a member with its data on a disk.
fn keeper((name, port): (&str, u16), disk: &SimDisk, fsync: FsyncRule, coordinator: &LocalCoordinator) -> KvServer {
    testkit::wait_for("the server starts", || {
        // The order of the tables is another one each time.
        let names = if port % 2 == 0 { ["t", "s"] } else { ["s", "t"] };
        let builder = names.into_iter().fold(KvServer::builder(), |builder, name| builder.table(name, table()));
        let builder = builder.data(DataOptions { fsync, ..DataOptions::new("simulated") }).disk(Arc::new(disk.clone()));
        builder.member(member(name, port, 3), coordinator.clone()).bind(&address(port)).ok()
    })
}

/// Starts a member; the one before at its port may just be going.
fn start((name, port): (&str, u16), form_with: usize, coordinator: &LocalCoordinator) -> KvServer {
    testkit::wait_for("the server starts", || {
        let builder = KvServer::builder().table("t", table()).table("s", table());
        builder.member(member(name, port, form_with), coordinator.clone()).bind(&address(port)).ok()
    })
}

fn open(way: GetWay) -> KvCluster {
    let servers = PORTS.map(|(_, port)| address(port));
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    testkit::wait_for("the cluster is formed", || KvCluster::open(&servers, "t", support::options(way)).ok())
}

/// Waits until each share has a backup.
fn all_have_backups(cluster: &mut KvCluster) {
    testkit::wait_until("all shares have backups", || {
        let _ = cluster.refresh();
        cluster
            .config()
            .is_some_and(|config| config.shares.iter().all(|share| share.primary.is_some() && share.backups.len() == 1))
    });
}

fn bytes(found: Option<KvValue>) -> Option<Vec<u8>> {
    found.map(|value| value.bytes)
}

fn get(cluster: &mut KvCluster, key: &[u8]) -> Option<Vec<u8>> {
    bytes(cluster.with(key, |table| table.get(key)).unwrap())
}

/// Keys after each kind of change.
fn change_in_all_ways(cluster: &mut KvCluster) {
    for number in 0..60_u32 {
        let key = format!("put-{number}").into_bytes();
        cluster.with(&key, |table| table.put(&key, &number.to_le_bytes())).unwrap();
    }
    cluster.with(b"gone", |table| table.put(b"gone", b"1")).unwrap();
    assert!(cluster.with(b"gone", |table| table.delete(b"gone")).unwrap());
    let version = cluster.with(b"new", |table| table.insert(b"new", b"1")).unwrap();
    cluster.with(b"new", |table| table.compare_and_put(b"new", b"2", version)).unwrap();
    let refused = cluster.with(b"new", |table| table.insert(b"new", b"3")).unwrap_err();
    assert!(matches!(refused, KvError::Conflict(Some(_))), "{refused}");
    assert_eq!(cluster.with(b"count", |table| table.add(b"count", 40)).unwrap(), 40);
    assert_eq!(cluster.with(b"count", |table| table.add(b"count", 2)).unwrap(), 42);
    let expiry = PutExpiry::AfterNs(3_600_000_000_000);
    cluster.with(b"hour", |table| table.put_with(b"hour", b"h", PutIf::Always, expiry)).unwrap();
    cluster.with(b"stays", |table| table.put_with(b"stays", b"s", PutIf::Always, expiry)).unwrap();
    assert!(cluster.with(b"stays", |table| table.persist(b"stays")).unwrap());
    cluster.with(b"long", |table| table.put(b"long", &long())).unwrap();
}

fn long() -> Vec<u8> {
    (0..9_u32 << 20).map(|number| (number % 251) as u8).collect()
}

fn all_is_there(cluster: &mut KvCluster) {
    for number in 0..60_u32 {
        let key = format!("put-{number}").into_bytes();
        assert_eq!(get(cluster, &key), Some(number.to_le_bytes().to_vec()), "{number}");
    }
    assert_eq!(get(cluster, b"gone"), None);
    assert_eq!(get(cluster, b"new"), Some(b"2".to_vec()));
    assert_eq!(get(cluster, b"count"), Some(b"42".to_vec()));
    let left = cluster.with(b"hour", |table| table.time_to_live(b"hour")).unwrap();
    assert!(matches!(left, Some(TimeToLive::Left(left)) if left > Duration::from_secs(3000)), "{left:?}");
    assert_eq!(cluster.with(b"stays", |table| table.time_to_live(b"stays")).unwrap(), Some(TimeToLive::Forever));
    assert!(get(cluster, b"long") == Some(long()));
}

/// Each kind of change is with the backups before its answer: one server after another goes, and others come.
#[test]
fn changes_outlive_each_server() {
    support::with_hub("changes_outlive_each_server", || {
        let coordinator = LocalCoordinator::default();
        let mut servers = PORTS.map(|place| Some(start(place, 3, &coordinator)));
        let mut cluster = open(GetWay::OneSided);
        change_in_all_ways(&mut cluster);
        all_is_there(&mut cluster);
        for (number, place) in PORTS.into_iter().enumerate() {
            all_have_backups(&mut cluster);
            drop(servers[number].take());
            all_is_there(&mut cluster);
            servers[number] = Some(start(place, 3, &coordinator));
        }
        all_have_backups(&mut cluster);
        for way in [GetWay::Rpc, GetWay::OneSided, GetWay::Choose] {
            all_is_there(&mut open(way));
        }
        // Keys come once, though two servers have each.
        let mut keys = Vec::new();
        // It asks each server once, which may need longer on a busy machine.
        testkit::wait_for("all servers tell their keys", || {
            cluster.on_each(|table| table.scan(0, 1000, b"put-").map(|(some, _)| keys.extend(some))).ok()
        });
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 60);
        let status = cluster.member_status().unwrap();
        assert_eq!(status.len(), 3);
        for (member, status) in status {
            let status = status.unwrap();
            assert_eq!((status.member, status.lags.iter().all(|lag| lag.is_copied)), (member.id, true));
        }
    });
}

/// All servers stop, and come back one by one with their disks, which have everything.
#[test]
fn a_cluster_that_was_stopped_has_everything() {
    support::with_hub("a_cluster_that_was_stopped_has_everything", || {
        for fsync in [FsyncRule::Always, FsyncRule::EverySecond] {
            let (coordinator, disks) = (LocalCoordinator::default(), [(); 3].map(|()| SimDisk::new()));
            let start = |number: usize| keeper(PORTS[number], &disks[number], fsync, &coordinator);
            let mut servers: Vec<KvServer> = (0..3).map(start).collect();
            let mut cluster = open(GetWay::OneSided);
            all_have_backups(&mut cluster);
            change_in_all_ways(&mut cluster);
            servers[1].snapshot().unwrap();
            cluster.with(b"behind", |table| table.put(b"behind", b"the snapshot")).unwrap();
            let version = cluster.with(b"new", |table| table.get(b"new")).unwrap().unwrap().version;
            servers.drain(..).for_each(|server| assert!(server.shut_down(Duration::from_secs(10)).unwrap()));
            // The last one that left has all slots. So nobody serves them before it is there.
            let _first = start(0);
            let mut cluster = open(GetWay::Rpc);
            assert!(cluster.config().is_some_and(|config| config.served_slots() == 0));
            let _others = [start(1), start(2)];
            all_have_backups(&mut cluster);
            all_is_there(&mut cluster);
            assert_eq!(get(&mut cluster, b"behind"), Some(b"the snapshot".to_vec()));
            // No version outlives its process.
            let again = cluster.with(b"new", |table| table.compare_and_put(b"new", b"2", version)).unwrap_err();
            assert!(matches!(again, KvError::Conflict(Some(_))), "{again}");
        }
    });
}

/// No answer leaves before the disks of all members have its change: with `always`, each of them would have it after a power cut.
#[test]
fn answers_wait_for_the_disks_of_all_members() {
    support::with_hub("answers_wait_for_the_disks_of_all_members", || {
        let (coordinator, disks) = (LocalCoordinator::default(), [(); 3].map(|()| SimDisk::new()));
        let servers: Vec<_> =
            (0..3).map(|number| keeper(PORTS[number], &disks[number], FsyncRule::Always, &coordinator)).collect();
        let mut cluster = open(GetWay::Rpc);
        all_have_backups(&mut cluster);
        let config = cluster.config().unwrap();
        let share = config.share(longarm_kv::HashSlot::of_key(b"k")).unwrap();
        let place = |name: &String| PORTS.iter().position(|(other, _)| other == name).unwrap();
        let parts = [place(share.primary.as_ref().unwrap()), place(&share.backups[0])];
        let outsider = (0..3).find(|number| !parts.contains(number)).unwrap();
        let before: Vec<u64> = servers.iter().map(|server| server.data_figures().unwrap().syncs).collect();
        for number in 0..20_u8 {
            cluster.with(b"k", |table| table.put(b"k", &[number])).unwrap();
        }
        let now: Vec<u64> = servers.iter().map(|server| server.data_figures().unwrap().syncs).collect();
        let grown = |number: usize| now[number] - before[number];
        assert!(parts.into_iter().all(|number| grown(number) >= 20), "{before:?} {now:?}");
        assert_eq!(grown(outsider), 0);
        // The disk of the backup fails: it leaves, and another one takes its place. Then that of the primary.
        for number in [parts[1], parts[0]] {
            disks[number].set_fault(DiskFault { failing_sync: Some(0), ..DiskFault::default() });
            testkit::wait_until("others go on", || {
                let _ = cluster.with(b"k", |table| table.put(b"k", b"later"));
                let _ = cluster.refresh();
                cluster.config().is_some_and(|config| config.member(PORTS[number].0).is_none())
            });
            if number == parts[1] {
                all_have_backups(&mut cluster);
            }
        }
        testkit::wait_until("the last one serves", || cluster.with(b"k", |table| table.put(b"k", b"last")).is_ok());
        assert_eq!(get(&mut cluster, b"k"), Some(b"last".to_vec()));
    });
}

/// Reads go by READs as long as the term lasts, and a backup's memory is not read.
#[test]
fn readers_mind_the_term() {
    support::with_hub("readers_mind_the_term", || {
        let coordinator = LocalCoordinator::default();
        let _servers = PORTS[..2].iter().map(|place| start(*place, 2, &coordinator)).collect::<Vec<_>>();
        let mut cluster = open(GetWay::OneSided);
        all_have_backups(&mut cluster);
        cluster.with(b"foo", |table| table.put(b"foo", b"1")).unwrap();
        let reads = |cluster: &mut KvCluster| cluster.with(b"foo", |table| Ok(table.stats().reads)).unwrap();
        let before = reads(&mut cluster);
        testkit::wait_until("the client READs", || {
            assert_eq!(get(&mut cluster, b"foo"), Some(b"1".to_vec()));
            reads(&mut cluster) >= before + 50
        });
        // The other server has the key, too, and refuses it.
        let config = cluster.config().unwrap();
        let primary = config.primary(longarm_kv::HashSlot::of_key(b"foo")).unwrap().address.clone();
        let other = PORTS[..2].iter().map(|(_, port)| address(*port)).find(|other| *other != primary).unwrap();
        let mut backup = KvTable::open(&other, "t", support::options(GetWay::OneSided)).unwrap();
        for _ in 0..3 {
            let refused = backup.get(b"foo").unwrap_err();
            assert!(matches!(&refused, KvError::Moved { address, .. } if *address == primary), "{refused}");
        }
        assert_eq!(backup.figures().unwrap().keys, 1, "it has the key");
    });
}

#[test]
fn what_backups_would_miss_is_refused() {
    support::with_hub("what_backups_would_miss_is_refused", || {
        let secret = || Some(TableSecret::new([7; 16]).unwrap());
        for (options, words) in [
            (TableOptions { writable: true, ..table() }, "clients write into it alone"),
            (TableOptions { layout: longarm_kv::KvLayout::Tree, ..table() }, "trees have no backups"),
            (TableOptions { secret: secret(), ..table() }, "the members of the cluster need one, too"),
        ] {
            let builder = KvServer::builder().table("t", options);
            let builder = builder.member(member("a", 7501, 1), LocalCoordinator::default());
            let refused = builder.bind("127.0.0.1:7501").unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    });
}

/// Waits until no slot is on its way and `holds` is true of the configuration.
fn settles(cluster: &mut KvCluster, what: &str, holds: impl Fn(&ClusterConfig) -> bool) {
    testkit::wait_until(what, || {
        let _ = cluster.refresh();
        cluster.config().is_some_and(|config| config.moving_slots() == 0 && holds(config))
    });
}

/// Slots move to a server that joins, and away from one that goes. Clients go on meanwhile, each in its way, and miss nothing.
#[test]
fn slots_move_while_they_are_used() {
    support::with_hub("slots_move_while_they_are_used", || {
        let coordinator = LocalCoordinator::default();
        let [a, b] = [PORTS[0], PORTS[1]].map(|place| start(place, 2, &coordinator));
        let mut cluster = open(GetWay::OneSided);
        change_in_all_ways(&mut cluster);
        all_have_backups(&mut cluster);
        let c = start(PORTS[2], 2, &coordinator);
        settles(&mut cluster, "the third one is a member", |config| config.members.len() == 3);
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clients: Vec<_> = [GetWay::OneSided, GetWay::Rpc, GetWay::Choose]
                .map(|way| {
                    let ends = &ends;
                    scope.spawn(move || {
                        let (mut table, mut count) = (open(way), 0_u64);
                        while !ends.load(Ordering::Relaxed) {
                            let key = format!("{way:?} {}", count % 50).into_bytes();
                            table.with(&key, |table| table.put(&key, &count.to_le_bytes())).unwrap();
                            assert_eq!(get(&mut table, &key), Some(count.to_le_bytes().to_vec()));
                            count += 1;
                        }
                        count
                    })
                })
                .into();
            let end = support::MarkAtEnd(&ends);
            cluster.order(&ClusterOrder::Rebalance, None).unwrap();
            settles(&mut cluster, "the slots are even", |config| config.balance().is_empty());
            all_is_there(&mut cluster);
            all_have_backups(&mut cluster);
            cluster.order(&ClusterOrder::Drain { member: "a".into() }, None).unwrap();
            settles(&mut cluster, "the first one is empty", |config| config.parts_of("a") == 0);
            drop(end);
            let counts: Vec<u64> = clients.into_iter().map(|client| client.join().unwrap()).collect();
            println!("{counts:?} operations meanwhile");
        });
        let keys = |server: &KvServer| server.figures()[1].1.keys;
        testkit::wait_until("it has dropped its keys", || keys(&a) == 0);
        assert_eq!(keys(&b), keys(&c));
        drop(a);
        all_is_there(&mut cluster);
        let refused = cluster.order(&ClusterOrder::Drain { member: "b".into() }, None).unwrap_err().to_string();
        assert!(refused.contains("2 are needed"), "{refused}");
        for way in [GetWay::Rpc, GetWay::OneSided] {
            all_is_there(&mut open(way));
        }
    });
}

/// Counts of one task: all that was answered is there, and each other change at most once.
#[derive(Default)]
struct Counted {
    answered: AtomicU64,
    unknown: AtomicU64,
}

/// A counter's value is text, as in Redis.
fn number_of(value: &[u8]) -> i64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Adds to one key until the end, and reads it.
async fn count(cluster: AsyncKvCluster, key: String, counted: Arc<Counted>, ends: Arc<AtomicBool>) {
    let key = key.as_bytes();
    let mut last = 0;
    while !ends.load(Ordering::Relaxed) {
        match cluster.with(key, |table| async move { table.add(key, 1).await }).await {
            Ok(sum) => {
                assert!(sum > last, "{sum} after {last}");
                last = sum;
                counted.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(KvError::Server(status)) if !status.can_repeat() => {
                counted.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error}"),
        }
        let found = cluster.with(key, |table| async move { table.get(key).await }).await.unwrap();
        let found = found.map_or(0, |value| number_of(&value.bytes));
        assert!(found >= last, "{found} behind {last}");
        last = found;
    }
}

/// Tasks share one client of a cluster, and follow its failovers.
#[test]
fn tasks_follow_a_cluster() {
    support::with_hub("tasks_follow_a_cluster", || {
        let coordinator = LocalCoordinator::default();
        let mut servers = PORTS.map(|place| Some(start(place, 3, &coordinator)));
        let mut watcher = open(GetWay::Rpc);
        all_have_backups(&mut watcher);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let addresses = PORTS.map(|(_, port)| address(port));
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let options = support::options(GetWay::OneSided);
        let cluster = runtime.block_on(AsyncKvCluster::open(&addresses, "t", options)).unwrap();
        let (ends, counted) = (Arc::new(AtomicBool::new(false)), [(); 6].map(|()| Arc::new(Counted::default())));
        let tasks: Vec<_> = counted
            .iter()
            .enumerate()
            .map(|(number, counted)| {
                let (cluster, key) = (cluster.clone(), format!("count-{number}"));
                runtime.spawn(count(cluster, key, Arc::clone(counted), Arc::clone(&ends)))
            })
            .collect();
        let done = || counted.iter().map(|one| one.answered.load(Ordering::Relaxed)).min().unwrap();
        for (number, place) in PORTS.into_iter().enumerate() {
            let before = done();
            testkit::wait_until("all tasks count", || {
                done() > before + 20 || tasks.iter().any(|task| task.is_finished())
            });
            all_have_backups(&mut watcher);
            drop(servers[number].take());
            servers[number] = Some(start(place, 3, &coordinator));
        }
        let before = done();
        testkit::wait_until("all tasks go on", || done() > before + 20 || tasks.iter().any(|task| task.is_finished()));
        ends.store(true, Ordering::Relaxed);
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        for (number, counted) in counted.iter().enumerate() {
            let key = format!("count-{number}");
            let found = get(&mut watcher, key.as_bytes()).unwrap();
            let found = number_of(&found) as u64;
            let answered = counted.answered.load(Ordering::Relaxed);
            let most = answered + counted.unknown.load(Ordering::Relaxed);
            assert!((answered..=most).contains(&found), "{found} is not within {answered} to {most}");
        }
        all_have_backups(&mut watcher);
        runtime.block_on(cluster.refresh()).unwrap();
        assert_eq!(cluster.config().map(|config| config.epoch), watcher.config().map(|config| config.epoch));
        assert_eq!(cluster.tables().unwrap().len(), 3);
        let alone = KvOptions { put: PutWay::OneSided, ..KvOptions::default() };
        let refused = runtime.block_on(AsyncKvCluster::open(&addresses, "t", alone)).unwrap_err();
        assert!(refused.to_string().contains("do not PUT alone"), "{refused}");
    });
}

/// A cluster with a secret takes orders from those who have it.
#[test]
fn orders_need_the_secret() {
    support::with_hub("orders_need_the_secret", || {
        let secret = |byte: u8| TableSecret::new([byte; 16]).unwrap();
        let options = MembershipOptions { secret: Some(secret(1)), ..member("a", PORTS[0].1, 1) };
        let builder = KvServer::builder().table("t", table()).member(options, LocalCoordinator::default());
        let _server = builder.bind(&address(PORTS[0].1)).unwrap();
        let mut cluster = open(GetWay::Rpc);
        let mut order = |secret: Option<TableSecret>| cluster.order(&ClusterOrder::Rebalance, secret.as_ref());
        for wrong in [None, Some(secret(2))] {
            let refused = order(wrong).unwrap_err();
            assert!(refused.to_string().contains("secret"), "{refused}");
        }
        order(Some(secret(1))).unwrap();
        let absent = cluster.order(&ClusterOrder::Drain { member: "z".into() }, Some(&secret(1))).unwrap_err();
        assert!(absent.to_string().contains("no member"), "{absent}");
    });
}

/// A member without the secret of the cluster, or with other tables, gets no records, and gives none.
#[test]
fn members_prove_who_they_are() {
    support::with_hub("members_prove_who_they_are", || {
        let coordinator = LocalCoordinator::default();
        let start = |place: (&str, u16), secret: u8| {
            let secret = Some(TableSecret::new([secret; 16]).unwrap());
            let options = MembershipOptions { secret, ..member(place.0, place.1, 1) };
            KvServer::builder().table("t", table()).member(options, coordinator.clone()).bind(&address(place.1))
        };
        let first = start(PORTS[0], 1).unwrap();
        let mut cluster = open(GetWay::Rpc);
        cluster.with(b"foo", |table| table.put(b"foo", b"1")).unwrap();
        let stranger = start(PORTS[1], 2).unwrap();
        testkit::wait_until("it joins", || stranger.member_status().unwrap().epoch > 1);
        // It never becomes a backup, and hinders nobody.
        for number in 0..20_u8 {
            cluster.with(b"foo", |table| table.put(b"foo", &[number])).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        let keys = |server: &KvServer| server.figures()[0].1.keys;
        assert_eq!((keys(&first), keys(&stranger)), (1, 0));
        drop(stranger);
        let friend = start(PORTS[1], 1).unwrap();
        all_have_backups(&mut cluster);
        assert_eq!(keys(&friend), 1);
    });
}

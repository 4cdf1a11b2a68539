//! Servers with backups as processes, on a real etcd: they are killed under load, and no history of a key is wrong.

#[path = "../src/sim/history.rs"]
mod history;
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cluster::{Coordinator, EtcdCoordinator};
use history::{KeyOp, Recorded, is_linearizable};
use longarm_kv::{
    ClusterConfig, ClusterOrder, DataOptions, FsyncRule, GetWay, HashSlot, KvCluster, KvError, KvOptions, KvServer,
    MemberOptions, MembershipOptions, TableOptions,
};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

const URL: &str = "etcd://127.0.0.1:2379";
const NAMES: [&str; 3] = ["a", "b", "c"];
const KEYS: usize = 6;
const CLIENTS: usize = 3;

fn client(_: u64) {}

/// A term that a busy machine keeps. `LONGARM_TERM_MS` has another one, to measure failovers.
fn term() -> Duration {
    let wanted = std::env::var("LONGARM_TERM_MS").ok().and_then(|number| number.parse().ok());
    Duration::from_millis(wanted.unwrap_or(1500))
}

fn address(name: &str) -> String {
    format!("127.0.0.1:{}", 7511 + u16::from(name.as_bytes()[0] - b'a'))
}

/// Runs `body` with a hub and a namespace, or a member in a process that the test has started.
fn with_members(test: &str, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => hub::testing::passes_with_hub(&format!("kv-{test}"), testkit::run_again(test, "body")),
        Some("body") => body(),
        Some(role) => {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            let (name, rule) = role.split_once(' ').map_or((role, None), |(name, rule)| (name, Some(rule)));
            serve(name, rule.map(|rule| rule.parse().unwrap()));
        }
    }
}

/// A member. With a rule it keeps its data on disk.
fn serve(name: &str, fsync: Option<FsyncRule>) {
    let member = MemberOptions {
        name: name.into(),
        address: address(name),
        term: term(),
        replicas: 1,
        form_with: NAMES.len(),
        ..MemberOptions::default()
    };
    let options = TableOptions { max_bytes: 16 << 20, keys: 64, ..TableOptions::default() };
    let membership = // On a busy machine nobody is left out for being slow.
    MembershipOptions { member, secret: None, patience: Duration::from_secs(20) };
    let mut builder = KvServer::builder().table("t", options).member(membership, EtcdCoordinator::new(URL).unwrap());
    if let Some(fsync) = fsync {
        // Small files, so that snapshots happen all the time.
        let (snapshot_bytes, segment_bytes) = (64 << 10, 16 << 10);
        builder = builder.data(DataOptions {
            fsync,
            snapshot_bytes,
            segment_bytes,
            ..DataOptions::new(data_directory(name))
        });
    }
    builder.bind(&address(name)).unwrap().wait();
}

fn data_directory(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("LONGARM_RUNTIME_DIR").unwrap()).join(format!("data-{name}"))
}

/// A process that dropping kills.
struct Killed(Child);

impl Killed {
    fn member(name: &str) -> Killed {
        let test = std::thread::current().name().expect("the thread of a test").to_owned();
        Killed(testkit::run_again(&test, name).spawn().unwrap())
    }

    /// Debian's etcd, on its usual port in the namespace of the test.
    fn etcd() -> Killed {
        let data = PathBuf::from(std::env::var_os("LONGARM_RUNTIME_DIR").unwrap()).join("etcd");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(data).args(["--log-level", "error", "--unsafe-no-fsync"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = Killed(command.spawn().expect("etcd starts: `cargo xtask packages` installs it"));
        let answers = || EtcdCoordinator::new(URL).unwrap().look(Duration::from_secs(1)).is_ok();
        testkit::wait_until("etcd answers", answers);
        started
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn open(options: KvOptions) -> KvCluster {
    let servers = NAMES.map(address);
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    testkit::wait_for("the cluster is formed", || KvCluster::open(&servers, "t", options.clone()).ok())
}

/// Waits until each share has a primary and a backup.
fn all_have_backups(cluster: &mut KvCluster) {
    testkit::wait_until("all shares have backups", || {
        let _ = cluster.refresh();
        let config = cluster.config().expect("it is known since the beginning");
        config.members.len() == NAMES.len()
            && config.shares.iter().all(|share| share.primary.is_some() && share.backups.len() == 1)
    });
}

/// State that the clients of a test share.
#[derive(Default)]
struct ClientLoad {
    values: AtomicU64,
    done: AtomicU64,
    ends: AtomicBool,
}

impl ClientLoad {
    /// Waits until the clients have done so many operations more.
    fn goes_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        testkit::wait_until("the clients operate", || self.done.load(Ordering::Relaxed) >= before + 50);
    }
}

/// Operations of one client until the end, by key.
fn operate(number: usize, clock: Instant, load: &ClientLoad) -> Vec<(usize, Recorded)> {
    let way = [GetWay::OneSided, GetWay::Rpc][number % 2];
    let timeout = Duration::from_secs(2);
    let mut cluster = open(KvOptions { timeout, ..support::options(way) });
    let (mut random, mut done) = (fastrand::Rng::with_seed(number as u64), Vec::new());
    let now = || clock.elapsed().as_nanos() as u64;
    while !load.ends.load(Ordering::Relaxed) {
        let (key, kind, value) = (random.usize(..KEYS), random.u8(..8), load.values.fetch_add(1, Ordering::Relaxed));
        let (name, begin) = (format!("key {key}"), now());
        let outcome = cluster.with(name.as_bytes(), |table| match kind {
            0 => table.delete(name.as_bytes()).map(KeyOp::Delete),
            1 => match table.insert(name.as_bytes(), &value.to_le_bytes()) {
                Ok(_) => Ok(KeyOp::Insert(value, true)),
                Err(KvError::Conflict(Some(_))) => Ok(KeyOp::Insert(value, false)),
                Err(error) => Err(error),
            },
            2 | 3 => table.put(name.as_bytes(), &value.to_le_bytes()).map(|_| KeyOp::Put(value)),
            _ => {
                let found = table.get(name.as_bytes())?;
                Ok(KeyOp::Get(found.map(|found| u64::from_le_bytes(found.bytes[..].try_into().unwrap()))))
            }
        });
        let (op, end) = match outcome {
            Ok(op) => (op, Some(now())),
            Err(KvError::Server(status)) if status.can_repeat() => continue,
            Err(KvError::Server(_)) if kind >= 4 => continue,
            Err(KvError::Server(_)) => match kind {
                0 => (KeyOp::Delete(true), None),
                1 => (KeyOp::Insert(value, true), None),
                _ => (KeyOp::Put(value), None),
            },
            Err(KvError::Cluster(_) | KvError::NotAttached(..) | KvError::Moved { .. }) => continue,
            Err(KvError::Read(error)) => panic!("{error}"),
            Err(error) => panic!("{error}"),
        };
        done.push((key, Recorded { op, begin, end }));
        load.done.fetch_add(1, Ordering::Relaxed);
        // A checker's search is long where many operations overlap.
        std::thread::sleep(Duration::from_micros(random.u64(..2000)));
    }
    done
}

/// Clients operate while `disturb` does something. Then the history of each key must be linearizable.
fn record_and_check<T>(disturb: impl FnOnce() -> T) -> T {
    let (load, clock) = (ClientLoad::default(), Instant::now());
    let mut histories = vec![Vec::new(); KEYS];
    let kept = std::thread::scope(|scope| {
        let load = &load;
        let start = |number| scope.spawn(move || operate(number, clock, load));
        let clients: Vec<_> = (0..CLIENTS).map(start).collect();
        let end = support::MarkAtEnd(&load.ends);
        load.goes_on();
        let kept = disturb();
        load.goes_on();
        drop(end);
        for client in clients {
            client.join().unwrap().into_iter().for_each(|(key, recorded)| histories[key].push(recorded));
        }
        kept
    });
    let count: usize = histories.iter().map(Vec::len).sum();
    let unknown = histories.iter().flatten().filter(|one| one.end.is_none()).count();
    println!("{count} operations, {unknown} of unknown outcome");
    for (key, history) in histories.iter().enumerate() {
        assert!(is_linearizable(history), "key {key}: {history:?}");
    }
    kept
}

fn kills() -> usize {
    std::env::var("LONGARM_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(2)
}

/// Any member is killed under load, and comes back empty. With one backup nothing that was acknowledged is lost.
#[test]
fn nothing_acknowledged_is_lost_when_members_are_killed() {
    with_members("nothing_acknowledged_is_lost_when_members_are_killed", || {
        let _etcd = Killed::etcd();
        let mut members = NAMES.map(|name| Some(Killed::member(name)));
        let mut watcher = open(support::options(GetWay::Rpc));
        record_and_check(|| {
            for round in 0..kills() {
                all_have_backups(&mut watcher);
                std::thread::sleep(Duration::from_millis(100));
                // The member of the first key, which is the primary of it and a backup of others.
                let config = watcher.config().unwrap();
                let victim = config.primary(HashSlot::of_key(b"key 0")).unwrap().id.name.clone();
                let at = NAMES.iter().position(|name| *name == victim).unwrap();
                drop(members[at].take());
                // A key of the same slot: at the new primary, before the killed one returns.
                let (killed, key, value) = (Instant::now(), b"{key 0}x", [round as u8]);
                testkit::wait_until("another one follows", || {
                    watcher.with(key, |table| table.put(key, &value)).is_ok()
                });
                println!("the backup served {:?} after the kill, at a term of {:?}", killed.elapsed(), term());
                let found = watcher.with(key, |table| table.get(key)).unwrap();
                assert_eq!(found.map(|found| found.bytes), Some(value.to_vec()));
                members[at] = Some(Killed::member(NAMES[at]));
            }
            all_have_backups(&mut watcher);
        });
    });
}

/// Starts a member that keeps its data on disk.
fn keeper(name: &str, rule: &str) -> Option<Killed> {
    Some(Killed::member(&format!("{name} {rule}")))
}

/// All members are killed at once, under load, and come back with their disks, which have all that was acknowledged.
#[test]
fn nothing_acknowledged_is_lost_when_all_members_are_killed() {
    with_members("nothing_acknowledged_is_lost_when_all_members_are_killed", || {
        let _etcd = Killed::etcd();
        let mut members = NAMES.map(|name| keeper(name, "always"));
        let mut watcher = open(support::options(GetWay::Rpc));
        let mut random = fastrand::Rng::with_seed(3);
        record_and_check(|| {
            for round in 0..kills() {
                if round % 2 == 0 {
                    all_have_backups(&mut watcher);
                }
                std::thread::sleep(Duration::from_millis(random.u64(..300)));
                members = [None, None, None];
                // In any order, also long after each other.
                let mut order = [0, 1, 2];
                random.shuffle(&mut order);
                for at in order {
                    members[at] = keeper(NAMES[at], "always");
                    std::thread::sleep(Duration::from_millis(random.u64(..2) * 2500));
                }
                testkit::wait_until("they serve again", || {
                    (0..KEYS).all(|key| {
                        let key = format!("key {key}");
                        watcher.with(key.as_bytes(), |table| table.get(key.as_bytes())).is_ok()
                    })
                });
            }
            all_have_backups(&mut watcher);
        });
    });
}

/// All members are killed at once. The disk of one comes back as it was some time before; the others have what it has acknowledged since.
#[test]
fn a_member_that_lacks_its_last_changes_fetches_them() {
    with_members("a_member_that_lacks_its_last_changes_fetches_them", || {
        let _etcd = Killed::etcd();
        let rules = ["everysec", "always", "always"];
        let start = |at: usize| keeper(NAMES[at], rules[at]);
        let mut members = [start(0), start(1), start(2)];
        let mut watcher = open(support::options(GetWay::Rpc));
        let (data, before) = (data_directory(NAMES[0]), data_directory("before"));
        record_and_check(|| {
            for _ in 0..kills() {
                all_have_backups(&mut watcher);
                give_slots_to(&mut watcher, NAMES[0]);
                copy_of_stopped(members[0].as_ref().unwrap(), &data, &before);
                std::thread::sleep(Duration::from_millis(500));
                members = [None, None, None];
                std::fs::remove_dir_all(&data).unwrap();
                std::fs::rename(&before, &data).unwrap();
                // It is the first to beat. The others are not silent for long enough to be counted out.
                for (at, member) in members.iter_mut().enumerate() {
                    *member = start(at);
                    std::thread::sleep(Duration::from_millis(200));
                }
                testkit::wait_until("they serve again", || {
                    (0..KEYS).all(|key| {
                        let key = format!("key {key}");
                        watcher.with(key.as_bytes(), |table| table.get(key.as_bytes())).is_ok()
                    })
                });
            }
            all_have_backups(&mut watcher);
        });
    });
}

/// Lets a member serve slots again, as it did before it fetched its data from others.
fn give_slots_to(cluster: &mut KvCluster, name: &str) {
    comes_true(cluster, &ClusterOrder::Rebalance, |config| {
        let serves = |share: &cluster::SlotShare| share.primary.as_deref() == Some(name);
        config.balance().is_empty() && config.moving_slots() == 0 && config.shares.iter().any(serves)
    });
    all_have_backups(cluster);
}

/// Copies a directory while the process that writes it stands.
fn copy_of_stopped(process: &Killed, from: &Path, to: &Path) {
    let id = Pid::from_child(&process.0);
    kill_process(id, Signal::STOP).unwrap();
    testkit::must_succeed(Command::new("cp").arg("-r").arg(from).arg(to));
    kill_process(id, Signal::CONT).unwrap();
}

/// Slots move to and fro under load, and the end of a move is killed now and then.
#[test]
fn slots_move_under_load_and_members_are_killed() {
    with_members("slots_move_under_load_and_members_are_killed", || {
        let _etcd = Killed::etcd();
        let mut members = NAMES.map(|name| Some(Killed::member(name)));
        let mut watcher = open(support::options(GetWay::Rpc));
        let mut random = fastrand::Rng::with_seed(7);
        record_and_check(|| {
            all_have_backups(&mut watcher);
            for round in 0..2 * kills() {
                let at = round % NAMES.len();
                let drain = ClusterOrder::Drain { member: NAMES[at].into() };
                if round % 2 == 1 {
                    let _ = watcher.order(&drain, None);
                    std::thread::sleep(Duration::from_millis(random.u64(..1500)));
                    let victim = random.usize(..NAMES.len());
                    drop(members[victim].take());
                    members[victim] = Some(Killed::member(NAMES[victim]));
                    all_are_members(&mut watcher);
                } else {
                    comes_true(&mut watcher, &drain, |config| config.parts_of(NAMES[at]) == 0);
                }
                let undrain = ClusterOrder::Undrain { member: NAMES[at].into() };
                comes_true(&mut watcher, &undrain, |config| !config.is_draining(NAMES[at]));
                comes_true(&mut watcher, &ClusterOrder::Rebalance, |config| config.balance().is_empty());
                all_have_backups(&mut watcher);
            }
        });
    });
}

/// Gives an order, again if the member that took it is gone. Returns when no slot is on its way and `holds` is true of the configuration.
fn comes_true(cluster: &mut KvCluster, order: &ClusterOrder, holds: impl Fn(&ClusterConfig) -> bool) {
    testkit::wait_until(&format!("{order:?} comes true"), || {
        let _ = cluster.refresh();
        let config = cluster.config().expect("it is known since the beginning");
        if config.moving_slots() == 0 && holds(config) {
            return true;
        }
        if config.moving_slots() == 0 {
            let _ = cluster.order(order, None);
        }
        std::thread::sleep(Duration::from_millis(50));
        false
    });
}

/// Waits until each member is there again.
fn all_are_members(cluster: &mut KvCluster) {
    testkit::wait_until("all are members", || {
        let _ = cluster.refresh();
        cluster.config().is_some_and(|config| config.members.len() == NAMES.len())
    });
}

/// Without etcd nobody serves for longer than a term. When it is back, all go on with what they had.
#[test]
fn etcd_goes_and_returns_under_load() {
    with_members("etcd_goes_and_returns_under_load", || {
        let etcd = Killed::etcd();
        let _members = NAMES.map(Killed::member);
        let mut watcher = open(support::options(GetWay::Rpc));
        let _etcd = record_and_check(|| {
            all_have_backups(&mut watcher);
            watcher.with(b"key x", |table| table.put(b"key x", b"1")).unwrap();
            drop(etcd);
            let options = KvOptions { timeout: Duration::from_millis(100), ..support::options(GetWay::OneSided) };
            let mut hasty = open(options);
            testkit::wait_until("nobody serves", || hasty.with(b"key x", |table| table.get(b"key x")).is_err());
            let etcd = Killed::etcd();
            let found = watcher.with(b"key x", |table| table.get(b"key x")).unwrap();
            assert_eq!(found.map(|found| found.bytes), Some(b"1".to_vec()));
            etcd
        });
    });
}

//! Servers on simulated disks, in the process of the test: syncs that are held back, disks that fill and fail, power cuts.

mod support;

use std::collections::BTreeMap;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journal::{Disk, DiskFault, DiskFile, SimDisk};
use longarm_kv::{DataOptions, FsyncRule, GetWay, KvError, KvOptions, KvServer, TableOptions};
use support::{get, open, options, with_hub};

pub(crate) fn client(_: u32) {
    unreachable!("the test has no processes of clients");
}

/// A disk whose syncs wait while the gate is closed.
#[derive(Clone, Default)]
struct GatedDisk {
    disk: SimDisk,
    is_closed: Arc<AtomicBool>,
}

struct GatedFile(Box<dyn DiskFile>, Arc<AtomicBool>);

impl GatedDisk {
    fn gated(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(GatedFile(file, Arc::clone(&self.is_closed)))
    }

    fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::SeqCst);
    }
}

impl Disk for GatedDisk {
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>> {
        Ok(self.gated(self.disk.create(name)?))
    }
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>> {
        Ok(self.gated(self.disk.open(name)?))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn sync_directory(&self) -> Result<()> {
        self.disk.sync_directory()
    }
}

impl DiskFile for GatedFile {
    fn len_bytes(&self) -> Result<u64> {
        self.0.len_bytes()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn set_len(&self, len_bytes: u64) -> Result<()> {
        self.0.set_len(len_bytes)
    }
    fn allocate(&self, len_bytes: u64) -> Result<()> {
        self.0.allocate(len_bytes)
    }
    fn sync(&self) -> Result<()> {
        while self.1.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.sync()
    }
}

fn server_on(disk: Arc<dyn Disk>) -> KvServer {
    let data = DataOptions { fsync: FsyncRule::Always, segment_bytes: 64 << 10, ..DataOptions::new("simulated") };
    let table = TableOptions { max_bytes: 16 << 20, ..TableOptions::default() };
    KvServer::builder().table("cluster", table).data(data).disk(disk).bind(support::ADDRESS).unwrap()
}

#[test]
fn nobody_sees_a_change_that_may_still_be_lost() {
    with_hub("nobody_sees_a_change_that_may_still_be_lost", || {
        let disk = GatedDisk::default();
        let server = server_on(Arc::new(disk.clone()));
        let mut writer = open("cluster", options(GetWay::Rpc));
        for (key, value) in [(b"changed", b"1"), (b"deleted", b"1"), (b"at rest", b"1")] {
            writer.put(key, value).unwrap();
        }
        for way in GetWay::ALL {
            let mut reader = open("cluster", options(way));
            let mut impatient = open("cluster", KvOptions { timeout: Duration::from_millis(200), ..options(way) });
            let before = get(&mut reader, b"changed");
            assert_eq!(get(&mut reader, b"deleted"), Some(b"1".to_vec()));
            disk.close(true);
            let changes: Vec<_> = [0, 1]
                .map(|kind| {
                    let mut writer = open("cluster", options(GetWay::Rpc));
                    std::thread::spawn(move || match kind {
                        0 => drop(writer.put(b"changed", format!("{way:?}").as_bytes()).unwrap()),
                        _ => drop(writer.delete(b"deleted").unwrap()),
                    })
                })
                .into();
            // The table has both changes when the server's figures tell them; requests for figures do not wait.
            testkit::wait_until("the changes are in memory", || {
                server.data_figures().is_some_and(|figures| figures.unsynced >= 2)
            });
            for key in [b"changed", b"deleted"] {
                let seen = impatient.get(key);
                assert!(matches!(seen, Err(KvError::Server(_))), "{way:?}: {seen:?} instead of {before:?}");
            }
            if way == GetWay::OneSided {
                assert_eq!(get(&mut reader, b"at rest"), Some(b"1".to_vec()), "others can be read");
            }
            disk.close(false);
            changes.into_iter().for_each(|change| change.join().unwrap());
            assert_eq!(get(&mut reader, b"changed"), Some(format!("{way:?}").into_bytes()));
            assert_eq!(get(&mut reader, b"deleted"), None);
            writer.put(b"deleted", b"1").unwrap();
        }
    });
}

#[test]
fn failures_of_the_disk_are_told_and_reads_go_on() {
    with_hub("failures_of_the_disk_are_told_and_reads_go_on", || {
        let disk = SimDisk::new();
        let server = server_on(Arc::new(disk.clone()));
        let mut table = open("cluster", options(GetWay::OneSided));
        let mut impatient = open("cluster", KvOptions { timeout: Duration::from_millis(500), ..options(GetWay::Rpc) });
        table.put(b"first", b"1").unwrap();
        disk.set_fault(DiskFault { room_bytes: Some(200_000), ..DiskFault::default() });
        let refused = testkit::wait_for("the disk is full", || impatient.put(b"more", &[7; 30_000]).err());
        // The one that found out is not acknowledged, and those behind it are refused.
        assert!(matches!(refused, KvError::Server(_) | KvError::Full(_)), "{refused}");
        let refused = impatient.put(b"more", b"2").unwrap_err();
        assert!(matches!(&refused, KvError::Full(why) if why.contains("disk is full")), "{refused}");
        assert!(matches!(impatient.delete(b"first"), Err(KvError::Full(_))));
        assert!(server.data_figures().unwrap().refused_full >= 2);
        assert_eq!(get(&mut table, b"first"), Some(b"1".to_vec()));
        disk.set_fault(DiskFault::default());
        testkit::wait_until("there is room", || table.put(b"second", b"2").is_ok());
        // A sync fails: the change is of unknown outcome, and there are no others until a restart.
        disk.set_fault(DiskFault { failing_sync: Some(0), ..DiskFault::default() });
        let lost = table.put(b"lost", b"3").unwrap_err();
        assert!(matches!(&lost, KvError::Server(status) if !status.can_repeat()), "{lost}");
        let refused = table.put(b"lost", b"4").unwrap_err();
        assert!(
            matches!(&refused, KvError::Server(status) if status.message().contains("the log has failed")),
            "{refused}"
        );
        assert!(table.get(b"lost").is_err(), "nobody may see it");
        assert_eq!(get(&mut table, b"second"), Some(b"2".to_vec()));
        assert_eq!(server.data_figures().unwrap().failed, 1);
        drop((table, impatient, server));
        let _server = server_on(Arc::new(disk));
        let mut table = open("cluster", options(GetWay::OneSided));
        assert_eq!((get(&mut table, b"second"), get(&mut table, b"lost")), (Some(b"2".to_vec()), None));
    });
}

/// A change whose outcome nobody told: the key, and its value or none.
type OpenChange = (Vec<u8>, Option<Vec<u8>>);

#[test]
fn power_cuts_during_snapshots_lose_nothing() {
    with_hub("power_cuts_during_snapshots_lose_nothing", || {
        let (disk, mut random, mut model) = (SimDisk::new(), fastrand::Rng::with_seed(3), BTreeMap::new());
        let mut snapshots = 0;
        for life in 0..8_u32 {
            let server = server_on(Arc::new(disk.clone()));
            let mut table = open("cluster", KvOptions { timeout: Duration::from_secs(2), ..options(GetWay::Rpc) });
            let is_cut = AtomicBool::new(false);
            // The writer goes on until the power is cut. One change may then be under way.
            let (after, open_change) = std::thread::scope(|scope| {
                let (is_cut, mut model, mut choice) = (&is_cut, model.clone(), random.fork());
                let writer = scope.spawn(move || {
                    let mut last = None::<OpenChange>;
                    while !is_cut.load(Ordering::SeqCst) {
                        let key = choice.u32(..800).to_le_bytes().to_vec();
                        let value = (choice.u8(..5) > 0).then(|| vec![choice.u8(..); choice.usize(..3000)]);
                        last = Some((key.clone(), value.clone()));
                        let done = match &value {
                            Some(value) => table.put(&key, value).map(drop),
                            None => table.delete(&key).map(drop),
                        };
                        if done.is_err() {
                            break;
                        }
                        last = None;
                        match value {
                            Some(value) => drop(model.insert(key, value)),
                            None => drop(model.remove(&key)),
                        }
                    }
                    (model, last)
                });
                std::thread::sleep(Duration::from_millis(random.u64(30..150)));
                for _ in 0..life % 3 {
                    server.snapshot().unwrap();
                    snapshots += 1;
                }
                // Half of the cuts are in the middle of a snapshot.
                let snapshot = (life % 2 == 1).then(|| scope.spawn(|| drop(server.snapshot())));
                std::thread::sleep(Duration::from_micros(random.u64(..3000)));
                disk.crash(&mut random);
                is_cut.store(true, Ordering::SeqCst);
                snapshot.map(|snapshot| snapshot.join());
                writer.join().unwrap()
            });
            assert!(server.data_figures().unwrap().failed == 1 || open_change.is_none());
            drop(server);
            let server = server_on(Arc::new(disk.clone()));
            let mut table = open("cluster", options(GetWay::Rpc));
            model = after;
            for number in 0..800_u32 {
                let key = number.to_le_bytes().to_vec();
                let found = get(&mut table, &key);
                match &open_change {
                    Some((open, value)) if *open == key && found == *value => match found {
                        Some(value) => drop(model.insert(key, value)),
                        None => drop(model.remove(&key)),
                    },
                    _ => assert!(found.as_ref() == model.get(&key), "life {life}, key {number}"),
                }
            }
            drop((table, server));
        }
        assert!(snapshots > 5 && model.len() > 5, "{snapshots} snapshots, {} keys", model.len());
    });
}

//! The log on a simulated disk that loses, tears and reorders what was not synced.

use std::sync::Arc;
use std::time::Duration;

use longarm_journal::{DiskFault, FsyncRule, Journal, JournalError, JournalOptions, SimDisk, check, repair};

type Records = Vec<(u64, Vec<u8>)>;

fn options(fsync: FsyncRule) -> JournalOptions {
    JournalOptions { fsync, segment_bytes: 4096, ..JournalOptions::default() }
}

fn open(disk: &SimDisk, fsync: FsyncRule) -> Result<(Journal, Records), JournalError> {
    let mut found = Records::new();
    let journal = Journal::open(Arc::new(disk.clone()), 0, options(fsync), &mut |number, record| {
        found.push((number, record.to_vec()));
        Ok(())
    })?;
    Ok((journal, found))
}

fn record(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = if random.u8(..20) == 0 { random.usize(..9000) } else { random.usize(..200) };
    (0..len).map(|_| random.u8(..)).collect()
}

/// A run of several lives. Nothing that was durable may be lost, nothing else may appear, and numbers never come again.
fn run(seed: u64, fsync: FsyncRule, lies: bool) -> Result<u64, String> {
    let (disk, mut random) = (SimDisk::new(), fastrand::Rng::with_seed(seed));
    let (mut known, mut highest) = (Records::new(), 0);
    for _ in 0..random.u32(2..5) {
        let (journal, found) = open(&disk, fsync).map_err(|error| format!("refused: {error}"))?;
        if found[..] != known[..found.len().min(known.len())] {
            return Err(format!("{} records found that are none of the {} known", found.len(), known.len()));
        }
        disk.set_fault(DiskFault { lies, ..DiskFault::default() });
        known = found;
        let mut durable = known.last().map_or(0, |(number, _)| *number);
        for _ in 0..random.u32(..60) {
            let bytes = record(&mut random);
            let number = journal.append(&[&bytes]).map_err(|error| error.to_string())?;
            if number <= highest {
                return Err(format!("number {number} comes again"));
            }
            highest = number;
            known.push((number, bytes));
            if random.u8(..6) == 0 {
                journal.wait(number).map_err(|error| error.to_string())?;
                durable = number;
            }
        }
        match random.u8(..4) {
            0 => {
                drop(journal);
                durable = known.last().map_or(0, |(number, _)| *number);
            }
            _ => {
                disk.crash(&mut random);
                drop(journal);
            }
        }
        let (journal, found) = open(&disk, fsync).map_err(|error| format!("refused: {error}"))?;
        drop(journal);
        let last = found.last().map_or(0, |(number, _)| *number);
        if last < durable {
            return Err(format!("{durable} was durable, and {last} is the last"));
        }
    }
    Ok(highest)
}

#[test]
fn durable_records_survive_every_crash() {
    for seed in 0..100 {
        for fsync in [FsyncRule::Always, FsyncRule::EverySecond, FsyncRule::Never] {
            run(seed, fsync, false).unwrap_or_else(|why| panic!("seed {seed}, {fsync:?}: {why}"));
        }
    }
}

#[test]
fn a_disk_that_does_not_sync_is_found_out() {
    let found = (0..20).filter(|seed| run(*seed, FsyncRule::Always, true).is_err()).count();
    assert!(found > 5, "{found} of 20");
}

/// A log of several segments that was closed, and the number of its records.
fn written(disk: &SimDisk, records: usize) -> Records {
    let (journal, _) = open(disk, FsyncRule::Always).unwrap();
    let known: Records = (0..records)
        .map(|number| {
            let bytes = vec![number as u8; 300];
            let number = journal.append(&[&bytes]).unwrap();
            journal.wait(number).unwrap();
            (number, bytes)
        })
        .collect();
    known
}

#[test]
fn each_damaged_bit_is_refused_and_repaired_only_by_order() {
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..60 {
        let disk = SimDisk::new();
        let known = written(&disk, 40);
        let report = check(&disk, 0).unwrap();
        assert!(report.records == 40 && report.segments > 2 && report.damage.is_none() && report.torn.is_none());
        let names: Vec<String> = longarm_journal::Disk::list(&disk).unwrap();
        let name = &names[random.usize(..names.len())];
        // Of the last segment the end, too: the closing frame tells what was durable. Headers have unused bytes no more.
        let bit = random.u64(..64 * 8);
        let frame = (64 + 336 * random.u64(..3)) * 8;
        disk.flip(name, if round % 3 == 0 { bit } else { frame + random.u64(..300 * 8) });
        let error = open(&disk, FsyncRule::Always).expect_err("the damage is found");
        assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
        let before = check(&disk, 0).unwrap();
        assert!(before.damage.is_some());
        repair(&disk, 0).unwrap();
        let (_, found) = open(&disk, FsyncRule::Always).unwrap();
        assert!(found[..] == known[..found.len()] && found.len() as u64 == before.records, "{}", found.len());
    }
}

#[test]
fn a_missing_file_is_damage() {
    let disk = SimDisk::new();
    written(&disk, 40);
    let names = longarm_journal::Disk::list(&disk).unwrap();
    longarm_journal::Disk::remove(&disk, &names[1]).unwrap();
    let error = open(&disk, FsyncRule::Always).unwrap_err();
    assert!(error.to_string().contains("a file is missing"), "{error}");
    let begun_later = Journal::open(Arc::new(SimDisk::new()), 7, options(FsyncRule::Always), &mut |_, _| Ok(()));
    assert!(begun_later.is_err(), "a snapshot without its log");
}

#[test]
fn a_failed_sync_is_never_taken_for_a_good_one() {
    let disk = SimDisk::new();
    let (journal, _) = open(&disk, FsyncRule::Always).unwrap();
    let first = journal.append(&[b"first"]).unwrap();
    journal.wait(first).unwrap();
    disk.set_fault(DiskFault { failing_sync: Some(0), ..DiskFault::default() });
    let second = journal.append(&[b"second"]).unwrap();
    for _ in 0..2 {
        assert!(matches!(journal.wait(second), Err(JournalError::Failed(_))), "also when it is asked again");
    }
    assert!(matches!(journal.append(&[b"third"]), Err(JournalError::Failed(_))));
    assert_eq!((journal.durable(), journal.figures().failed), (first, 1));
    drop(journal);
    let (_, found) = open(&disk, FsyncRule::Always).unwrap();
    assert_eq!(found, [(first, b"first".to_vec())]);
}

#[test]
fn a_full_disk_refuses_records_until_it_has_room() {
    let disk = SimDisk::new();
    let (journal, _) = open(&disk, FsyncRule::Always).unwrap();
    disk.set_fault(DiskFault { room_bytes: Some(10_000), ..DiskFault::default() });
    let (mut known, mut waiting) = (Vec::new(), None);
    let refused = testkit::wait_for("the disk is full", || match journal.append(&[&[7; 500]]) {
        Ok(number) => {
            known.push(number);
            waiting = Some(number);
            std::thread::sleep(Duration::from_millis(1));
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(refused, JournalError::Full), "{refused}");
    assert_eq!(journal.figures().refused_full, 1);
    disk.set_fault(DiskFault::default());
    let number = testkit::wait_for("there is room", || journal.append(&[&[7; 500]]).ok());
    known.push(number);
    journal.wait(number).unwrap();
    assert!(waiting.is_some_and(|waiting| journal.durable() >= waiting), "what was taken before is not lost");
    drop(journal);
    let (_, found) = open(&disk, FsyncRule::Always).unwrap();
    assert_eq!(found.into_iter().map(|(number, _)| number).collect::<Vec<_>>(), known);
}

#[test]
fn old_files_go_when_their_records_are_elsewhere() {
    let disk = SimDisk::new();
    let (journal, _) = open(&disk, FsyncRule::Always).unwrap();
    let numbers: Vec<u64> = (0..60).map(|_| journal.append(&[&[1; 300]]).unwrap()).collect();
    journal.wait(numbers[59]).unwrap();
    journal.rotate();
    journal.wait(journal.append(&[b"rotated"]).unwrap()).unwrap();
    let before = longarm_journal::Disk::list(&disk).unwrap().len();
    journal.rotate();
    let later = journal.append(&[b"later"]).unwrap();
    journal.wait(later).unwrap();
    journal.forget(later - 1).unwrap();
    assert!(before > 1 && longarm_journal::Disk::list(&disk).unwrap().len() == 1);
    drop(journal);
    let mut found = Vec::new();
    let journal = Journal::open(Arc::new(disk.clone()), later - 1, options(FsyncRule::Always), &mut |number, _| {
        found.push(number);
        Ok(())
    });
    assert_eq!((journal.unwrap().recovered(), found), (later, vec![later]));
    assert!(open(&disk, FsyncRule::Always).is_err(), "without what is elsewhere, records are missing");
}

//! YCSB's core workloads: operations, and the keys that they choose.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The skew of YCSB's zipfian choice.
const THETA: f64 = 0.99;

/// Scans have 1 to so many keys, all lengths alike.
const LONGEST_SCAN: u64 = 100;

/// The choice of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KeyChoice {
    Zipfian,
    Uniform,
}

impl FromStr for KeyChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<KeyChoice, String> {
        match name {
            "zipfian" => Ok(KeyChoice::Zipfian),
            "uniform" => Ok(KeyChoice::Uniform),
            _ => Err(format!("{name}: keys are chosen zipfian or uniform")),
        }
    }
}

/// A core workload, or one of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) enum Workload {
    A,
    B,
    C,
    D,
    E,
    F,
    /// So many percent reads; the rest are updates.
    Reads(u8),
}

impl Workload {
    pub(super) fn parse(letter: char) -> Result<Workload, String> {
        match letter.to_ascii_lowercase() {
            'a' => Ok(Workload::A),
            'b' => Ok(Workload::B),
            'c' => Ok(Workload::C),
            'd' => Ok(Workload::D),
            'e' => Ok(Workload::E),
            'f' => Ok(Workload::F),
            other => Err(format!("--workload {other}: there are a, b, c, d, e and f")),
        }
    }

    /// True if it makes new keys.
    pub(super) fn inserts(self) -> bool {
        matches!(self, Workload::D | Workload::E)
    }

    /// The part of operations that only read.
    pub(super) fn reads(self) -> f64 {
        match self {
            Workload::A | Workload::F => 0.5,
            Workload::B | Workload::D | Workload::E => 0.95,
            Workload::C => 1.0,
            Workload::Reads(percent) => f64::from(percent) / 100.0,
        }
    }
}

/// As in the output: a capital letter, or the share of reads.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Reads(percent) => write!(f, "{percent} % reads"),
            letter => write!(f, "{letter:?}"),
        }
    }
}

/// As in JSON: a small letter, or a number.
impl From<Workload> for String {
    fn from(workload: Workload) -> String {
        match workload {
            Workload::Reads(percent) => percent.to_string(),
            letter => letter.to_string().to_lowercase(),
        }
    }
}

impl TryFrom<String> for Workload {
    type Error = String;

    fn try_from(text: String) -> Result<Workload, String> {
        match (text.parse(), &text.chars().collect::<Vec<_>>()[..]) {
            (Ok(percent @ 0..=100), _) => Ok(Workload::Reads(percent)),
            (_, [letter]) => Workload::parse(*letter),
            _ => Err(format!("{text} is no workload")),
        }
    }
}

/// One operation on the key with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkOp {
    Read(u64),
    Update(u64),
    Insert(u64),
    ReadModifyWrite(u64),
    /// A range from this key on, of so many keys.
    Scan(u64, usize),
}

/// Chooses operations for one client.
pub(super) struct OpChoice<'a> {
    workload: Workload,
    keys_by: KeyChoice,
    zipf: &'a Zipf,
    /// Keys that there are; all clients share it.
    keys: &'a AtomicU64,
    random: Random,
}

impl<'a> OpChoice<'a> {
    pub(super) fn new(
        workload: Workload,
        keys_by: KeyChoice,
        zipf: &'a Zipf,
        keys: &'a AtomicU64,
        seed: u64,
    ) -> OpChoice<'a> {
        OpChoice { workload, keys_by, zipf, keys, random: Random(seed.wrapping_mul(2) + 1) }
    }

    pub(super) fn next(&mut self) -> WorkOp {
        let reads = self.random.fraction() < self.workload.reads();
        match (self.workload, reads) {
            (Workload::D, true) => {
                // The latest keys are the most popular.
                let keys = self.keys.load(Ordering::Relaxed);
                let back = self.zipf.rank(self.random.fraction()) % keys;
                WorkOp::Read(keys - 1 - back)
            }
            (Workload::E, true) => WorkOp::Scan(self.key(), 1 + (self.random.next() % LONGEST_SCAN) as usize),
            (Workload::D | Workload::E, false) => WorkOp::Insert(self.keys.fetch_add(1, Ordering::Relaxed)),
            (_, true) => WorkOp::Read(self.key()),
            (Workload::F, false) => WorkOp::ReadModifyWrite(self.key()),
            (_, false) => WorkOp::Update(self.key()),
        }
    }

    fn key(&mut self) -> u64 {
        match self.keys_by {
            KeyChoice::Uniform => self.random.next() % self.zipf.keys,
            // Scattered, as YCSB's scrambled zipfian choice: popular keys are not neighbours.
            KeyChoice::Zipfian => scattered(self.zipf.rank(self.random.fraction())) % self.zipf.keys,
        }
    }
}

/// The key with a number: 20 bytes.
pub(super) fn key_of(number: u64) -> [u8; 20] {
    let mut key = *b"user0000000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn scattered(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 29
}

/// A zipfian choice of ranks. (Gray et al.: "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, section 3.2.)
pub(crate) struct Zipf {
    keys: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    pub(crate) fn new(keys: u64) -> Zipf {
        let zeta = |count: u64| (1..=count).map(|rank| 1.0 / (rank as f64).powf(THETA)).sum::<f64>();
        let all = zeta(keys);
        let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / all);
        Zipf { keys, zeta: all, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The rank for a fraction between 0 and 1; zero is the most popular.
    pub(crate) fn rank(&self, fraction: f64) -> u64 {
        let scaled = fraction * self.zeta;
        if scaled < 1.0 || self.keys == 1 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(THETA) || self.keys == 2 {
            1
        } else {
            let rank = self.keys as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
            (rank as u64).min(self.keys - 1)
        }
    }
}

/// Random numbers that cost little: xorshift64* (Marsaglia; Vigna).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_keys_have_the_part_that_zipf_gives_them() {
        let (zipf, mut random) = (Zipf::new(1000), Random(7));
        let mut counts = vec![0_u32; 1000];
        (0..200_000).for_each(|_| counts[zipf.rank(random.fraction()) as usize] += 1);
        let share = |rank: usize| f64::from(counts[rank]) / 200_000.0;
        for rank in [0, 1, 9] {
            let wanted = 1.0 / ((rank + 1) as f64).powf(THETA) / zipf.zeta;
            assert!((share(rank) - wanted).abs() < wanted * 0.15, "rank {rank}: {} for {wanted}", share(rank));
        }
        assert!(counts[999] < counts[0] / 100);
    }

    #[test]
    fn scans_have_all_lengths_and_insertions_make_new_keys() {
        let (zipf, keys) = (Zipf::new(1000), AtomicU64::new(1000));
        let mut choice = OpChoice::new(Workload::E, KeyChoice::Zipfian, &zipf, &keys, 3);
        let (mut lengths, mut inserts) = ([0; 101], 0);
        for _ in 0..20_000 {
            match choice.next() {
                WorkOp::Scan(first, len) if first < 1000 => lengths[len] += 1,
                WorkOp::Insert(number) if number == 1000 + inserts => inserts += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!((800..1200).contains(&inserts), "{inserts}");
        assert!(lengths[0] == 0 && lengths[1..].iter().all(|count| (120..270).contains(count)), "{lengths:?}");
    }

    #[test]
    fn workloads_have_their_parts_and_latest_keys_are_there() {
        let (zipf, keys) = (Zipf::new(100), AtomicU64::new(100));
        let mut choice = OpChoice::new(Workload::D, KeyChoice::Zipfian, &zipf, &keys, 3);
        let mut inserts = 0;
        for _ in 0..10_000 {
            match choice.next() {
                WorkOp::Insert(number) => {
                    assert_eq!(number, 100 + inserts);
                    inserts += 1;
                }
                WorkOp::Read(number) => assert!(number < 100 + inserts),
                other => panic!("{other:?}"),
            }
        }
        assert!((400..600).contains(&inserts), "{inserts}");
        assert_eq!(&key_of(1234), b"user0000000000001234");
        assert!(Workload::parse('g').is_err() && Workload::parse('A') == Ok(Workload::A));
    }

    #[test]
    fn a_share_of_reads_is_a_workload() {
        let (zipf, keys) = (Zipf::new(100), AtomicU64::new(100));
        for percent in [0, 30, 100] {
            let mut choice = OpChoice::new(Workload::Reads(percent), KeyChoice::Uniform, &zipf, &keys, 5);
            let reads = (0..10_000).filter(|_| matches!(choice.next(), WorkOp::Read(_))).count();
            assert!(reads.abs_diff(usize::from(percent) * 100) < 300, "{percent}: {reads}");
        }
        for workload in [Workload::A, Workload::F, Workload::Reads(0), Workload::Reads(95)] {
            assert_eq!(Workload::try_from(String::from(workload)), Ok(workload));
        }
        assert!(Workload::try_from("101".to_owned()).is_err() && Workload::try_from(String::new()).is_err());
    }
}

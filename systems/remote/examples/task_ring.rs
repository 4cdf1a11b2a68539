//! A log that one process ships to another by a ring: batches, an owner that is killed in the middle, and its next life.
//!
//! ```text
//! cargo run --release -p longarm-remote --example task_ring
//! ```

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longarm::connection::Route;
use longarm::{Access, Connection, Listener, RemoteKey};
use longarm_remote::{RingConsumer, RingError, RingReader, SharedRing, SharedRingOptions, TableMemory};

const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1:7478";
const RECORDS: u64 = 20_000;
const LONGEST: u32 = 256;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        None => ship().await,
        Some(progress) => own(&progress).await,
    }
}

/// The owner of the ring: takes records, and notes each in a file before it frees its place.
async fn own(progress: &str) -> Result<(), Box<dyn Error>> {
    let progress = File::options().read(true).write(true).open(progress)?;
    let mut word = [0; 8];
    progress.read_exact_at(&mut word, 0)?;
    let next = u64::from_le_bytes(word);
    let listener = Listener::bind(ADDRESS).await?;
    let domain = listener.open_device()?.protection_domain()?;
    let memory = TableMemory::writable(&domain, 256 << 10)?;
    let reader = RingReader::starting_at(&memory, LONGEST, next).ok_or("the ring is too short")?;
    let hello = [&next.to_le_bytes()[..], &memory.key().to_bytes()].concat();
    let cq = domain.device().completion_queue()?;
    let qp = domain.rc(&cq).remote_access(Access::REMOTE_READ | Access::REMOTE_WRITE);
    let writer = listener.incoming().await?.accept(qp, &hello).await?;
    let (mut ring, mut data) = (RingConsumer::new(writer, reader, 2)?, Vec::new());
    println!("the owner begins at record {next}");
    while ring.number() < RECORDS {
        let number = ring.peek(&mut data).await?;
        assert_eq!(data, record(number), "record {number}");
        progress.write_all_at(&(number + 1).to_le_bytes(), 0)?;
        ring.free();
    }
    println!("the owner has all {RECORDS} records");
    Ok(())
}

/// The writer: starts the owner, ships records to it, kills it in the middle, and goes on with its next life.
async fn ship() -> Result<(), Box<dyn Error>> {
    let progress = std::env::temp_dir().join(format!("longarm-ring-{}", std::process::id()));
    std::fs::write(&progress, [0; 8])?;
    let mut owner = Owner::start(&progress)?;
    let (connection, key, _) = connect().await?;
    let options = SharedRingOptions { timeout: PATIENCE, ..SharedRingOptions::default() };
    let (ring, began) = (SharedRing::new(connection, key, options), Instant::now());
    while ring.number() < RECORDS {
        if ring.number() == RECORDS / 2 && owner.lives == 1 {
            owner.kill()?;
        }
        match ring.push(&record(ring.number())).await {
            Ok(_) => {}
            Err(RingError::Ended(words)) => owner = resume(&ring, &progress, owner, &words).await?,
            Err(error) => return Err(error.into()),
        }
    }
    if let Err(RingError::Ended(words)) = ring.flush().await {
        owner = resume(&ring, &progress, owner, &words).await?;
        ring.flush().await?;
    }
    println!("the writer has shipped {RECORDS} records in {:.0?}, to {} lives", began.elapsed(), owner.lives);
    let is_well = owner.process.wait()?.success();
    std::fs::remove_file(&progress)?;
    if is_well { Ok(()) } else { Err("the owner has failed".into()) }
}

/// Starts the owner's next life, and sends again what it has not.
async fn resume(
    ring: &SharedRing<Connection>,
    progress: &std::path::Path,
    before: Owner,
    words: &str,
) -> Result<Owner, Box<dyn Error>> {
    println!("the writer sees that the owner is gone: {words}");
    let lives = before.lives + 1;
    drop(before);
    let mut owner = Owner::start(progress)?;
    owner.lives = lives;
    let (connection, key, next) = connect().await?;
    let kept = ring.kept();
    ring.resume(connection, key, next)?;
    println!("of {kept} records that it has kept, the writer sends those from {next} on again");
    Ok(owner)
}

/// The connection, the key to the ring, and the number of the first record that the owner wants.
async fn connect() -> Result<(Connection, RemoteKey, u64), Box<dyn Error>> {
    let began = Instant::now();
    loop {
        let device = Route::to(ADDRESS).await?.open_device()?;
        let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
        match longarm::connect(ADDRESS, domain.rc(&cq), b"").await {
            Ok(connection) => {
                let (next, key) = connection.private_data().split_first_chunk().ok_or("no key")?;
                let key = RemoteKey::from_bytes(&key[..RemoteKey::ENCODED_BYTES])?;
                let next = u64::from_le_bytes(*next);
                return Ok((connection, key, next));
            }
            Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn record(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + (number % 31) as usize)
}

/// The owner's process, which ends with the writer.
struct Owner {
    process: Child,
    lives: u32,
}

impl Owner {
    fn start(progress: &std::path::Path) -> Result<Owner, Box<dyn Error>> {
        let process = Command::new(std::env::current_exe()?).arg(progress).stdin(Stdio::null()).spawn()?;
        Ok(Owner { process, lives: 1 })
    }

    fn kill(&mut self) -> std::io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! A table in the memory of one process, which another one reads while the first is stopped.
//!
//! ```text
//! cargo run --release -p longarm-remote --example stopped_owner
//! ```

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longarm::connection::Route;
use longarm::{Listener, RemoteKey};
use longarm_remote::{Cluster, Crc64, OwnerOptions, ReaderOptions, TableMemory, TableOwner, TableReader};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(10);
const KEYS: u32 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None => read(),
        Some(address) => own(address),
    }
}

/// The owner: fills a table, and tells its key to readers.
fn own(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind(address).wait(PATIENCE)?;
    let domain = listener.open_device()?.protection_domain()?;
    let memory = TableMemory::readable(&domain, 32 << 20)?;
    let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default())?;
    for number in 0..KEYS {
        table.put(format!("key {number}").as_bytes(), &[number as u8; 64])?;
    }
    let cq = domain.device().completion_queue()?;
    let reader = listener.incoming().wait(PATIENCE)?.accept(domain.rc(&cq), &memory.key().to_bytes()).wait(PATIENCE)?;
    reader.disconnected().wait(Duration::from_secs(60));
    Ok(())
}

/// The reader: starts the owner, connects, and reads before, while and after it is stopped.
fn read() -> Result<(), Box<dyn Error>> {
    let address = "127.0.0.1:7479";
    let owner = Owner(Command::new(std::env::current_exe()?).arg(address).stdin(Stdio::null()).spawn()?);
    let began = Instant::now();
    let qp = loop {
        let device = Route::to(address).wait(PATIENCE)?.open_device()?;
        let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
        match longarm::connect(address, domain.rc(&cq), b"").wait(PATIENCE) {
            Ok(qp) => break qp,
            Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let key = RemoteKey::from_bytes(&qp.private_data()[..RemoteKey::ENCODED_BYTES])?;
    let mut reader = TableReader::<_, Cluster, Crc64>::new(qp, key, ReaderOptions::default())?;
    lookups(&mut reader, "the owner sleeps")?;
    kill_process(Pid::from_child(&owner.0), Signal::STOP)?;
    lookups(&mut reader, "the owner is stopped")?;
    kill_process(Pid::from_child(&owner.0), Signal::CONT)?;
    lookups(&mut reader, "the owner goes on")
}

/// The owner's process, which ends with the reader.
struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Reader = TableReader<longarm::Connection, Cluster, Crc64>;

fn lookups(reader: &mut Reader, when: &str) -> Result<(), Box<dyn Error>> {
    let (mut value, began, before) = (Vec::new(), Instant::now(), reader.stats());
    for number in 0..KEYS {
        let found = reader.get(format!("key {number}").as_bytes(), &mut value)?;
        assert!(found.is_some() && value == [number as u8; 64]);
    }
    let (each, reads) = (began.elapsed() / KEYS, reader.stats().reads - before.reads);
    println!("{when}: {KEYS} lookups, {each:.0?} and {:.2} READs each", reads as f64 / f64::from(KEYS));
    Ok(())
}

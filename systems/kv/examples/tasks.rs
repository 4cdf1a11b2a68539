//! Many tasks share one table: a server in this process, and requests as a web service would make them.
//!
//! `cargo run --release -p longarm-kv --example tasks`

use std::time::Instant;

use longarm_kv::{AsyncKvTable, KvError, KvOptions, KvServer, TableOptions};

const TASKS: usize = 100;
const VISITS: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = KvServer::builder().table("sessions", TableOptions::default()).bind("127.0.0.1:0")?;
    let address = server.local_addr().to_string();
    let table = AsyncKvTable::open(&address, "sessions", KvOptions::default()).await?;

    let began = Instant::now();
    let visitors: Vec<_> = (0..TASKS).map(|number| tokio::spawn(visit(table.clone(), number))).collect();
    for visitor in visitors {
        visitor.await??;
    }
    let elapsed = began.elapsed();

    let visits = table.get(b"visits").await?.map(|value| String::from_utf8_lossy(&value.bytes).into_owned());
    println!("{TASKS} tasks, {VISITS} visits each: {} visits in {elapsed:.2?}", visits.unwrap_or_default());
    println!("{:?}", table.stats());
    table.close().await?;
    Ok(())
}

/// Reads a session again and again, and counts each visit.
async fn visit(table: AsyncKvTable, number: usize) -> Result<(), KvError> {
    let session = format!("session {number}");
    table.put(session.as_bytes(), b"a cart").await?;
    for _ in 0..VISITS {
        let (found, _) = futures_util::future::try_join(table.get(session.as_bytes()), table.add(b"visits", 1)).await?;
        assert_eq!(found.map(|value| value.bytes), Some(b"a cart".to_vec()));
    }
    Ok(())
}

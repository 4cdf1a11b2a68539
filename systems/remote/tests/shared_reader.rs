//! Readers that many tasks share.

mod support;

use std::sync::Arc;
use std::time::Duration;

use longarm::{Connection, Listener, ProtectionDomain};
use longarm_remote::{
    Cluster, Crc64, OwnerOptions, ReaderOptions, SharedTableReader, SharedTreeReader, TableMemory, TableOwner,
    TreeOptions, TreeOwner,
};
use support::{PATIENCE, with_hub};

const KEYS: u32 = 500;

fn connect(listener: &Listener, domain: &ProtectionDomain) -> (Connection, Connection) {
    let cq = domain.device().completion_queue().unwrap();
    let reader = longarm::connect(listener.local_addr(), domain.rc(&cq), b"");
    let owner = listener.incoming().wait(PATIENCE).unwrap().accept(domain.rc(&cq), b"").wait(PATIENCE).unwrap();
    (reader.wait(PATIENCE).unwrap(), owner)
}

fn options() -> ReaderOptions {
    ReaderOptions { outstanding: 4, timeout: PATIENCE, ..ReaderOptions::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap()
}

fn value_of(key: u32) -> Vec<u8> {
    vec![key as u8; key as usize * 7]
}

/// Tasks that share a reader, some of which give up at once: all others find what they look for.
macro_rules! share {
    ($reader:expr) => {{
        let reader = Arc::new($reader);
        runtime().block_on(async {
            let tasks: Vec<_> = (0..16_u32)
                .map(|task| {
                    let reader = Arc::clone(&reader);
                    tokio::spawn(async move {
                        for key in (0..KEYS + 20).map(|key| (key * 31 + task * 7) % (KEYS + 20)) {
                            let (bytes, wanted) = (key.to_le_bytes(), (key < KEYS).then(|| value_of(key)));
                            let get = reader.get(&bytes, |found| found.map(|found| found.value.to_vec()));
                            if (key + task) % 5 == 0 {
                                let _ = tokio::time::timeout(Duration::ZERO, get).await;
                            } else {
                                assert_eq!(get.await.unwrap(), wanted, "key {key}");
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert!(reader.stats().lookups > 0 && reader.stats().reads > u64::from(KEYS));
    }};
}

#[test]
fn tasks_share_a_connection() {
    with_hub("tasks_share_a_connection", || {
        let listener = Listener::bind("127.0.0.1:0").wait(PATIENCE).unwrap();
        let domain = listener.open_device().unwrap().protection_domain().unwrap();
        let memory = TableMemory::readable(&domain, 8 << 20).unwrap();
        let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
        let tree_memory = TableMemory::readable(&domain, 8 << 20).unwrap();
        let mut tree = TreeOwner::<_, Crc64>::create(&tree_memory, TreeOptions::default()).unwrap();
        for key in 0..KEYS {
            table.put(&key.to_le_bytes(), &value_of(key)).unwrap();
            tree.put(&key.to_le_bytes(), &value_of(key)).unwrap();
        }
        let (ends, tree_ends) = (connect(&listener, &domain), connect(&listener, &domain));
        share!(SharedTableReader::<_, Cluster, Crc64>::new(ends.0, memory.key(), options()).unwrap());
        share!(SharedTreeReader::<_, Crc64>::new(tree_ends.0, tree_memory.key(), options()).unwrap());
    });
}

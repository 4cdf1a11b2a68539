//! A ring in registered memory: a peer WRITEs records, over packets and on one host, and the owner takes them.

mod support;

use std::time::Duration;

use longarm::{Access, Connection, Listener, ProtectionDomain};
use longarm_remote::{RemoteRing, RingBroken, RingError, RingReader, TableMemory};
use support::{PATIENCE, with_hub};

const RECORDS: u64 = 3000;
const LONGEST: u32 = 3000;

/// A connection: the writer's end and the owner's.
fn connect(listener: &Listener, domain: &ProtectionDomain) -> (Connection, Connection) {
    let cq = domain.device().completion_queue().unwrap();
    let writer = longarm::connect(listener.local_addr(), domain.rc(&cq), b"");
    let qp = domain.rc(&cq).remote_access(Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    let owner = listener.incoming().wait(PATIENCE).unwrap().accept(qp, b"").wait(PATIENCE).unwrap();
    (writer.wait(PATIENCE).unwrap(), owner)
}

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; (number * 37 % u64::from(LONGEST)) as usize]
}

#[test]
fn records_arrive_in_order_and_a_full_ring_waits() {
    with_hub("records_arrive_in_order_and_a_full_ring_waits", || {
        let listener = Listener::bind("127.0.0.1:0").wait(PATIENCE).unwrap();
        let domain = listener.open_device().unwrap().protection_domain().unwrap();
        let memory = TableMemory::writable(&domain, 16 << 10).unwrap();
        let mut reader = RingReader::new(&memory, LONGEST).unwrap();
        let (writer, _owner) = connect(&listener, &domain);
        let mut ring = RemoteRing::new(writer, memory.key(), Duration::from_millis(100));
        // Nobody takes anything: the ring fills up, and nothing is written over.
        let mut sent = 0;
        let full = loop {
            match ring.send(&record(sent)) {
                Ok(number) => assert_eq!(number, sent),
                Err(error) => break error,
            }
            sent += 1;
        };
        assert!(matches!(full, RingError::Full(_)) && sent > 2, "{full}");
        assert!(matches!(ring.send(&[0; 20_000]), Err(RingError::Full(_))));
        let mut bytes = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while sent < RECORDS {
                    match ring.send(&record(sent)) {
                        Ok(number) => assert_eq!(number, sent),
                        // The owner may be slow on a busy machine.
                        Err(RingError::Full(_)) => continue,
                        Err(error) => panic!("{error}"),
                    }
                    sent += 1;
                }
            });
            for wanted in 0..RECORDS {
                let number = testkit::wait_for("a record", || reader.take(&mut bytes).unwrap());
                assert_eq!((number, &bytes), (wanted, &record(wanted)));
            }
        });
        assert_eq!(reader.take(&mut bytes), Ok(None));
        // A word that is no header breaks the ring, and is told.
        let at = reader.number();
        memory.region().store(64, 7).unwrap();
        let mut fresh = RingReader::new(&memory, LONGEST).unwrap();
        assert_eq!((fresh.take(&mut bytes), at), (Ok(None), RECORDS));
        memory.region().store(64, 7).unwrap();
        assert_eq!(fresh.take(&mut bytes), Err(RingBroken::Header(7)));
    });
}

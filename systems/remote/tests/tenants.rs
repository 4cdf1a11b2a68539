//! Keys to one table for each reader: windows, which are given back one by one.

mod support;

use longarm::{Access, Connection, Listener, ProtectionDomain, Status};
use longarm_remote::{Cluster, Crc64, OwnerOptions, ReadError, ReaderOptions, TableMemory, TableOwner, TableReader};
use support::{PATIENCE, with_hub};

/// A connection: the reader's end and the owner's.
fn connect(listener: &Listener, domain: &ProtectionDomain) -> (Connection, Connection) {
    let cq = domain.device().completion_queue().unwrap();
    let reader = longarm::connect(listener.local_addr(), domain.rc(&cq), b"");
    let owner = listener.incoming().wait(PATIENCE).unwrap().accept(domain.rc(&cq), b"").wait(PATIENCE).unwrap();
    (reader.wait(PATIENCE).unwrap(), owner)
}

fn is_refused<T: std::fmt::Debug>(outcome: Result<T, ReadError>) -> bool {
    match outcome {
        Err(ReadError::Link(error)) => error.status() == Some(Status::RemoteAccess),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_window_is_for_one_reader_until_it_is_revoked() {
    with_hub("a_window_is_for_one_reader_until_it_is_revoked", || {
        let listener = Listener::bind("127.0.0.1:0").wait(PATIENCE).unwrap();
        let domain = listener.open_device().unwrap().protection_domain().unwrap();
        let memory = TableMemory::readable(&domain, 1 << 20).unwrap();
        let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
        table.put(b"key", b"value").unwrap();

        let ends = [(); 3].map(|()| connect(&listener, &domain));
        let mut windows = ends.iter().map(|(_, owner)| {
            let window = memory.region().window(0..1 << 20, Access::REMOTE_READ).unwrap();
            owner.bind(window).wait(PATIENCE).unwrap()
        });
        let (first, second) = (windows.next().unwrap(), windows.next().unwrap());
        drop(windows);
        let [one, two, thief] = ends.map(|(reader, owner)| (reader, owner));
        let reader =
            |end: Connection, key| TableReader::<_, Cluster, Crc64>::new(end, key, ReaderOptions::default()).unwrap();
        let (mut one_reader, mut two_reader) = (reader(one.0, first.key()), reader(two.0, second.key()));
        let mut value = Vec::new();
        for reader in [&mut one_reader, &mut two_reader] {
            assert!(reader.get(b"key", &mut value).unwrap().is_some() && value == b"value");
        }
        // Another connection cannot use the key, and a reader's key has no right to write.
        assert!(is_refused(reader(thief.0, second.key()).get(b"key", &mut value)));
        drop(first);
        assert!(is_refused(one_reader.get(b"key", &mut value)));
        assert!(two_reader.get(b"key", &mut value).unwrap().is_some());
        assert!(is_refused(two_reader.update(b"key", b"other", 1)));
        table.get(b"key", &mut value).unwrap();
        assert_eq!(value, b"value");
    });
}

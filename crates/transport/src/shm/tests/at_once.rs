//! READs into bytes that no key names.

use super::*;
use crate::memory::Access;
use crate::testing::{PD, Side, word};
use crate::wr::RemoteAddr;

const LOCK: u64 = 1 << 63;

fn read(pair: &mut ShmPair, from: RemoteAddr, lock_mask: Option<u64>, len: usize) -> Option<Vec<u8>> {
    pair.go(Side::A, false);
    let mut out = vec![0xee; len];
    let node = &mut pair.a;
    let taken = node.qp.read_at_once(&mut out, from, lock_mask, &mut node.host)?;
    out.truncate(taken as usize);
    Some(out)
}

#[test]
fn bytes_and_objects_are_read_at_once_and_without_a_completion() {
    let mut pair = pair(ShmMode::Direct);
    let whole = pair.b.host.memory.filled(&pattern(1000, 3));
    let locked = pair.b.host.memory.filled(&LOCK.to_ne_bytes().repeat(8));
    let all = pair.b.host.memory.bytes(&whole);
    assert_eq!(read(&mut pair, whole.remote(5), None, 100).as_deref(), Some(&all[5..105]));
    assert_eq!(read(&mut pair, whole.remote(8), Some(0), 64).as_deref(), Some(&all[8..72]));
    assert_eq!(read(&mut pair, locked.remote(0), Some(LOCK), 64).map(|bytes| word(&bytes)), Some(LOCK));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), []);
}

#[test]
fn a_read_that_is_not_possible_at_once_is_none() {
    let rights = [Access::LOCAL_WRITE | Access::REMOTE_READ, Access::LOCAL_WRITE | Access::REMOTE_WRITE];
    for (access, offset, len, mask, is_read) in [
        (rights[0], 0, 64, None, true),
        (rights[1], 0, 64, None, false),
        (rights[0], 8, 64, None, false),
        (rights[0], 0, 0, None, false),
        (rights[0], 0, 64, Some(LOCK), true),
        (rights[0], 4, 32, Some(LOCK), false),
        (rights[0], 0, 8, Some(LOCK), false),
    ] {
        let mut pair = pair(ShmMode::Direct);
        let at = pair.b.host.memory.region_in(PD, 64, access);
        let from = RemoteAddr { addr: at.addr + offset, rkey: at.rkey };
        let read = read(&mut pair, from, mask, len).is_some();
        assert_eq!(read, is_read, "{access:?} {offset} {len} {mask:?}");
    }
    let mut unmapped = pair(ShmMode::ByRequest);
    let at = unmapped.b.host.memory.region(64);
    assert_eq!(read(&mut unmapped, at.remote(0), None, 64), None);
}

#[test]
fn a_read_does_not_overtake_requests_that_wait() {
    let mut pair = pair(ShmMode::Direct);
    let (at, to) = (pair.b.host.memory.region(64), pair.a.host.memory.region(64));
    pair.a.send(send_wr(1, SendOp::Send, payload(&to)));
    assert_eq!(read(&mut pair, at.remote(0), None, 64), None, "the SEND is not acknowledged");
    post_recv(&mut pair, 2, &at);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert!(read(&mut pair, at.remote(0), None, 64).is_some());
}

#[test]
fn a_captured_connection_reads_by_requests() {
    let mut pair = pair(ShmMode::Direct);
    pair.write_down();
    let at = pair.b.host.memory.region(64);
    assert_eq!(read(&mut pair, at.remote(0), None, 64), None);
}

//! Every operation, with the data verified.

mod common;

use common::*;
use longarm::{Access, CompletionOp, KeyError, PostError, RemoteKey, Status, WorkError};
use testkit::{PATIENCE, wait_until};

#[test]
fn send_and_receive() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let message = right.recv(b.empty(64)).start();
            let sent = left.send(a.buffer(b"hello")).wait(PATIENCE).unwrap();
            assert_eq!(&sent[..], b"hello");
            let message = message.wait(PATIENCE).unwrap();
            assert_eq!(&message[..], b"hello");
            assert_eq!(message.qpn(), right.qpn());
            assert_eq!((message.imm(), message.written_bytes()), (None, None));
            let buffer = message.into_buffer();
            assert_eq!((buffer.len(), buffer.capacity()), (5, 64));
        })
    })
}

#[test]
fn long_messages_arrive_whole() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let bytes = pattern(3 << 20);
            let message = right.recv(b.empty(4 << 20)).start();
            left.send(a.buffer(&bytes)).wait(PATIENCE).unwrap();
            assert!(message.wait(PATIENCE).unwrap()[..] == bytes);
        })
    })
}

#[test]
fn send_variants() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let messages: Vec<_> = (0..4).map(|_| right.recv(b.empty(64)).start()).collect();
            let has_immediate = has(a.device.capabilities().immediate, IMMEDIATE);
            let sent = left.send_with_imm(a.buffer(b"imm"), 0xfeed_f00d).wait(PATIENCE);
            if has_immediate {
                sent.unwrap();
            } else {
                refused(sent, "no immediate data");
                left.send(a.buffer(b"imm")).wait(PATIENCE).unwrap();
            }
            left.send_inline(b"inline").wait(PATIENCE).unwrap();
            left.send_inline(b"").wait(PATIENCE).unwrap();
            let parts = [a.buffer(b"two "), a.buffer(b"parts")];
            let [_, second] = left.send(parts).wait(PATIENCE).unwrap();
            assert_eq!(&second[..], b"parts");
            let got: Vec<_> = messages.into_iter().map(|m| m.wait(PATIENCE).unwrap()).collect();
            let bytes: Vec<_> = got.iter().map(|m| &m[..]).collect();
            assert_eq!(bytes, [&b"imm"[..], b"inline", b"", b"two parts"]);
            assert_eq!((got[0].imm(), got[1].imm()), (has_immediate.then_some(0xfeed_f00d), None));
        })
    })
}

#[test]
fn write_and_read_without_the_owner() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(1 << 16, ALL).unwrap();
            let key = RemoteKey::from_bytes(&region.key().to_bytes()).unwrap();
            let bytes = pattern(40_000);
            left.write(a.buffer(&bytes), &key.at(1000, 50_000).unwrap()).wait(PATIENCE).unwrap();
            let mut seen = vec![0; 40_000];
            region.copy_out(1000, &mut seen).unwrap();
            assert!(seen == bytes);
            left.write_inline(b"inline", &key).wait(PATIENCE).unwrap();

            let got = left.read(a.empty(50_000), &key.at(1000, 40_000).unwrap());
            assert!(got.wait(PATIENCE).unwrap()[..] == bytes);
            let halves = vec![a.empty(4), a.empty(10)];
            let halves = left.read(halves, &key.at(0, 6).unwrap()).wait(PATIENCE);
            if !has(a.device.limits().max_read_sge > 1, "READ into several buffers") {
                return refused(halves, "for 1 entries");
            }
            let halves = halves.unwrap();
            assert_eq!((&halves[0][..], &halves[1][..]), (&b"inli"[..], &b"ne"[..]));
        })
    })
}

#[test]
fn write_with_imm_tells_the_owner() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let region = b.domain.expose(64, ALL).unwrap();
            let notice = right.recv(b.empty(1)).start();
            let written = left.write_with_imm(a.buffer(b"news"), &region.key(), 7).wait(PATIENCE);
            if !has(a.device.capabilities().immediate, IMMEDIATE) {
                return refused(written, "no immediate data");
            }
            assert_eq!(&written.unwrap()[..], b"news");
            let notice = notice.wait(PATIENCE).unwrap();
            assert_eq!((notice.imm(), notice.written_bytes()), (Some(7), Some(4)));
            assert!(notice.is_empty());
            let mut seen = [0; 4];
            region.copy_out(0, &mut seen).unwrap();
            assert_eq!(&seen, b"news");
        })
    })
}

#[test]
fn atomics_return_the_old_value() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(16, ALL).unwrap();
            region.store(8, u64::MAX).unwrap();
            let word = region.key().word(8).unwrap();
            if !has(a.device.capabilities().atomics, ATOMICS) {
                return refused(left.fetch_add(&word, 3).wait(PATIENCE), "no atomic operations");
            }
            assert_eq!(left.fetch_add(&word, 3).wait(PATIENCE).unwrap(), u64::MAX);
            assert_eq!(left.compare_swap(&word, 2, 50).wait(PATIENCE).unwrap(), 2);
            assert_eq!(left.compare_swap(&word, 2, 60).wait(PATIENCE).unwrap(), 50);
            assert_eq!(region.load(8).unwrap(), 50);
            assert_eq!(region.load(0).unwrap(), 0);
            let own = b.domain.expose(16, Access::REMOTE_READ).unwrap();
            assert_eq!((own.fetch_add(8, 50).unwrap(), own.load(8).unwrap()), (0, 50), "peers do no atomics there");
            if !has(b.device.capabilities().host_atomics, "atomics of the owner beside those of peers") {
                assert_eq!(region.fetch_add(8, 1), Err(KeyError::NotAtomic));
                assert_eq!(region.compare_swap(8, 50, 1), Err(KeyError::NotAtomic));
                return;
            }
            assert_eq!(region.fetch_add(8, 1).unwrap(), 50);
            assert_eq!(region.compare_swap(8, 51, 1).unwrap(), 51);
        })
    })
}

#[test]
fn atomics_need_no_memory_of_the_caller_however_many() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(8, ALL).unwrap();
            let key = region.key();
            if !has(a.device.capabilities().atomics, ATOMICS) {
                return refused(left.compare_swap(&key, 0, 1).wait(PATIENCE), "no atomic operations");
            }
            let adds: Vec<_> = (0..100).map(|_| left.fetch_add(&key, 1).start()).collect();
            let old: Vec<_> = adds.into_iter().map(|add| add.wait(PATIENCE).unwrap()).collect();
            assert_eq!(old, (0..100).collect::<Vec<u64>>());
        })
    })
}

#[test]
fn part_of_a_region_is_a_source_and_a_target() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let ours = a.domain.expose(64, Access::empty()).unwrap();
            let theirs = b.domain.expose(64, ALL).unwrap();
            ours.copy_in(8, b"from here").unwrap();
            let slice = ours.slice(8..17).unwrap();
            left.write(slice, &theirs.key()).wait(PATIENCE).unwrap();
            let back = ours.slice(32..41).unwrap();
            left.read(back, &theirs.key().at(0, 9).unwrap()).wait(PATIENCE).unwrap();
            let mut seen = [0; 9];
            ours.copy_out(32, &mut seen).unwrap();
            assert_eq!(&seen, b"from here");
        })
    })
}

#[test]
fn unreliable_connections_send_and_write() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has(a.device.capabilities().uc, UNRELIABLE) {
                let error = a.uc().build().unwrap_err().to_string();
                return assert!(error.contains("no unreliable connections"), "{error}");
            }
            let (left, right) = join(a.uc().build().unwrap(), b.uc().build().unwrap());
            let region = b.domain.expose(64, ALL).unwrap();
            let message = right.recv(b.empty(64)).start();
            let notice = right.recv(b.empty(64)).start();
            left.send_with_imm(a.buffer(b"hello"), 9).wait(PATIENCE).unwrap();
            left.write_with_imm(a.buffer(b"wrote"), &region.key(), 10).wait(PATIENCE).unwrap();
            let message = message.wait(PATIENCE).unwrap();
            assert_eq!((&message[..], message.imm()), (&b"hello"[..], Some(9)));
            let notice = notice.wait(PATIENCE).unwrap();
            assert_eq!((notice.imm(), notice.written_bytes()), (Some(10), Some(5)));
        })
    })
}

#[test]
fn a_batch_goes_out_in_order() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let region = b.domain.expose(64, ALL).unwrap();
            let key = region.key();
            if !has(a.device.capabilities().atomics, ATOMICS) {
                return;
            }
            let message = right.recv(b.empty(64)).start();
            let tickets = left
                .batch()
                .write(a.buffer(b"12345678"), &key)
                .unsignaled()
                .fetch_add(&key.word(8).unwrap(), 5)
                .read(a.empty(16), &key.at(0, 16).unwrap())
                .send(a.buffer(b"done"))
                .fence()
                .post()
                .unwrap();
            assert_eq!(tickets.len(), 4);
            let mut done = Vec::new();
            wait_until("four completions", || {
                a.cq.poll(&mut done, 8).unwrap();
                done.len() == 4
            });
            let ops: Vec<_> = done.iter().map(|c| (c.ticket(), c.op(), c.is_ok())).collect();
            let expected = [
                (tickets[0], CompletionOp::Write, true),
                (tickets[1], CompletionOp::FetchAdd, true),
                (tickets[2], CompletionOp::Read, true),
                (tickets[3], CompletionOp::Send, true),
            ];
            assert_eq!(ops, expected);
            assert_eq!((done[1].value(), done[0].value()), (Some(0), None));
            let read = done.swap_remove(2).into_buffer().unwrap();
            assert_eq!(read[..], [*b"12345678", 5u64.to_ne_bytes()].concat());
            assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"done");
        })
    })
}

#[test]
fn wrong_requests_are_refused_before_they_are_posted() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let key = b.domain.expose(64, ALL).unwrap().key();
            let refused = |failure: longarm::Failure| match failure.error() {
                WorkError::NotPosted(error) => error.to_string(),
                other => panic!("{other}"),
            };
            let too_long = left.write(a.empty(65), &key).wait(PATIENCE).unwrap_err();
            assert!(refused(too_long).contains("65 bytes do not fit into 64"));
            let short = left.read(a.empty(63), &key).wait(PATIENCE).unwrap_err();
            assert_eq!(short.error().to_string().matches("63").count(), 1);
            assert_eq!(short.into_buffer().map(|b| b.capacity()), Some(63));
            let not_a_word = key.at(4, 8).unwrap();
            assert!(refused(left.fetch_add(&not_a_word, 1).wait(PATIENCE).unwrap_err()).contains("multiple of 8"));
            let foreign = left.send(b.buffer(b"x")).wait(PATIENCE).unwrap_err();
            let error = foreign.into_error();
            assert!(matches!(error, WorkError::NotPosted(PostError::OtherDomain)), "{error}");
            let long = left.send_inline(&[0; 2000]).wait(PATIENCE).unwrap_err();
            assert!(refused(long).contains("inline"));
        })
    })
}

#[test]
fn a_refused_batch_gives_every_buffer_back() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let key = b.domain.expose(8, ALL).unwrap().key();
            let batch = left.batch().send(a.buffer(b"1")).write(a.buffer(b"too long for it"), &key);
            let failure = batch.post().unwrap_err();
            assert!(failure.posted().is_empty());
            assert!(matches!(failure.error(), PostError::RemoteTooShort { .. }));
            assert_eq!(failure.into_buffers().len(), 2);
        })
    })
}

#[test]
fn a_revoked_key_is_refused_and_the_reason_is_told() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let region = b.domain.expose(64, Access::REMOTE_READ).unwrap();
            let key = region.key();
            left.read(a.empty(64), &key).wait(PATIENCE).unwrap();
            drop(region);
            let failure = left.read(a.empty(64), &key).wait(PATIENCE).unwrap_err();
            if has(!a.device.capabilities().by_address_only, REASONS) {
                assert_eq!(failure.status(), Some(Status::RemoteAccess));
                assert!(failure.to_string().contains("refused"), "{failure}");
            }
            assert!(failure.into_buffer().is_some());
            assert!(left.failure().is_some());
            if a.device.capabilities().by_address_only {
                return refused(left.send(a.buffer(b"x")).wait(PATIENCE), "has ended");
            }
            wait_until("the owner's end fails too", || right.failure().is_some());
            let later = left.send(a.buffer(b"x")).wait(PATIENCE).unwrap_err();
            assert_eq!(later.status(), Some(Status::WorkRequestFlushed));
            assert!(later.to_string().contains("had failed: "), "{later}");
        })
    })
}

#[test]
fn atomic_writes_and_flushes() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let memory = b.domain.expose(4096, ALL | Access::FLUSH_GLOBAL);
            if !has(b.device.capabilities().flush, "ATOMIC WRITE and FLUSH") {
                // The words of the refusal: here for the right, below for the operation.
                if let Ok(memory) = memory {
                    let refused = left.flush(&memory.key()).wait(PATIENCE).unwrap_err();
                    assert!(refused.to_string().contains("this device has no FLUSH"), "{refused}");
                }
                return;
            }
            let memory = memory.unwrap();
            left.atomic_write(&memory.key().word(8).unwrap(), 0x1122_3344_5566_7788).wait(PATIENCE).unwrap();
            assert_eq!(memory.load(8).unwrap(), 0x1122_3344_5566_7788);
            left.write(a.buffer(&pattern(1000)), &memory.key().at(64, 1000).unwrap()).wait(PATIENCE).unwrap();
            left.flush(&memory.key()).wait(PATIENCE).unwrap();
            let batch = left.batch().atomic_write(&memory.key().word(0).unwrap(), 7).flush(&memory.key());
            let last = batch.post().unwrap().pop().unwrap();
            assert!(left.wait(last, PATIENCE).unwrap().is_ok());
            assert_eq!(memory.load(0).unwrap(), 7);

            let refused = left.atomic_write(&memory.key().at(1, 8).unwrap(), 1).wait(PATIENCE).unwrap_err();
            assert!(matches!(refused.error(), WorkError::NotPosted(PostError::NotAWord)));
            let without = b.domain.expose(64, ALL).unwrap();
            let refused = left.flush(&without.key()).wait(PATIENCE).unwrap_err();
            assert_eq!(refused.status(), Some(Status::RemoteAccess), "the right is missing");
        })
    })
}

/// A WRITE that is no request: its bytes are there when the call returns, or nothing was written.
#[test]
fn write_now_writes_or_says_that_it_cannot() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(64, Access::REMOTE_WRITE).unwrap();
            let read_only = b.domain.expose(64, Access::REMOTE_READ).unwrap();
            let mut found = [0; 64];
            if left.write_now(b"at once", &region.key()) {
                region.copy_out(0, &mut found).unwrap();
                assert_eq!(&found[..8], b"at once\0");
            }
            let short = region.key().at(16, 4).unwrap();
            assert!(!left.write_now(b"too long", &short));
            assert!(!left.write_now(b"no right", &read_only.key()));
            read_only.copy_out(0, &mut found).unwrap();
            assert_eq!(found, [0; 64]);
            left.write_inline(b"by a request", &region.key()).wait(PATIENCE).unwrap();
            wait_until("the bytes are there", || {
                region.copy_out(0, &mut found).unwrap();
                &found[..12] == b"by a request"
            });
        })
    })
}

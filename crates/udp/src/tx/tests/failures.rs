//! Sends that the system refuses, and their errors.

use super::*;
use crate::testing::hosts;

/// Sends groups. Returns the number that was taken and the errors of the others.
fn try_send(pool: &TxPool, groups: &[TxGroup<'_>]) -> (usize, Vec<(usize, SendError)>) {
    let mut errors = Vec::new();
    let taken = pool.send(groups, |i, error| errors.push((i, error)));
    (taken, errors)
}

/// The error of one group that is refused.
fn error_of(pool: &TxPool, group: TxGroup<'_>) -> SendError {
    let (taken, mut errors) = try_send(pool, &[group]);
    assert_eq!((taken, errors.len()), (0, 1));
    errors.remove(0).1
}

#[test]
fn malformed_groups_are_refused() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        let long = vec![0; MAX_GSO_BYTES + 1];
        for (segment_bytes, bytes) in [(0, &[0; 8][..]), (8, &[]), (8, &[0; 8 * 65]), (u16::MAX, &long)] {
            let error = error_of(&pool, group(&pool, "127.0.0.1", "127.0.0.1", segment_bytes, bytes));
            assert!(matches!(error, SendError::Malformed { len_bytes, .. } if len_bytes == bytes.len()), "{error}");
        }
        let mixed = group(&pool, "127.0.0.1", "::1", 8, &[0; 8]);
        assert!(matches!(error_of(&pool, mixed), SendError::Malformed { .. }));
    });
}

#[test]
fn unknown_source_ports_are_refused() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        let mut group = group(&pool, "127.0.0.1", "127.0.0.1", 8, &[0; 8]);
        for port in [0xc001, 0xc040] {
            group.flow.source_port = port;
            let error = error_of(&pool, group);
            assert!(matches!(error, SendError::SourcePort { port: p } if p == port), "{error}");
        }
    });
}

#[test]
fn destinations_without_a_route_are_told() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        for (source, destination) in [("127.0.0.1", "198.51.100.7"), ("::1", "2001:db8::7")] {
            for bytes in [&[0; 8][..], &[0; 32]] {
                let error = error_of(&pool, group(&pool, source, destination, 8, bytes));
                assert!(matches!(error, SendError::Unreachable(_)), "{destination}: {error}");
            }
        }
    });
}

#[test]
fn foreign_source_addresses_are_told() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        for (source, destination) in [("198.51.100.7", "127.0.0.1"), ("2001:db8::7", "::1")] {
            for bytes in [&[0; 8][..], &[0; 32]] {
                let error = error_of(&pool, group(&pool, source, destination, 8, bytes));
                assert!(matches!(error, SendError::SourceAddress), "{source}: {error}");
            }
        }
        let address = "127.0.0.1";
        assert!(pool.segmentation_offload(&group(&pool, address, address, 8, &[0; 8]).flow, 0));
    });
}

#[test]
fn packets_longer_than_the_path_are_told_with_its_mtu() {
    in_new_netns(|| {
        let (left, _right) = hosts(1500);
        left.run(|| {
            let pool = TxPool::new(0);
            for (source, destination, headers_bytes) in [("192.0.2.1", "192.0.2.2", 28), ("fd00:2::1", "fd00:2::2", 48)]
            {
                let fits = 1500 - headers_bytes;
                let bytes = vec![0; 4 * usize::from(fits)];
                send(&pool, &[group(&pool, source, destination, fits, &bytes)]);
                send(&pool, &[group(&pool, source, destination, fits, &bytes[..usize::from(fits)])]);
                for len in [fits + 1, 3 * fits] {
                    let error =
                        error_of(&pool, group(&pool, source, destination, fits + 1, &bytes[..usize::from(len)]));
                    assert!(matches!(error, SendError::TooLong { path_mtu: Some(1500) }), "{error}");
                }
                let flow = group(&pool, source, destination, fits, &bytes).flow;
                assert!(pool.segmentation_offload(&flow, 0));
            }
        });
    });
}

#[test]
fn forbidden_destinations_are_told() {
    in_new_netns(|| {
        let (left, _right) = hosts(1500);
        left.run(|| {
            let pool = TxPool::new(0);
            // A broadcast; a socket needs an option for these.
            let error = error_of(&pool, group(&pool, "192.0.2.1", "192.0.2.255", 8, &[0; 8]));
            assert!(matches!(error, SendError::Forbidden(_)), "{error}");
        });
    });
}

#[test]
fn a_failure_leaves_the_rest_of_a_batch_alone() {
    in_new_netns(|| {
        let pool = TxPool::new(0);
        let mut receiver = Receiver::new();
        let packets: Vec<_> = (0..40).map(|n| numbered(n, 1)).collect();
        let mut groups: Vec<_> = packets.iter().map(|bytes| group(&pool, "127.0.0.1", "127.0.0.1", 8, bytes)).collect();
        groups[0].flow.destination = ip_address("198.51.100.7");
        groups[5].segment_bytes = 0;
        groups[6].flow.source_port = 0xc001;
        groups[20].flow.source = ip_address("198.51.100.7");
        groups[39].flow.destination = ip_address("198.51.100.7");
        let (taken, mut errors) = try_send(&pool, &groups);
        errors.sort_by_key(|(index, _)| *index);
        let indices: Vec<_> = errors.iter().map(|(index, _)| *index).collect();
        assert_eq!((taken, indices), (35, vec![0, 5, 6, 20, 39]));
        assert!(matches!(errors[1].1, SendError::Malformed { .. }) && matches!(errors[3].1, SendError::SourceAddress));
        let arrived: Vec<_> = receiver.packets(35).into_iter().map(|(_, packet)| packet).collect();
        let good = (0..40).filter(|n| ![0, 5, 6, 20, 39].contains(n));
        assert_eq!(arrived, good.map(|n| numbered(n, 1)).collect::<Vec<_>>());
    });
}

#[test]
fn a_full_buffer_is_waited_for_and_then_told() {
    in_new_netns(|| {
        let (left, _right) = hosts(1500);
        left.run(|| {
            let pool = TxPool::new(3);
            // No host has this address, so the first packets wait for address resolution.
            let group = group(&pool, "192.0.2.1", "192.0.2.77", 1000, &[0; 30_000]);
            let socket = pool.sockets.of(&group.flow, 0).unwrap();
            sys::set(socket.fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, 0).unwrap();
            let (taken, errors) = try_send(&pool, &[group; 8]);
            assert_eq!((taken, errors.len()), (1, 7));
            assert!(errors.iter().all(|(_, error)| matches!(error, SendError::Full)));
            let counters = pool.counters();
            assert_eq!((counters.waits, counters.dropped), (7, 7));
        });
    });
}

#[test]
fn refused_segmentation_is_told_and_remembered() {
    in_new_netns(|| {
        let pool = TxPool::new(1000);
        let mut receiver = Receiver::new();
        for address in LOCALHOSTS {
            let bytes = numbered(0, 3);
            let group = group(&pool, address, address, 8, &bytes);
            assert!(pool.segmentation_offload(&group.flow, 0));
            let socket = pool.sockets.of(&group.flow, 0).unwrap();
            // The kernel segments only packets whose checksum it may compute.
            let no_checksum = match address {
                "::1" => (libc::SOL_UDP, libc::UDP_NO_CHECK6_TX),
                _ => (libc::SOL_SOCKET, libc::SO_NO_CHECK),
            };
            sys::set(socket.fd.as_fd(), no_checksum.0, no_checksum.1, 1).unwrap();
            assert!(matches!(error_of(&pool, group), SendError::SegmentationRefused));
            assert!(!pool.segmentation_offload(&group.flow, 0));
            sys::set(socket.fd.as_fd(), no_checksum.0, no_checksum.1, 0).unwrap();
            let singles: Vec<_> = bytes.chunks(8).map(|bytes| TxGroup { bytes, ..group }).collect();
            send(&pool, &singles);
            assert_eq!(receiver.packets(3).len(), 3);
        }
        assert_eq!(pool.counters().segmentation_refused, 2);
    });
}

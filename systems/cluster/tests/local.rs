//! Members on a coordinator in memory.

mod support;

use longarm_cluster::{KeptData, LocalCoordinator, MemberHandle, MemberOptions, MembershipError};
use std::time::Duration;

#[test]
fn members_come_and_go() {
    let coordinator = LocalCoordinator::default();
    support::members_come_and_go(|| coordinator.clone());
}

/// Two processes of one name and life: the second one waits until the first has ended.
#[test]
fn one_identity_has_one_process() {
    let coordinator = LocalCoordinator::default();
    let start = || {
        let options = MemberOptions {
            name: "a".into(),
            address: "h:1".into(),
            kept: Some(KeptData { incarnation: 7, may_lack: false }),
            term: support::TERM,
            ..MemberOptions::default()
        };
        MemberHandle::start(options, coordinator.clone()).unwrap()
    };
    let first = start();
    support::all_served(&[&first]);
    let second = start();
    std::thread::sleep(support::TERM * 2);
    support::all_served(&[&first, &second]);
    assert!(second.right().config().is_none());
    first.abandon();
    support::all_served(&[&second]);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let start = |options| MemberHandle::start(options, LocalCoordinator::default()).unwrap_err();
    let good = MemberOptions { name: "a".into(), address: "h:1".into(), ..MemberOptions::default() };
    let long = Duration::from_secs(61);
    assert!(matches!(start(MemberOptions { term: long, ..good.clone() }), MembershipError::Term(term) if term == long));
    assert!(matches!(start(MemberOptions { name: "a/b".into(), ..good.clone() }), MembershipError::Config(_)));
    assert!(matches!(start(MemberOptions { address: String::new(), ..good }), MembershipError::Config(_)));
}

//! Members of a test, on any coordinator.
#![allow(dead_code, reason = "each test file uses a part")]

use std::time::Duration;

use longarm_cluster::{ConfigWish, Coordinator, HashSlot, MemberHandle, MemberOptions, SLOTS};

pub(crate) const TERM: Duration = Duration::from_millis(1000);

pub(crate) fn slot(number: u16) -> HashSlot {
    HashSlot::new(number).unwrap()
}

/// Starts three members with one replica.
pub(crate) fn start_three<C: Coordinator + 'static>(coordinator: impl Fn() -> C) -> [MemberHandle; 3] {
    ["a", "b", "c"].map(|name| start(name, 3, coordinator()))
}

/// Starts a member of a cluster of so many, with one replica.
pub(crate) fn start(name: &str, form_with: usize, coordinator: impl Coordinator + 'static) -> MemberHandle {
    let options = MemberOptions {
        name: name.into(),
        address: format!("{name}:7480"),
        term: TERM,
        replicas: 1,
        form_with,
        ..MemberOptions::default()
    };
    MemberHandle::start(options, coordinator).unwrap()
}

/// The number of members that may serve a slot now, which must not be two.
pub(crate) fn servers_of(members: &[&MemberHandle], number: u16) -> usize {
    let count = members.iter().filter(|member| member.right().check(slot(number)).is_ok()).count();
    assert!(count <= 1, "{count} members serve slot {number}");
    count
}

/// Waits until somebody serves each slot.
pub(crate) fn all_served(members: &[&MemberHandle]) {
    testkit::wait_until("all slots are served", || {
        (0..SLOTS).step_by(500).all(|number| servers_of(members, number) == 1)
    });
}

/// Waits until nobody serves any slot.
pub(crate) fn none_served(members: &[&MemberHandle]) {
    testkit::wait_until("no slot is served", || (0..SLOTS).step_by(500).all(|number| servers_of(members, number) == 0));
}

pub(crate) fn epoch(member: &MemberHandle) -> u64 {
    member.right().config().map_or(0, |config| config.epoch)
}

/// Two members form a cluster, one dies, another life of it comes, the other one leaves.
pub(crate) fn members_come_and_go<C: Coordinator + 'static>(coordinator: impl Fn() -> C) {
    let [a, b] = ["a", "b"].map(|name| start(name, 2, coordinator()));
    all_served(&[&a, &b]);
    assert_eq!((epoch(&a), a.right().check(slot(0)).is_ok()), (1, true));

    // It dies: its backup follows when the term is over.
    let (dead, died) = (a.right().member().clone(), a.right().clone());
    a.abandon();
    testkit::wait_until("b follows a", || {
        let follows = b.right().check(slot(0)).is_ok();
        assert!(!(follows && died.check(slot(0)).is_ok()), "b begins before a's last term is over");
        follows
    });
    all_served(&[&b]);
    assert!(!b.right().config().unwrap().has(&dead));

    // Another life of it comes, without its data: it joins all shares, and serves nothing.
    let a = start("a", 2, coordinator());
    testkit::wait_until("a joins", || a.right().config().is_some_and(|config| config.has(a.right().member())));
    let config = a.right().config().unwrap();
    assert!(config.shares.iter().all(|share| share.joining == ["a"] && share.backups.is_empty()));
    assert_eq!(config.shares_of(a.right().member()).count(), 0);

    // The primary says that it has the data now.
    for share in &config.shares {
        let (member, epoch) = (a.right().member().clone(), config.epoch);
        b.wish(ConfigWish::Admit { from: share.from, member, epoch }).unwrap();
    }
    testkit::wait_until("a is a backup", || {
        a.right().config().unwrap().shares.iter().all(|share| share.backups == ["a"])
    });

    // It leaves: the backup follows without waiting for a term, in the next epoch. (Both wishes may have come true in one.)
    let before = epoch(&a);
    drop(b);
    all_served(&[&a]);
    assert_eq!(epoch(&a), before + 1);
}

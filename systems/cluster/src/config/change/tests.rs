//! Members come and go; each configuration obeys the rules and has the next epoch.

use super::*;
use crate::config::wish::ConfigWish;

fn member(name: &str, incarnation: u64) -> ClusterMember {
    ClusterMember { id: MemberId { name: name.into(), incarnation }, address: format!("{name}:7480") }
}

fn formed(names: &[&str], replicas: u8) -> ClusterConfig {
    let config = ClusterConfig::form(names.iter().map(|name| member(name, 1)).collect(), replicas);
    config.check().unwrap();
    config
}

/// The changed configuration, which must be right and the next one.
fn next(before: &ClusterConfig, after: Option<ClusterConfig>) -> ClusterConfig {
    let after = after.expect("a change");
    after.check().unwrap();
    assert_eq!(after.epoch, before.epoch + 1);
    after
}

#[test]
fn members_share_the_slots_evenly() {
    let config = formed(&["c", "a", "b"], 1);
    let counts: Vec<_> = config.shares.iter().map(|share| share.slots().count()).collect();
    assert_eq!(counts, [5461, 5461, 5462]);
    let parts: Vec<_> = config.shares.iter().map(|share| (share.primary.as_deref(), share.backups.concat())).collect();
    assert_eq!(parts, [(Some("a"), "b".into()), (Some("b"), "c".into()), (Some("c"), "a".into())]);
    // There are not so many other members.
    assert_eq!(formed(&["a"], 3).shares[0].backups.len(), 0);
}

#[test]
fn a_backup_follows_its_primary_and_another_member_is_recruited() {
    let before = formed(&["a", "b", "c"], 1);
    let after = next(&before, before.lose(&member("a", 1).id));
    let share = &after.shares[0];
    assert_eq!((share.primary.as_deref(), share.backups.len()), (Some("b"), 0));
    assert_eq!(share.joining, ["c"]);
    assert_eq!(after.served_slots(), usize::from(SLOTS));
}

#[test]
fn another_life_of_a_member_has_nothing_to_do_with_its_place() {
    let before = formed(&["a", "b"], 1);
    assert_eq!(before.lose(&member("a", 2).id), None);
    assert_eq!(before.join(&member("a", 2)), None);
}

/// The data would be lost if another life, which has none, served the slots.
#[test]
fn slots_whose_data_are_gone_wait_for_the_same_life() {
    let before = formed(&["a", "b"], 1);
    let alone = next(&before, before.lose(&member("b", 1).id));
    let nobody = next(&alone, alone.lose(&member("a", 1).id));
    assert_eq!(nobody.served_slots(), 0);
    let other = next(&nobody, nobody.join(&member("a", 2)));
    assert_eq!(other.served_slots(), 0);
    let same = next(&nobody, nobody.join(&member("a", 1)));
    assert_eq!(same.served_slots(), usize::from(SLOTS));
    assert_eq!(same.shares[0].last, None);
}

#[test]
fn without_replicas_another_member_serves_the_slots_empty() {
    let before = formed(&["a", "b", "c"], 0);
    let after = next(&before, before.lose(&member("a", 1).id));
    assert_eq!(after.served_slots(), usize::from(SLOTS));
    let two = next(&after, after.lose(&member("b", 1).id));
    let nobody = next(&two, two.lose(&member("c", 1).id));
    assert_eq!(nobody.served_slots(), 0);
    let again = next(&nobody, nobody.join(&member("b", 9)));
    assert_eq!(again.served_slots(), usize::from(SLOTS));
}

#[test]
fn only_the_primary_admits_and_demotes() {
    let one = formed(&["a"], 1);
    let two = next(&one, one.join(&member("b", 1)));
    assert_eq!(two.shares[0].joining, ["b"]);
    let admit = ConfigWish::Admit { from: 0, member: member("b", 1).id, epoch: two.epoch };
    assert_eq!(two.granted(&admit, &member("b", 1).id), None);
    assert_eq!(two.granted(&admit, &member("a", 2).id), None);
    let both = next(&two, two.granted(&admit, &member("a", 1).id));
    assert_eq!((both.shares[0].backups.len(), both.shares[0].joining.len()), (1, 0));
    assert_eq!(both.granted(&admit, &member("a", 1).id), None);
    let demote = ConfigWish::Demote { from: 0, member: member("b", 1).id };
    let demoted = next(&both, both.granted(&demote, &member("a", 1).id));
    assert_eq!(demoted.shares, two.shares);
    // A joining member does not have the data.
    let lost = next(&demoted, demoted.lose(&member("a", 1).id));
    assert_eq!(lost.served_slots(), 0);
}

#[test]
fn a_returning_member_fetches_the_data_anew() {
    let before = formed(&["a", "b"], 1);
    let alone = next(&before, before.lose(&member("a", 1).id));
    let again = next(&alone, alone.join(&member("a", 2)));
    assert!(again.shares.iter().all(|share| share.primary.as_deref() == Some("b") && share.joining == ["a"]));
}

/// Members come and go in any order.
#[test]
fn random_changes_obey_the_rules() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let replicas = random.u8(..3);
        let mut config = formed(&["a", "b", "c", "d"], replicas);
        for incarnation in 1..40 {
            let name = ["a", "b", "c", "d", "e"][random.usize(..5)];
            let known = config.member(name).cloned();
            let after = match known {
                Some(known) if random.bool() => config.lose(&known.id),
                Some(known) => {
                    let share = &config.shares[random.usize(..config.shares.len())];
                    let primary = share.primary.as_ref().and_then(|name| config.member(name));
                    let wish = ConfigWish::Admit { from: share.from, member: known.id, epoch: config.epoch };
                    primary.and_then(|primary| config.granted(&wish, &primary.id))
                }
                None => config.join(&member(name, incarnation)),
            };
            config = after.map_or(config.clone(), |after| next(&config, Some(after)));
        }
    }
}

/// Its data may lack what the others have answered.
#[test]
fn a_returned_member_serves_only_what_nobody_else_has() {
    let before = formed(&["a", "b", "c"], 1);
    let a = member("a", 1).id;
    let parts = |config: &ClusterConfig| -> Vec<_> {
        let of = |share: &SlotShare| (share.primary.clone().unwrap_or_default(), share.backups.concat());
        config.shares.iter().map(of).collect()
    };
    let part = |primary: &str, backups: &str| (primary.to_owned(), backups.to_owned());
    let all = next(&before, before.returned(&a, |_| true));
    assert_eq!(parts(&all), [part("b", ""), part("b", "c"), part("c", "")]);
    assert!(all.shares.iter().all(|share| share.backups.len() + share.joining.len() == 1));
    let alone = next(&before, before.returned(&a, |_| false));
    assert_eq!(parts(&alone), parts(&before));
    let one = next(&before, before.returned(&a, |name| name == "c"));
    assert_eq!(parts(&one), [part("a", "b"), part("b", "c"), part("c", "")]);
    assert_eq!(before.returned(&member("a", 2).id, |_| true), None);
}

/// No other backup that lives makes way for one that may lack something.
#[test]
fn a_returned_backup_leaves_its_place_to_others_that_live() {
    let before = formed(&["a", "b", "c"], 2);
    let after = next(&before, before.returned(&member("b", 1).id, |name| name == "c"));
    let first = &after.shares[0];
    assert_eq!(
        (first.primary.as_deref(), &*first.backups, &*first.joining),
        (Some("a"), &["c".to_owned()][..], &["b".to_owned()][..])
    );
}

#[test]
fn with_data_on_disk_nobody_serves_slots_of_others_empty() {
    let before = ClusterConfig { keeps_data: true, ..formed(&["a", "b"], 0) };
    let after = next(&before, before.lose(&member("a", 1).id));
    assert_eq!(after.served_slots(), usize::from(SLOTS) / 2);
    let other = next(&after, after.join(&member("a", 2)));
    assert_eq!(other.served_slots(), usize::from(SLOTS) / 2);
    let same = next(&after, after.join(&member("a", 1)));
    assert_eq!(same.served_slots(), usize::from(SLOTS));
}

/// The member may have had no part in between, and dropped its data.
#[test]
fn a_primary_that_has_not_heard_of_a_return_admits_nobody() {
    let before = formed(&["a"], 1);
    let two = next(&before, before.join(&member("b", 1)));
    let admit = |epoch: u64| ConfigWish::Admit { from: 0, member: member("b", 1).id, epoch };
    let alone = next(&two, two.lose(&member("b", 1).id));
    let again = next(&alone, alone.join(&member("b", 1)));
    let granted = |epoch: u64| again.granted(&admit(epoch), &member("a", 1).id);
    assert_eq!([granted(two.epoch), granted(alone.epoch)], [None, None]);
    assert_eq!(next(&again, granted(again.epoch)).shares[0].backups, ["b"]);
    let back = next(&two, two.returned(&member("b", 1).id, |_| true));
    assert_eq!(back.granted(&admit(two.epoch), &member("a", 1).id), None);
}

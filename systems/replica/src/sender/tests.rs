//! Hand-overs at the target's end.

use std::sync::Arc;

use cluster::{ClusterConfig, ClusterMember, ConfigWish, MemberId, SlotMove};

use crate::sender::{HandOverAnswer, HandOverAsk, ReplicaSender, SenderOptions};

fn id(name: &str) -> MemberId {
    MemberId { name: name.into(), incarnation: 1 }
}

/// The slots 0 to 99 move from a to b: the configurations before and after the begin of the hand-over.
fn handing_over() -> [Arc<ClusterConfig>; 2] {
    let members = ["a", "b"].map(|name| ClusterMember { id: id(name), address: format!("{name}:1") });
    let config = ClusterConfig::form(members.into(), 1);
    let one = SlotMove { from: 0, to: 99, target: "b".into() };
    let before = config.granted(&ConfigWish::Move(one), &id("a")).unwrap();
    let after = before.granted(&ConfigWish::HandOver { from: 0 }, &id("a")).unwrap();
    [Arc::new(before), Arc::new(after)]
}

/// A process of b that learns the configurations. The former primary releases the slots to it, with everything at a. Returns whether b
/// takes a for a backup that has everything.
fn trusts(configs: &[Arc<ClusterConfig>]) -> bool {
    let mut sender = ReplicaSender::new(id("b"), SenderOptions::default());
    configs.iter().for_each(|config| sender.set_config(config));
    let ask = HandOverAsk { from: 0, since: configs.last().unwrap().epoch };
    assert_eq!(sender.asks(0), [(id("a"), ask)]);
    let answer = HandOverAnswer::Released { in_step: vec![id("a")] };
    assert!(sender.told(ask, &answer), "it serves");
    sender.links[&id("a")].is_in_step(0)
}

#[test]
fn backups_of_the_former_primary_need_no_copy() {
    assert!(trusts(&handing_over()));
}

#[test]
fn another_process_of_the_target_copies_to_all() {
    let [_, after] = handing_over();
    assert!(!trusts(&[after]), "the process before may have served, and changed something");
}

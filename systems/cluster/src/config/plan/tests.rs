//! Properties of plans, over random configurations.

use super::*;
use crate::config::wish::ConfigWish;
use crate::config::{ClusterMember, ShareMove};
use crate::slot::SLOTS;

fn id(name: &str) -> MemberId {
    MemberId { name: name.into(), incarnation: 1 }
}

fn formed(count: usize, replicas: u8) -> ClusterConfig {
    let member = |number: usize| {
        let name = format!("m{number}");
        ClusterMember { id: id(&name), address: format!("{name}:1") }
    };
    ClusterConfig::form((0..count).map(member).collect(), replicas)
}

fn load(config: &ClusterConfig, name: &str) -> usize {
    let shares = config.shares.iter().filter(|share| share.heir().is_some_and(|heir| heir == name));
    shares.map(|share| share.slots().count()).sum()
}

/// The next configuration, which must be right.
fn next(config: &ClusterConfig, wish: &ConfigWish, who: &str) -> Option<ClusterConfig> {
    let after = config.granted(wish, &id(who))?;
    after.check().unwrap_or_else(|error| panic!("{wish:?}: {error}\n{config:?}\n{after:?}"));
    assert_eq!(after.epoch, config.epoch + 1);
    Some(after)
}

/// The next step of a share, as its members take it.
fn advance(config: &ClusterConfig, share: &SlotShare, kept: bool) -> Option<ClusterConfig> {
    let (from, primary) = (share.from, share.primary.as_deref()?);
    let wish = match (&share.moving, share.joining.first()) {
        (Some(ShareMove::HandOver { former, since }), _) => {
            let since = *since;
            let wish = if kept { ConfigWish::TakeBack { from, since } } else { ConfigWish::Arrive { from, since } };
            return next(config, &wish, if kept { former } else { primary });
        }
        (_, Some(member)) => ConfigWish::Admit { from, member: id(member), epoch: config.epoch },
        (Some(ShareMove::Close { .. }), None) => ConfigWish::HandOver { from },
        _ => return None,
    };
    next(config, &wish, primary)
}

/// Takes all steps until nothing is left to do.
fn finish(mut config: ClusterConfig) -> ClusterConfig {
    for _ in 0..5000 {
        let step = config.shares.iter().find_map(|share| advance(&config, share, false));
        match step.or_else(|| config.draining_further()) {
            Some(after) => config = after,
            None => return config,
        }
    }
    panic!("no end: {config:?}");
}

/// A configuration after some random moves, drains, ends and returns of members.
fn random_config(random: &mut fastrand::Rng) -> ClusterConfig {
    let mut config = formed(random.usize(1..6), random.u8(0..3));
    for _ in 0..random.usize(..25) {
        let names: Vec<String> = config.members.iter().map(|member| member.id.name.clone()).collect();
        let Some(name) = random.choice(&names) else { break };
        let [from, to] = [random.u16(..SLOTS), random.u16(..SLOTS)];
        let after = match random.u32(..13) {
            0 => next(&config, &ConfigWish::Drain { member: id(name) }, name),
            1 => next(&config, &ConfigWish::Undrain { member: id(name) }, name),
            2 => next(&config, &ConfigWish::Rebalance, name),
            3 if names.len() > 1 => config.lose(&id(name)),
            4 => (0..6)
                .map(|number| format!("m{number}"))
                .find(|name| config.member(name).is_none())
                .and_then(|name| config.join(&ClusterMember { id: id(&name), address: "h:1".into() })),
            5 => config.draining_further(),
            6..9 => next(&config, &ConfigWish::Move(SlotMove { from, to, target: name.clone() }), name),
            9 => {
                let lives = random.u64(..);
                config.returned(&id(name), |other| lives >> (other.as_bytes()[1] - b'0') & 1 == 1)
            }
            _ => {
                let share = &config.shares[random.usize(..config.shares.len())];
                advance(&config, share, random.u32(..4) == 0)
            }
        };
        config = after.unwrap_or(config);
        config.check().unwrap();
    }
    config
}

#[test]
fn plans_are_even_and_move_as_few_slots_as_possible() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut planned = 0;
    for _ in 0..600 {
        // Moves that are under way end first: then every slot that somebody serves may move.
        let config = finish(random_config(&mut random));
        let moves = config.balance();
        planned += moves.len();
        let total: usize = config.members.iter().map(|member| load(&config, &member.id.name)).sum();
        let mut active: Vec<usize> = config.active().map(|name| load(&config, name)).collect();
        active.sort_unstable_by(|a, b| b.cmp(a));
        if active.is_empty() {
            assert_eq!(moves, []);
            continue;
        }
        // Each member has to give what it has beyond its part; the greatest ones keep one more.
        let (part, more) = (total / active.len(), total % active.len());
        let given = active.iter().enumerate().map(|(at, load)| load.saturating_sub(part + usize::from(at < more)));
        let drained = total - active.iter().sum::<usize>();
        let moved: usize = moves.iter().map(|one| usize::from(one.to - one.from) + 1).sum();
        assert_eq!(moved, given.sum::<usize>() + drained, "{config:?}");

        let mut seen = vec![false; usize::from(SLOTS)];
        for one in &moves {
            assert!(config.active().any(|name| *name == one.target), "{one:?}");
            for slot in one.from..=one.to {
                assert!(!std::mem::replace(&mut seen[usize::from(slot)], true), "slot {slot} moves twice");
            }
        }
        let after = config.granted(&ConfigWish::Rebalance, &id("m0")).unwrap_or(config);
        after.check().unwrap();
        let loads: Vec<usize> = after.active().map(|name| load(&after, name)).collect();
        assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
        assert_eq!(after.balance(), [], "a plan that is under way is not made again");
        let done = finish(after);
        assert_eq!(done.balance(), []);
        assert_eq!(done.moving_slots(), 0);
        assert!(done.shares.iter().all(|share| share.backups.len() <= usize::from(done.replicas)), "{done:?}");
    }
    assert!(planned > 200, "{planned}");
}

#[test]
fn a_drained_member_ends_without_shares_and_no_data_are_lost() {
    let mut random = fastrand::Rng::with_seed(9);
    let mut drained = 0;
    for _ in 0..400 {
        let config = finish(random_config(&mut random));
        for name in config.draining.clone() {
            // It stays if the others became too few.
            if config.check_drain(&name).is_ok() {
                let left = |share: &&SlotShare| share.primary.is_some() && share.names().any(|other| other == name);
                assert_eq!(config.shares.iter().find(left), None, "{name} has a share: {config:?}");
                let after = config.lose(&id(&name)).unwrap();
                assert_eq!(after.served_slots(), config.served_slots());
                let served = |config: &ClusterConfig| -> Vec<SlotShare> {
                    config.shares.iter().filter(|share| share.primary.is_some()).cloned().collect()
                };
                assert_eq!(served(&after), served(&config), "it leaves without a trace");
                drained += 1;
            }
        }
    }
    assert!(drained > 20, "{drained}");
}

#[test]
fn a_drain_is_refused_if_the_others_are_too_few() {
    let config = formed(2, 1);
    let error = config.check_drain("m0").unwrap_err().to_string();
    assert!(error.contains("without m0 there are 1 members, and 2 are needed"), "{error}");
    assert!(config.check_drain("x").is_err());
    assert_eq!(config.granted(&ConfigWish::Drain { member: id("m0") }, &id("m1")), None);
    assert!(formed(3, 1).check_drain("m0").is_ok());
}

/// A member that has the data already is the first choice: nothing has to be copied.
#[test]
fn backups_are_preferred() {
    let config = formed(4, 1);
    let after = config.granted(&ConfigWish::Drain { member: id("m1") }, &id("m0")).unwrap();
    let taker = after.shares.iter().find(|share| matches!(share.moving, Some(ShareMove::Close { .. }))).unwrap();
    assert_eq!((taker.primary.as_deref(), taker.backups.clone()), (Some("m1"), vec!["m2".to_owned()]));
}

/// The first member of a new pair takes half, and the shares are two again.
#[test]
fn shares_are_cut_and_joined() {
    let one = formed(1, 0);
    let two = one.join(&ClusterMember { id: id("m9"), address: "h:1".into() }).unwrap();
    let moving = next(&two, &ConfigWish::Rebalance, "m0").unwrap();
    assert_eq!((moving.shares.len(), moving.moving_slots()), (2, usize::from(SLOTS) / 2));
    let done = finish(moving);
    assert_eq!(done.shares.len(), 2);
    let back = SlotMove { from: 0, to: SLOTS - 1, target: "m0".into() };
    let again = finish(next(&done, &ConfigWish::Move(back), "m0").unwrap());
    assert_eq!(again.shares, one.shares);
}

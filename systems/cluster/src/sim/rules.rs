//! The rules that hold at each moment.

use crate::config::{ClusterConfig, SlotShare};
use crate::sim::member::SimMember;
use crate::sim::readers::watched_slots;
use crate::slot::HashSlot;

/// At most one member may serve a slot now; epochs do not go back.
pub(crate) fn check_rights(members: &mut [SimMember], now_ns: u64) -> Result<(), String> {
    for slot in watched_slots() {
        let may = |member: &&SimMember| {
            let right = member.agent.as_ref().map(|agent| agent.right());
            right.is_some_and(|right| right.check_at(slot, member.clock.show(now_ns)).is_ok())
        };
        let serving: Vec<&str> = members.iter().filter(may).map(|member| member.name.as_str()).collect();
        if serving.len() > 1 {
            return Err(format!("{} serve slot {slot} at the same time", serving.join(" and ")));
        }
    }
    for member in members.iter_mut() {
        let Some(agent) = &member.agent else { continue };
        let epoch = agent.right().config().map_or(0, |config| config.epoch);
        if epoch < member.epoch {
            return Err(format!("{} knew epoch {}, and then {epoch}", member.name, member.epoch));
        }
        member.epoch = epoch;
    }
    Ok(())
}

/// A configuration that has just replaced another one.
pub(crate) fn check_change(
    before: Option<&ClusterConfig>,
    after: &ClusterConfig,
    members: &[SimMember],
    now_ns: u64,
) -> Result<(), String> {
    after.check().map_err(|error| error.to_string())?;
    let Some(before) = before else { return Ok(()) };
    if after.epoch != before.epoch + 1 {
        return Err(format!("epoch {} comes after {}", after.epoch, before.epoch));
    }
    for new in &after.shares {
        // Shares are cut and joined: each old one that has slots of the new one counts.
        let olds = before.shares.iter().filter(|old| old.from <= new.to && old.to >= new.from);
        olds.clone().try_for_each(|old| check_primary(before, old, after, new))?;
    }
    check_deposed(before, after, members, now_ns)
}

/// A new primary has the data of a share.
fn check_primary(
    before: &ClusterConfig,
    old: &SlotShare,
    after: &ClusterConfig,
    new: &SlotShare,
) -> Result<(), String> {
    let changed = new.primary.as_ref().filter(|name| old.primary.as_ref() != Some(name));
    let Some(name) = changed.filter(|_| before.waits_for_data()) else { return Ok(()) };
    let is_last = old.last.as_ref().is_some_and(|last| last.name == *name && after.has(last));
    let is_former = old.hand_over().is_some_and(|(former, _)| former == name);
    if old.backups.contains(name) || is_last || is_former {
        return Ok(());
    }
    Err(format!("{name} serves slot {} now, whose data it does not have", new.from))
}

/// A member that is gone has no right at that moment.
fn check_deposed(
    before: &ClusterConfig,
    after: &ClusterConfig,
    members: &[SimMember],
    now_ns: u64,
) -> Result<(), String> {
    let gone = before.members.iter().filter(|member| !after.has(&member.id));
    for member in gone {
        let life =
            members.iter().find(|other| other.name == member.id.name && other.incarnation == member.id.incarnation);
        let right = life.and_then(|life| Some((life.agent.as_ref()?.right(), life.clock.show(now_ns))));
        if right.is_some_and(|(right, shown_ns)| right.until_ns() > shown_ns) {
            return Err(format!("{} is deposed during its term", member.id.name));
        }
    }
    Ok(())
}

/// After the faults: members that live belong to the cluster and agree, and each share with a primary is served.
pub(crate) fn check_rest(config: Option<&ClusterConfig>, members: &[SimMember], now_ns: u64) -> Result<(), String> {
    let alive: Vec<_> = members.iter().filter_map(|member| Some((member, member.agent.as_ref()?.right()))).collect();
    let Some(config) = config else {
        return if alive.len() == members.len() { Err("no cluster was formed".into()) } else { Ok(()) };
    };
    for (member, right) in &alive {
        if !config.has(right.member()) || right.config().is_none_or(|known| *known != *config) {
            return Err(format!("{} lives and does not belong to the cluster: {config:?}", member.name));
        }
    }
    if config.members.len() != alive.len() {
        return Err(format!("{} members live, and the cluster has {}", alive.len(), config.members.len()));
    }
    for share in &config.shares {
        let Some(slot) = HashSlot::new(share.from) else { continue };
        let serves = alive.iter().any(|(member, right)| right.check_at(slot, member.clock.show(now_ns)).is_ok());
        let should = share.primary.is_some() || (!config.waits_for_data() && !alive.is_empty());
        if should && !serves {
            return Err(format!("nobody serves slot {slot}: {share:?}"));
        }
        let is_drained =
            share.primary.as_ref().is_some_and(|name| config.check_drain(name).is_ok() && config.is_draining(name));
        if share.moving.is_some() || is_drained {
            let ends = |(member, right): &(&SimMember, &crate::ServingRight)| {
                let end = share.hand_over().and_then(|(_, since)| right.hand_over(share.from, since));
                (member.name.clone(), end)
            };
            let ends: Vec<_> = alive.iter().map(ends).collect();
            return Err(format!("a move has not ended: {share:?}, ends {ends:?}, drained are {:?}", config.draining));
        }
    }
    Ok(())
}

//! The rules that hold at each moment.

use std::collections::BTreeMap;

use crate::config::{ClusterConfig, MemberId};
use crate::sim::member::SimMember;
use crate::slot::{HashSlot, SLOTS};

/// At most one member may serve a slot now; epochs do not go back.
pub(crate) fn check_rights(members: &mut [SimMember], now_ns: u64) -> Result<(), String> {
    for slot in (0..SLOTS).step_by(usize::from(SLOTS) / 60).filter_map(HashSlot::new) {
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
    let ids: BTreeMap<&str, &MemberId> = after.members.iter().map(|m| (m.id.name.as_str(), &m.id)).collect();
    for (old, new) in before.shares.iter().zip(&after.shares) {
        let changed = new.primary.as_ref().filter(|name| old.primary.as_ref() != Some(name));
        if let Some(name) = changed
            && before.replicas > 0
            && !old.backups.contains(name)
            && old.last.as_ref() != ids.get(name.as_str()).copied()
        {
            return Err(format!("{name} serves slot {} now, whose data it does not have", new.from));
        }
    }
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
        let should = share.primary.is_some() || (config.replicas == 0 && !alive.is_empty());
        if should && !serves {
            return Err(format!("nobody serves slot {slot}: {share:?}"));
        }
    }
    Ok(())
}

//! `CLUSTER`, and the commands that clients of a cluster send ("Redis cluster specification"). Keys of a slot move all at once, so
//! nobody is ever told to `ASK`.

use super::Outcome;
use super::strings::integer;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::nodes::{DoorNode, DoorNodes};
use crate::number::parse_i64;
use longarm_kv::{HashSlot, SLOTS};

const DISABLED: CommandError = CommandError::words("ERR This instance has cluster support disabled");

pub(crate) fn cluster(call: &mut RespCall<'_, '_>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_lowercase();
    let words = &call.arguments[2..];
    let wanted = match subcommand.as_slice() {
        b"info" | b"nodes" | b"slots" | b"shards" | b"myid" | b"links" => 0,
        b"keyslot" | b"countkeysinslot" | b"replicas" | b"slaves" => 1,
        b"getkeysinslot" => 2,
        _ => return Err(CommandError::subcommand("cluster", call.arguments[1])),
    };
    if words.len() != wanted {
        return Err(CommandError::arity(&format!("cluster|{}", String::from_utf8_lossy(&subcommand))));
    }
    let nodes = call.door.nodes.clone().ok_or(DISABLED)?;
    match subcommand.as_slice() {
        b"info" => info(call, &nodes),
        b"nodes" => list(call, &nodes),
        b"slots" => slots(call, &nodes),
        b"shards" => shards(call, &nodes),
        b"myid" => call.client.reply.bulk(nodes.my_id()),
        b"links" => call.client.reply.array(0),
        b"keyslot" => call.client.reply.count(HashSlot::of_key(words[0]).number()),
        b"countkeysinslot" => return count_keys(call),
        b"getkeysinslot" => return get_keys(call),
        _ => return replicas(call, &nodes),
    }
    Ok(())
}

/// `READONLY`, `READWRITE` and `ASKING` change nothing: there are no replicas, and no slots on their way.
pub(crate) fn of_clusters(call: &mut RespCall<'_, '_>) -> Outcome {
    if call.door.nodes.is_none() {
        return Err(DISABLED);
    }
    call.client.reply.ok();
    Ok(())
}

fn info(call: &mut RespCall<'_, '_>, nodes: &DoorNodes) {
    let config = nodes.config();
    let served = config.served_slots();
    let state = if served == usize::from(SLOTS) { "ok" } else { "fail" };
    let size = config.members.iter().filter(|member| config.shares_of(&member.id).next().is_some()).count();
    let text = format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{served}\r\ncluster_slots_ok:{served}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{}\r\ncluster_size:{size}\r\n\
         cluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n",
        config.members.len(),
        epoch = config.epoch,
    );
    call.client.reply.verbatim(&text);
}

/// Each node has a line. Doors have no bus between them, so its port is zero.
fn list(call: &mut RespCall<'_, '_>, nodes: &DoorNodes) {
    let epoch = nodes.config().epoch;
    let line = |node: DoorNode| {
        let (host, port) = &node.place;
        let myself = if node.is_me { "myself," } else { "" };
        let range = |(from, to): &(u16, u16)| if from == to { format!(" {from}") } else { format!(" {from}-{to}") };
        let slots: String = node.slots.iter().map(range).collect();
        format!("{} {host}:{port}@0 {myself}master - 0 0 {epoch} connected{slots}\n", node.id)
    };
    let text: String = nodes.all(call.client.local_address).into_iter().map(line).collect();
    call.client.reply.verbatim(&text);
}

fn slots(call: &mut RespCall<'_, '_>, nodes: &DoorNodes) {
    let all = nodes.all(call.client.local_address);
    let mut shares: Vec<((u16, u16), &DoorNode)> =
        all.iter().flat_map(|node| node.slots.iter().map(move |share| (*share, node))).collect();
    shares.sort_unstable_by_key(|(share, _)| *share);
    let reply = &mut call.client.reply;
    reply.array(shares.len());
    for ((from, to), node) in shares {
        reply.array(3);
        reply.count(from);
        reply.count(to);
        reply.array(4);
        reply.bulk(&node.place.0);
        reply.count(node.place.1);
        reply.bulk(&node.id);
        reply.array(0);
    }
}

fn shards(call: &mut RespCall<'_, '_>, nodes: &DoorNodes) {
    let all = nodes.all(call.client.local_address);
    let reply = &mut call.client.reply;
    reply.array(all.len());
    for node in all {
        reply.map(2);
        reply.bulk("slots");
        reply.array(node.slots.len() * 2);
        for (from, to) in node.slots {
            reply.count(from);
            reply.count(to);
        }
        reply.bulk("nodes");
        reply.array(1);
        reply.map(7);
        reply.bulk("id");
        reply.bulk(node.id);
        reply.bulk("port");
        reply.count(node.place.1);
        for (name, value) in [("ip", node.place.0.as_str()), ("endpoint", &node.place.0), ("role", "master")] {
            reply.bulk(name);
            reply.bulk(value);
        }
        reply.bulk("replication-offset");
        reply.integer(0);
        reply.bulk("health");
        reply.bulk("online");
    }
}

fn replicas(call: &mut RespCall<'_, '_>, nodes: &DoorNodes) -> Outcome {
    let id = call.arguments[2];
    if !nodes.all(call.client.local_address).iter().any(|node| node.id.as_bytes() == id) {
        return Err(CommandError([b"ERR Unknown node ", id].concat().into()));
    }
    call.client.reply.array(0);
    Ok(())
}

fn count_keys(call: &mut RespCall<'_, '_>) -> Outcome {
    let slot = integer(call.arguments[2])?;
    let slot = slot_of(slot).ok_or(CommandError::words("ERR Invalid slot"))?;
    let mut count = 0;
    call.each_key(|_, key| {
        count += i64::from(HashSlot::of_key(&key) == slot);
        Ok(())
    })?;
    call.client.reply.integer(count);
    Ok(())
}

fn get_keys(call: &mut RespCall<'_, '_>) -> Outcome {
    let slot = integer(call.arguments[2])?;
    let most = parse_i64(call.arguments[3]).ok_or(CommandError::NOT_INTEGER)?;
    let wrong = CommandError::words("ERR Invalid slot or number of keys");
    let (Some(slot), Ok(most)) = (slot_of(slot), usize::try_from(most)) else { return Err(wrong) };
    let mut found = Vec::new();
    call.each_key(|_, key| {
        if HashSlot::of_key(&key) == slot && found.len() < most {
            found.push(key);
        }
        Ok(())
    })?;
    call.client.reply.array(found.len());
    found.iter().for_each(|key| call.client.reply.bulk(key));
    Ok(())
}

fn slot_of(number: i64) -> Option<HashSlot> {
    u16::try_from(number).ok().and_then(HashSlot::new)
}

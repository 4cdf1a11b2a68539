//! `CLUSTER`: one node that has all slots ("Redis cluster specification"). The door answers so if it was opened with this setting.

use super::{Outcome, table};
use crate::door::RespCall;
use crate::error::CommandError;
use crate::number::parse_i64;
use crate::slots::{SLOTS, slot_of};

pub(crate) fn cluster(call: &mut RespCall<'_, '_>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_lowercase();
    let words = &call.arguments[2..];
    let wanted = match subcommand.as_slice() {
        b"info" | b"nodes" | b"slots" | b"shards" | b"myid" => 0,
        b"keyslot" | b"countkeysinslot" => 1,
        _ => return Err(CommandError::subcommand("cluster", call.arguments[1])),
    };
    if words.len() != wanted {
        return Err(CommandError::arity(&format!("cluster|{}", String::from_utf8_lossy(&subcommand))));
    }
    if !call.door.settings.is_cluster {
        return Err(CommandError::words("ERR This instance has cluster support disabled"));
    }
    match subcommand.as_slice() {
        b"info" => info(call),
        b"nodes" => nodes(call),
        b"slots" => slots(call),
        b"shards" => shards(call),
        b"myid" => call.client.reply.bulk(&call.door.run_id),
        b"keyslot" => call.client.reply.count(slot_of(words[0])),
        _ => return count_keys(call),
    }
    Ok(())
}

fn info(call: &mut RespCall<'_, '_>) {
    let text = format!(
        "cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n\
         cluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
    );
    call.client.reply.verbatim(&text);
}

/// The address at which this client has reached the door.
fn place(call: &RespCall<'_, '_>) -> (String, u16) {
    (call.client.local_address.ip().to_string(), call.client.local_address.port())
}

fn nodes(call: &mut RespCall<'_, '_>) {
    let ((host, port), id) = (place(call), &call.door.run_id);
    let text = format!("{id} {host}:{port}@0 myself,master - 0 0 1 connected 0-{}\n", SLOTS - 1);
    call.client.reply.verbatim(&text);
}

fn slots(call: &mut RespCall<'_, '_>) {
    let (host, port) = place(call);
    let reply = &mut call.client.reply;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.count(SLOTS - 1);
    reply.array(4);
    reply.bulk(host);
    reply.count(port);
    reply.bulk(&call.door.run_id);
    reply.array(0);
}

fn shards(call: &mut RespCall<'_, '_>) {
    let (host, port) = place(call);
    let reply = &mut call.client.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk("slots");
    reply.array(2);
    reply.integer(0);
    reply.count(SLOTS - 1);
    reply.bulk("nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk("id");
    reply.bulk(&call.door.run_id);
    reply.bulk("port");
    reply.count(port);
    for (name, value) in [("ip", host.as_str()), ("endpoint", host.as_str()), ("role", "master"), ("health", "online")]
    {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("replication-offset");
    reply.integer(0);
}

fn count_keys(call: &mut RespCall<'_, '_>) -> Outcome {
    let slot =
        parse_i64(call.arguments[2]).ok_or(CommandError::words("ERR value is not an integer or out of range"))?;
    let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS).ok_or(CommandError::words("ERR Invalid slot"))?;
    let mut count = 0;
    call.each_key(|_, key| {
        count += i64::from(slot_of(&key) == slot);
        Ok(())
    })?;
    call.client.reply.integer(count);
    Ok(())
}

/// Refuses a request with keys of several slots, as a node of a cluster does.
pub(crate) fn check_slots(command: &table::RespCommand, request: &[&[u8]]) -> Outcome {
    let mut slots = command.keys_of(request).map(slot_of);
    let first = slots.next();
    match slots.all(|slot| Some(slot) == first) {
        true => Ok(()),
        false => Err(CommandError::words("CROSSSLOT Keys in request don't hash to the same slot")),
    }
}

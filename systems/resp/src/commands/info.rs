//! `INFO`, `TIME`, `WAIT`: the server.

use std::fmt::Write;

use rustix::time::{ClockId, clock_gettime};

use super::Outcome;
use super::connection::REDIS_VERSION;
use super::strings::integer;
use crate::clock::unix_time;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::nodes::DoorNodes;

type Section = fn(&RespCall<'_, '_>, &mut String) -> std::fmt::Result;

const SECTIONS: [(&str, Section); 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Cluster", cluster),
];

pub(crate) fn info(call: &mut RespCall<'_, '_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = call.arguments[1..].iter().map(|name| name.to_ascii_lowercase()).collect();
    let all: [&[u8]; 3] = [b"all", b"default", b"everything"];
    let is_wanted = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|one| one == name.to_ascii_lowercase().as_bytes() || all.contains(&&**one))
    };
    let mut text = String::new();
    for (name, section) in
        SECTIONS.iter().chain([&("Keyspace", keyspace as Section)]).filter(|(name, _)| is_wanted(name))
    {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        // A string takes all text.
        let _ = write!(text, "{separator}# {name}\r\n");
        let _ = section(call, &mut text);
    }
    call.client.reply.verbatim(&text);
    Ok(())
}

fn server(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    let settings = &call.door.settings;
    let mode = if call.door.nodes.is_some() { "cluster" } else { "standalone" };
    let uptime = call.table.now_ns().saturating_sub(call.door.since_ns) / 1_000_000_000;
    write!(text, "redis_version:{REDIS_VERSION}\r\nlongarm_version:{}\r\n", env!("CARGO_PKG_VERSION"))?;
    write!(text, "redis_mode:{mode}\r\nos:{}\r\narch_bits:64\r\n", std::env::consts::OS)?;
    write!(text, "process_id:{}\r\nrun_id:{}\r\n", std::process::id(), call.door.run_id)?;
    write!(text, "tcp_port:{}\r\nuptime_in_seconds:{uptime}\r\n", settings.address.port())?;
    write!(text, "uptime_in_days:{}\r\nlongarm_table:{}\r\n", uptime / 86400, settings.table)
}

fn clients(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    write!(text, "connected_clients:{}\r\n", call.door.clients.len() + 1)?;
    write!(text, "maxclients:{}\r\nblocked_clients:0\r\n", call.door.settings.max_clients)
}

fn memory(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    let policy = if call.door.settings.evicts { "allkeys-lru" } else { "noeviction" };
    write!(text, "used_memory:{}\r\n", call.table.used_bytes())?;
    write!(text, "maxmemory:{}\r\nmaxmemory_policy:{policy}\r\n", call.door.settings.max_bytes)
}

fn persistence(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    let status = if call.door.table.log_has_failed() { "err" } else { "ok" };
    write!(text, "loading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\nrdb_last_bgsave_status:ok\r\n")?;
    write!(text, "aof_enabled:{}\r\naof_rewrite_in_progress:0\r\n", u8::from(call.door.table.fsync_rule().is_some()))?;
    write!(text, "aof_last_write_status:{status}\r\n")
}

fn stats(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    let counts = call.door.counts;
    write!(text, "total_connections_received:{}\r\n", counts.connections)?;
    write!(text, "total_commands_processed:{}\r\n", counts.commands)?;
    write!(text, "rejected_connections:{}\r\ntotal_error_replies:{}\r\n", counts.refused, counts.errors)?;
    write!(text, "longarm_protocol_errors:{}\r\n", counts.broken)?;
    write!(text, "client_output_buffer_limit_disconnections:{}\r\n", counts.slow)?;
    write!(text, "pubsub_channels:{}\r\npubsub_patterns:{}\r\n", call.door.channels.len(), call.door.patterns.len())?;
    write!(text, "pubsubshard_channels:{}\r\n", call.door.shard_channels.len())
}

fn replication(_: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    write!(text, "role:master\r\nconnected_slaves:0\r\nmaster_repl_offset:0\r\n")
}

fn cpu(_: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    write!(text, "longarm_used_cpu:{}.{:06}\r\n", cpu.tv_sec, cpu.tv_nsec / 1000)
}

fn cluster(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    write!(text, "cluster_enabled:{}\r\n", u8::from(call.door.nodes.is_some()))
}

fn keyspace(call: &RespCall<'_, '_>, text: &mut String) -> std::fmt::Result {
    match call.table.keys() {
        0 => Ok(()),
        keys => write!(text, "db0:keys={keys},expires={},avg_ttl=0\r\n", call.table.expiring_keys()),
    }
}

pub(crate) fn time(call: &mut RespCall<'_, '_>) -> Outcome {
    let now = unix_time();
    call.client.reply.array(2);
    call.client.reply.bulk(now.as_secs().to_string());
    call.client.reply.bulk(now.subsec_micros().to_string());
    Ok(())
}

/// `WAIT` need not wait: no reply has left before all backups had what it tells.
pub(crate) fn wait(call: &mut RespCall<'_, '_>) -> Outcome {
    integer(call.arguments[1])?;
    let timeout =
        integer(call.arguments[2]).map_err(|_| CommandError::words("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(CommandError::words("ERR timeout is negative"));
    }
    let backups = call.door.nodes.as_ref().map_or(0, DoorNodes::backups);
    call.client.reply.count(backups);
    Ok(())
}

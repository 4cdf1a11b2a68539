//! `CONFIG`: the settings that clients ask for. They are set when the server starts.

use longarm_kv::FsyncRule;

use super::Outcome;
use crate::door::{Door, DoorCounts, RespCall};
use crate::error::CommandError;
use crate::glob;

fn settings(door: &Door) -> [(&'static str, String); 14] {
    let settings = &door.settings;
    let yes_no = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    let fsync = match door.table.fsync_rule() {
        Some(FsyncRule::Always) => "always",
        Some(FsyncRule::EverySecond) => "everysec",
        Some(FsyncRule::Never) | None => "no",
    };
    [
        ("appendfsync", fsync.into()),
        ("appendonly", yes_no(door.table.fsync_rule().is_some())),
        ("bind", settings.address.ip().to_string()),
        ("cluster-enabled", yes_no(door.nodes.is_some())),
        ("databases", "1".into()),
        ("maxclients", settings.max_clients.to_string()),
        ("maxmemory", settings.max_bytes.to_string()),
        ("maxmemory-policy", if settings.evicts { "allkeys-lru" } else { "noeviction" }.into()),
        ("maxmemory-samples", "8".into()),
        ("port", settings.address.port().to_string()),
        ("proto-max-bulk-len", super::strings::LONGEST_VALUE.to_string()),
        ("save", String::new()),
        ("timeout", "0".into()),
        ("tcp-keepalive", "300".into()),
    ]
}

pub(crate) fn config(call: &mut RespCall<'_, '_>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_lowercase();
    let words = &call.arguments[2..];
    match subcommand.as_slice() {
        b"get" if !words.is_empty() => get(call),
        b"set" if words.len() >= 2 => set(call)?,
        b"resetstat" if words.is_empty() => {
            call.door.counts = DoorCounts { clients: call.door.counts.clients, ..DoorCounts::default() };
            call.client.reply.ok();
        }
        name @ (b"get" | b"set" | b"resetstat") => {
            return Err(CommandError::arity(&format!("config|{}", String::from_utf8_lossy(name))));
        }
        _ => return Err(CommandError::subcommand("config", call.arguments[1])),
    }
    Ok(())
}

fn get(call: &mut RespCall<'_, '_>) {
    let patterns: Vec<Vec<u8>> = call.arguments[2..].iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let is_wanted = |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
    let found: Vec<_> = settings(call.door).into_iter().filter(|(name, _)| is_wanted(name)).collect();
    call.client.reply.map(found.len());
    for (name, value) in found {
        call.client.reply.bulk(name);
        call.client.reply.bulk(value);
    }
}

/// A setting may be set to the value that it has.
fn set(call: &mut RespCall<'_, '_>) -> Outcome {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(CommandError::arity("config|set"));
    }
    for pair in call.arguments[2..].chunks_exact(2) {
        let name = pair[0].to_ascii_lowercase();
        let known = settings(call.door).into_iter().find(|(known, _)| known.as_bytes() == name);
        let shown = String::from_utf8_lossy(pair[0]);
        match known {
            None => {
                let text = format!("ERR Unknown option or number of arguments for CONFIG SET - '{shown}'");
                return Err(CommandError::text(text));
            }
            Some((_, value)) if value.as_bytes().eq_ignore_ascii_case(pair[1]) => {}
            Some(_) => {
                let text = format!(
                    "ERR CONFIG SET failed (possibly related to argument '{shown}') - can't set immutable config"
                );
                return Err(CommandError::text(text));
            }
        }
    }
    call.client.reply.ok();
    Ok(())
}

//! Commands on keys.

use longarm_kv::PutExpiry;

use super::Outcome;
use super::strings::integer;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::number::parse_i64;

/// The longest value whose encoding Redis calls `embstr`.
const EMBEDDED: u64 = 44;
/// Bytes that the server spends on a key beside key and value, about: its note, its slot, its object's head.
const OVERHEAD: u64 = 136;

pub(crate) fn del(call: &mut RespCall<'_, '_>) -> Outcome {
    let mut removed = 0;
    for key in &call.arguments[1..] {
        removed += i64::from(call.remove(key)?);
    }
    call.client.reply.integer(removed);
    Ok(())
}

/// `EXISTS` and `TOUCH`: a key that is named twice counts twice.
pub(crate) fn exists(call: &mut RespCall<'_, '_>) -> Outcome {
    let mut there = 0;
    for key in &call.arguments[1..] {
        there += i64::from(call.table.head(key)?.is_some());
    }
    call.client.reply.integer(there);
    Ok(())
}

pub(crate) fn kind(call: &mut RespCall<'_, '_>) -> Outcome {
    let is_there = call.table.head(call.arguments[1])?.is_some();
    call.client.reply.simple(if is_there { "string" } else { "none" });
    Ok(())
}

pub(crate) fn rename(call: &mut RespCall<'_, '_>) -> Outcome {
    move_to(call, true)?;
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn renamenx(call: &mut RespCall<'_, '_>) -> Outcome {
    let moved = move_to(call, false)?;
    call.client.reply.integer(i64::from(moved));
    Ok(())
}

fn move_to(call: &mut RespCall<'_, '_>, replaces: bool) -> Result<bool, CommandError> {
    let (from, to) = (call.arguments[1], call.arguments[2]);
    if call.table.head(from)?.is_none() {
        return Err(CommandError::words("ERR no such key"));
    }
    if from == to {
        return Ok(replaces);
    }
    if !replaces && call.table.head(to)?.is_some() {
        return Ok(false);
    }
    copy_value(call, from, to)?;
    call.remove(from)?;
    Ok(true)
}

/// Copies a value that is there, with its expiry.
fn copy_value(call: &mut RespCall<'_, '_>, from: &[u8], to: &[u8]) -> Outcome {
    let expires_ns = call.table.head(from)?.map_or(0, |head| head.expires_ns);
    let value = call.value(from)?.unwrap_or_default();
    let expiry = match expires_ns {
        0 => PutExpiry::Never,
        at => PutExpiry::AfterNs(at.saturating_sub(call.table.now_ns())),
    };
    call.put(to, &value, expiry)
}

pub(crate) fn copy(call: &mut RespCall<'_, '_>) -> Outcome {
    let (from, to, mut words) = (call.arguments[1], call.arguments[2], &call.arguments[3..]);
    let mut replaces = false;
    while let [word, rest @ ..] = words {
        words = rest;
        match (word.to_ascii_lowercase().as_slice(), words) {
            (b"replace", _) => replaces = true,
            (b"db", [number, rest @ ..]) => {
                words = rest;
                if integer(number)? != 0 {
                    return Err(CommandError::words("ERR DB index is out of range"));
                }
            }
            _ => return Err(CommandError::SYNTAX),
        }
    }
    if from == to {
        return Err(CommandError::words("ERR source and destination objects are the same"));
    }
    let can_copy = call.table.head(from)?.is_some() && (replaces || call.table.head(to)?.is_none());
    if can_copy {
        copy_value(call, from, to)?;
    }
    call.client.reply.integer(i64::from(can_copy));
    Ok(())
}

pub(crate) fn object(call: &mut RespCall<'_, '_>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_lowercase();
    match subcommand.as_slice() {
        b"encoding" | b"refcount" if call.arguments.len() != 3 => {
            let name = String::from_utf8_lossy(&subcommand);
            return Err(CommandError::arity(&format!("object|{name}")));
        }
        b"encoding" | b"refcount" => {}
        _ => return Err(CommandError::subcommand("object", call.arguments[1])),
    }
    let key = call.arguments[2];
    let Some(head) = call.table.head(key)? else {
        call.client.reply.null();
        return Ok(());
    };
    if subcommand == b"refcount" {
        call.client.reply.integer(1);
        return Ok(());
    }
    let mut digits = Vec::new();
    call.table.get_range(key, 0, 21, &mut digits)?;
    let encoding = match head.value_bytes {
        _ if parse_i64(&digits).is_some() => "int",
        ..=EMBEDDED => "embstr",
        _ => "raw",
    };
    call.client.reply.bulk(encoding);
    Ok(())
}

pub(crate) fn memory(call: &mut RespCall<'_, '_>) -> Outcome {
    match (call.arguments[1].to_ascii_lowercase().as_slice(), &call.arguments[2..]) {
        (b"usage", [_]) => {}
        (b"usage", [_, samples, number]) if samples.eq_ignore_ascii_case(b"samples") => {
            if integer(number)? < 0 {
                return Err(CommandError::SYNTAX);
            }
        }
        (b"usage", []) => return Err(CommandError::arity("memory|usage")),
        (b"usage", _) => return Err(CommandError::SYNTAX),
        _ => return Err(CommandError::subcommand("memory", call.arguments[1])),
    }
    let key = call.arguments[2];
    match call.table.head(key)? {
        // Two copies of the key: in the object, and in the server's note.
        Some(head) => call.client.reply.count(head.value_bytes + 2 * key.len() as u64 + OVERHEAD),
        None => call.client.reply.null(),
    }
    Ok(())
}

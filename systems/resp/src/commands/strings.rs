//! Commands on values.

use longarm_kv::{PutExpiry, PutIf};

use super::Outcome;
use super::expiry::ExpiryOption;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::number::parse_i64;

/// The longest value in bytes (`proto-max-bulk-len`).
pub(crate) const LONGEST_VALUE: u64 = 512 << 20;

/// Keys whose places are fetched together.
const AHEAD: usize = 16;

pub(crate) fn get(call: &mut RespCall<'_, '_>) -> Outcome {
    call.reply_value(call.arguments[1])?;
    Ok(())
}

pub(crate) fn setnx(call: &mut RespCall<'_, '_>) -> Outcome {
    let stored = call.put_if(call.arguments[1], call.arguments[2], PutIf::Absent, PutExpiry::Never)?;
    call.client.reply.integer(i64::from(stored));
    Ok(())
}

pub(crate) fn setex(call: &mut RespCall<'_, '_>) -> Outcome {
    set_for(call, ExpiryOption::Seconds, "setex")
}

pub(crate) fn psetex(call: &mut RespCall<'_, '_>) -> Outcome {
    set_for(call, ExpiryOption::Milliseconds, "psetex")
}

fn set_for(call: &mut RespCall<'_, '_>, option: ExpiryOption, name: &str) -> Outcome {
    let at = option.at_ms(call, call.arguments[2], name)?;
    call.put_until(call.arguments[1], call.arguments[3], at)?;
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn getset(call: &mut RespCall<'_, '_>) -> Outcome {
    call.reply_value(call.arguments[1])?;
    call.put(call.arguments[1], call.arguments[2], PutExpiry::Never)
}

pub(crate) fn getdel(call: &mut RespCall<'_, '_>) -> Outcome {
    if call.reply_value(call.arguments[1])? {
        call.remove(call.arguments[1])?;
    }
    Ok(())
}

pub(crate) fn mget(call: &mut RespCall<'_, '_>) -> Outcome {
    call.client.reply.array(call.arguments.len() - 1);
    for keys in call.arguments[1..].chunks(AHEAD) {
        call.table.look_ahead(keys.iter().copied());
        for key in keys {
            call.reply_value(key)?;
        }
    }
    Ok(())
}

pub(crate) fn mset(call: &mut RespCall<'_, '_>) -> Outcome {
    put_all(call, "mset")?;
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(call: &mut RespCall<'_, '_>) -> Outcome {
    if call.arguments.len().is_multiple_of(2) {
        return Err(CommandError::arity("msetnx"));
    }
    for key in call.arguments[1..].iter().step_by(2) {
        if call.table.head(key)?.is_some() {
            call.client.reply.integer(0);
            return Ok(());
        }
    }
    put_all(call, "msetnx")?;
    call.client.reply.integer(1);
    Ok(())
}

fn put_all(call: &mut RespCall<'_, '_>, name: &str) -> Outcome {
    if call.arguments.len().is_multiple_of(2) {
        return Err(CommandError::arity(name));
    }
    for pairs in call.arguments[1..].chunks(2 * AHEAD) {
        call.table.look_ahead(pairs.iter().step_by(2).copied());
        for pair in pairs.chunks_exact(2) {
            call.put(pair[0], pair[1], PutExpiry::Never)?;
        }
    }
    Ok(())
}

pub(crate) fn append(call: &mut RespCall<'_, '_>) -> Outcome {
    let (key, more) = (call.arguments[1], call.arguments[2]);
    let mut value = Vec::new();
    call.table.get_range(key, 0, u64::MAX, &mut value)?;
    check_length(value.len() as u64 + more.len() as u64)?;
    value.extend_from_slice(more);
    call.put(key, &value, PutExpiry::Keep)?;
    call.client.reply.count(value.len());
    Ok(())
}

pub(crate) fn strlen(call: &mut RespCall<'_, '_>) -> Outcome {
    let head = call.table.head(call.arguments[1])?;
    call.client.reply.count(head.map_or(0, |head| head.value_bytes));
    Ok(())
}

pub(crate) fn getrange(call: &mut RespCall<'_, '_>) -> Outcome {
    let (start, end) = (integer(call.arguments[2])?, integer(call.arguments[3])?);
    let len = call.table.head(call.arguments[1])?.map_or(0, |head| head.value_bytes as i64);
    let from_end = |at: i64| if at < 0 { len.saturating_add(at).max(0) } else { at };
    if (start < 0 && end < 0 && start > end) || len == 0 {
        call.client.reply.bulk("");
        return Ok(());
    }
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    let mut part = Vec::new();
    if start <= end {
        call.table.get_range(call.arguments[1], start as u64, (end - start + 1) as u64, &mut part)?;
    }
    call.client.reply.bulk(&part);
    Ok(())
}

pub(crate) fn setrange(call: &mut RespCall<'_, '_>) -> Outcome {
    let (key, part) = (call.arguments[1], call.arguments[3]);
    let offset = integer(call.arguments[2])?;
    let offset = u64::try_from(offset).map_err(|_| CommandError::words("ERR offset is out of range"))?;
    if part.is_empty() {
        return strlen(call);
    }
    let end = offset.saturating_add(part.len() as u64);
    check_length(end)?;
    let mut value = Vec::new();
    call.table.get_range(key, 0, u64::MAX, &mut value)?;
    value.resize(value.len().max(end as usize), 0);
    value[offset as usize..end as usize].copy_from_slice(part);
    call.put(key, &value, PutExpiry::Keep)?;
    call.client.reply.count(value.len());
    Ok(())
}

/// A whole number among the arguments.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_i64(argument).ok_or(CommandError::NOT_INTEGER)
}

fn check_length(bytes: u64) -> Outcome {
    if bytes > LONGEST_VALUE { Err(CommandError::TOO_LONG) } else { Ok(()) }
}

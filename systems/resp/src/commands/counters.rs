//! Commands that add to a value.

use longarm_kv::PutExpiry;

use super::Outcome;
use super::strings::integer;
use crate::decimal;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::number::{Digits, parse_i64};

pub(crate) fn incr(call: &mut RespCall<'_, '_>) -> Outcome {
    add(call, 1)
}

pub(crate) fn decr(call: &mut RespCall<'_, '_>) -> Outcome {
    add(call, -1)
}

pub(crate) fn incrby(call: &mut RespCall<'_, '_>) -> Outcome {
    add(call, integer(call.arguments[2])?)
}

pub(crate) fn decrby(call: &mut RespCall<'_, '_>) -> Outcome {
    let by = integer(call.arguments[2])?;
    add(call, by.checked_neg().ok_or(CommandError::words("ERR decrement would overflow"))?)
}

fn add(call: &mut RespCall<'_, '_>, by: i64) -> Outcome {
    let key = call.arguments[1];
    let sum = match whole_value(call, key, 21)? {
        None => by,
        Some(digits) => {
            let before = parse_i64(&digits).ok_or(CommandError::NOT_INTEGER)?;
            before.checked_add(by).ok_or(CommandError::words("ERR increment or decrement would overflow"))?
        }
    };
    call.put(key, Digits::of(sum).as_bytes(), PutExpiry::Keep)?;
    call.client.reply.integer(sum);
    Ok(())
}

/// A value; more than so many bytes are no number.
fn whole_value(call: &mut RespCall<'_, '_>, key: &[u8], most: u64) -> Result<Option<Vec<u8>>, CommandError> {
    let mut value = Vec::new();
    let is_there = call.table.get_range(key, 0, most, &mut value)?;
    Ok(is_there.then_some(value))
}

pub(crate) fn incrbyfloat(call: &mut RespCall<'_, '_>) -> Outcome {
    let key = call.arguments[1];
    // Redis reads the value first.
    let before = match whole_value(call, key, decimal::LONGEST as u64 + 1)? {
        None => decimal::parse(b"0"),
        Some(digits) => decimal::parse(&digits),
    };
    let before = before.ok_or(CommandError::NOT_FLOAT)?;
    let by = decimal::parse(call.arguments[2]).ok_or(CommandError::NOT_FLOAT)?;
    let sum = decimal::sum(before, by).ok_or(CommandError::words("ERR increment would produce NaN or Infinity"))?;
    call.put(key, sum.as_bytes(), PutExpiry::Keep)?;
    call.client.reply.bulk(&sum);
    Ok(())
}

//! Commands on all keys.

use super::Outcome;
use super::strings::integer;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::glob;

/// Keys that one look at the table takes.
const BATCH: usize = 256;
/// Keys that one `SCAN` looks at, at most.
const MOST_AT_ONCE: usize = 10_000;

impl RespCall<'_, '_> {
    /// Some keys from a cursor on, and the next cursor.
    fn some_keys(&mut self, cursor: u64, count: usize) -> (Vec<Vec<u8>>, u64) {
        let (mut packed, mut keys) = (Vec::new(), Vec::new());
        let next = self.table.scan(cursor, count, &mut packed);
        let mut rest = packed.as_slice();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let Some((key, after)) = after.split_at_checked(u32::from_le_bytes(*len) as usize) else { break };
            keys.push(key.to_vec());
            rest = after;
        }
        if let (true, Some(nodes)) = (self.door.table.has_backups(), &self.door.nodes) {
            // The others are those of other members, whose backup this one is.
            keys.retain(|key| nodes.serves(key));
        }
        (keys, next)
    }

    /// Calls `each` with all keys. Other threads take their turn between two batches, unless a transaction is under way.
    pub(crate) fn each_key(&mut self, mut each: impl FnMut(&mut Self, Vec<u8>) -> Outcome) -> Outcome {
        let mut cursor = 0;
        loop {
            let (keys, next) = self.some_keys(cursor, BATCH);
            for key in keys {
                each(self, key)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
            if !self.is_in_transaction {
                self.table.yield_now();
            }
        }
    }
}

pub(crate) fn keys(call: &mut RespCall<'_, '_>) -> Outcome {
    let (pattern, mut found) = (call.arguments[1], Vec::new());
    call.each_key(|_, key| {
        if glob::matches(pattern, &key) {
            found.push(key);
        }
        Ok(())
    })?;
    call.client.reply.array(found.len());
    found.iter().for_each(|key| call.client.reply.bulk(key));
    Ok(())
}

pub(crate) fn scan(call: &mut RespCall<'_, '_>) -> Outcome {
    let invalid = CommandError::words("ERR invalid cursor");
    let cursor = std::str::from_utf8(call.arguments[1]).ok().and_then(|digits| digits.parse::<u64>().ok());
    let cursor = cursor.ok_or(invalid)?;
    let (mut pattern, mut count, mut is_wanted) = (&b"*"[..], 10, true);
    let mut words = &call.arguments[2..];
    while let [word, value, rest @ ..] = words {
        words = rest;
        match word.to_ascii_lowercase().as_slice() {
            b"match" => pattern = value,
            b"count" => count = integer(value)?,
            b"type" => is_wanted = value.eq_ignore_ascii_case(b"string"),
            _ => return Err(CommandError::SYNTAX),
        }
        if count < 1 {
            return Err(CommandError::SYNTAX);
        }
    }
    if !words.is_empty() {
        return Err(CommandError::SYNTAX);
    }
    let (mut keys, next) = call.some_keys(cursor, usize::try_from(count).unwrap_or(MOST_AT_ONCE).min(MOST_AT_ONCE));
    keys.retain(|key| is_wanted && glob::matches(pattern, key));
    call.client.reply.array(2);
    call.client.reply.bulk(next.to_string());
    call.client.reply.array(keys.len());
    keys.iter().for_each(|key| call.client.reply.bulk(key));
    Ok(())
}

pub(crate) fn dbsize(call: &mut RespCall<'_, '_>) -> Outcome {
    let mut count = call.table.keys();
    if call.door.table.has_backups() {
        count = 0;
        call.each_key(|_, _| {
            count += 1;
            Ok(())
        })?;
    }
    call.client.reply.count(count);
    Ok(())
}

pub(crate) fn randomkey(call: &mut RespCall<'_, '_>) -> Outcome {
    let (mut cursor, mut is_second_turn) = (fastrand::u64(..), false);
    loop {
        let (mut keys, next) = call.some_keys(cursor, 1);
        if !keys.is_empty() {
            let key = keys.swap_remove(fastrand::usize(..keys.len()));
            call.client.reply.bulk(&key);
            return Ok(());
        }
        if next == 0 && is_second_turn {
            call.client.reply.null();
            return Ok(());
        }
        is_second_turn |= next == 0;
        cursor = next;
    }
}

/// `FLUSHDB` and `FLUSHALL`. Both wait for the end, `ASYNC` or not.
pub(crate) fn flush(call: &mut RespCall<'_, '_>) -> Outcome {
    match &call.arguments[1..] {
        [] => {}
        [mode] if mode.eq_ignore_ascii_case(b"async") || mode.eq_ignore_ascii_case(b"sync") => {}
        _ => return Err(CommandError::SYNTAX),
    }
    call.each_key(|call, key| call.remove(&key).map(drop))?;
    call.client.reply.ok();
    Ok(())
}

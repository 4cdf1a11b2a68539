//! `MULTI` and `EXEC`. A transaction holds the table, so nobody sees a part of it but readers by READ, which read keys one by one.

use longarm_kv::SlotEntry;

use super::{Outcome, dispatch};
use crate::client::{RespClient, Transaction, WatchedKey};
use crate::door::RespCall;
use crate::error::CommandError;

/// Bytes of requests that wait for `EXEC`, at most: the same as Redis takes from a client (`client-query-buffer-limit`).
const MOST_BYTES: usize = 1 << 30;
/// Keys that a client watches at most.
const MOST_WATCHED: usize = 100_000;

pub(crate) fn multi(call: &mut RespCall<'_, '_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(CommandError::words("ERR MULTI calls can not be nested"));
    }
    call.client.transaction = Some(Transaction::default());
    call.client.reply.ok();
    Ok(())
}

/// Keeps a request for `EXEC`.
pub(crate) fn queue(client: &mut RespClient, request: &[&[u8]]) {
    let is_lost = client.is_dirty;
    let Some(transaction) = &mut client.transaction else { return };
    let bytes: usize = request.iter().map(|argument| argument.len() + size_of::<Vec<u8>>()).sum();
    transaction.bytes += bytes;
    if transaction.bytes > MOST_BYTES {
        transaction.is_broken = true;
        transaction.requests = Vec::new();
        client.reply.error(b"ERR the transaction is too long");
        return;
    }
    // A watched key has changed: EXEC will execute nothing. Redis keeps no such requests either, so their slots do not matter.
    if !transaction.is_broken && !is_lost {
        transaction.requests.push(request.iter().map(|argument| argument.to_vec()).collect());
    }
    client.reply.simple("QUEUED");
}

pub(crate) fn exec(call: &mut RespCall<'_, '_>) -> Outcome {
    let Some(transaction) = call.client.transaction.take() else {
        return Err(CommandError::words("ERR EXEC without MULTI"));
    };
    let entry = match begin(call, &transaction) {
        Ok(entry) => entry,
        Err(error) => {
            call.door.unwatch(call.client);
            return Err(error);
        }
    };
    let done = execute(call, &transaction);
    dispatch::leave(call, entry);
    done
}

/// Asks whether a transaction may be executed.
fn begin(call: &mut RespCall<'_, '_>, transaction: &Transaction) -> Result<Option<SlotEntry>, CommandError> {
    let slot = match &call.door.nodes {
        Some(nodes) => nodes.admit(transaction.keys())?,
        None => None,
    };
    if transaction.is_broken {
        return Err(CommandError::words("EXECABORT Transaction discarded because of previous errors."));
    }
    dispatch::enter(call, slot, true)
}

fn execute(call: &mut RespCall<'_, '_>, transaction: &Transaction) -> Outcome {
    let mut is_same = !call.client.is_dirty;
    let watched = std::mem::take(&mut call.client.watched);
    for WatchedKey { key, version } in &watched {
        is_same &= call.table.head(key)?.map(|head| head.version) == *version;
    }
    call.client.watched = watched;
    call.door.unwatch(call.client);
    if !is_same {
        call.client.reply.null_array();
        return Ok(());
    }
    call.client.reply.array(transaction.requests.len());
    for request in &transaction.requests {
        let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        dispatch::run_queued(&mut RespCall {
            arguments: &arguments,
            client: call.client,
            door: call.door,
            table: call.table,
            is_in_transaction: true,
        });
    }
    Ok(())
}

pub(crate) fn discard(call: &mut RespCall<'_, '_>) -> Outcome {
    if call.client.transaction.take().is_none() {
        return Err(CommandError::words("ERR DISCARD without MULTI"));
    }
    call.door.unwatch(call.client);
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn watch(call: &mut RespCall<'_, '_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(CommandError::words("ERR WATCH inside MULTI is not allowed"));
    }
    for key in &call.arguments[1..] {
        if call.client.watched.iter().any(|watched| watched.key == **key) {
            continue;
        }
        if call.client.watched.len() >= MOST_WATCHED {
            return Err(CommandError::words("ERR too many watched keys"));
        }
        let version = call.table.head(key)?.map(|head| head.version);
        call.client.watched.push(WatchedKey { key: key.to_vec(), version });
        call.door.watchers.entry(key.to_vec()).or_default().insert(call.client.id);
    }
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn unwatch(call: &mut RespCall<'_, '_>) -> Outcome {
    call.door.unwatch(call.client);
    call.client.reply.ok();
    Ok(())
}

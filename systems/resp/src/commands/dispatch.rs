//! Which command a client may execute now, and its execution (`processCommand` of Redis).

use longarm_kv::{HashSlot, SlotEntry, SlotRefusal, UnknownChanges};

use super::table::RespCommand;
use super::{Outcome, transactions};
use crate::client::RespClient;
use crate::door::RespCall;
use crate::error::CommandError;

/// Commands that a client of RESP2 may execute while it listens to channels.
const OF_LISTENERS: [&str; 9] =
    ["ping", "psubscribe", "punsubscribe", "quit", "reset", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"];
/// Commands that are executed behind MULTI, not queued.
const OF_TRANSACTIONS: [&str; 6] = ["discard", "exec", "multi", "quit", "reset", "watch"];

/// Executes a request, or queues it, or refuses it. The client's replies are longer then.
pub(crate) fn execute(call: &mut RespCall<'_, '_>) {
    if call.arguments.is_empty() {
        return;
    }
    let (command, slot) = match admit(call) {
        Ok(admitted) => admitted,
        Err(error) => {
            if let Some(transaction) = &mut call.client.transaction {
                transaction.is_broken = true;
            }
            return refuse(call, &error);
        }
    };
    call.client.last_command = command.name;
    if call.client.transaction.is_some() && !OF_TRANSACTIONS.contains(&command.name) {
        return transactions::queue(call.client, call.arguments);
    }
    let looks_at_keys = slot.is_some() || command.has("readonly") || command.has("write");
    match looks_at_keys && call.door.table.has_backups() {
        false => run(call, command),
        true => run_with_backups(call, command, slot),
    }
}

fn run_with_backups(call: &mut RespCall<'_, '_>, command: &RespCommand, slot: Option<HashSlot>) {
    match enter(call, slot, command.has("write")) {
        Ok(entry) => {
            run(call, command);
            leave(call, entry);
        }
        Err(error) => refuse(call, &error),
    }
}

/// Begins operations on keys of a slot, or of all slots. `None`: the server has no backups.
pub(crate) fn enter(
    call: &mut RespCall<'_, '_>,
    slot: Option<HashSlot>,
    changes: bool,
) -> Result<Option<SlotEntry>, CommandError> {
    call.table.enter(slot, changes).map_err(|refused| match (refused, slot, &call.door.nodes) {
        (SlotRefusal::HandingOver, ..) => CommandError::HANDING_OVER,
        (SlotRefusal::NotServing(refused), Some(slot), Some(nodes)) => nodes.refusal(slot, &refused),
        (SlotRefusal::NotServing(_), ..) => CommandError::DOWN,
    })
}

/// Ends them: the client's replies wait for the backups. If nobody knows any more whether those have it all, the reply does not
/// leave. The connection ends then, as when a server dies.
pub(crate) fn leave(call: &mut RespCall<'_, '_>, entry: Option<SlotEntry>) {
    match entry.map_or(Ok(0), SlotEntry::end) {
        Ok(number) => call.client.settles = call.client.settles.max(number),
        Err(UnknownChanges) => (call.client.is_unknown, call.client.is_killed) = (true, true),
    }
}

/// Executes a request of a transaction, which was admitted before.
pub(crate) fn run_queued(call: &mut RespCall<'_, '_>) {
    match RespCommand::find(call.arguments[0]) {
        Some(command) => run(call, command),
        None => refuse(call, &CommandError::unknown(call.arguments)),
    }
}

fn run(call: &mut RespCall<'_, '_>, command: &RespCommand) {
    let start = call.client.reply.bytes.len();
    if call.client.is_killed || call.client.reply.is_too_long() {
        call.client.is_killed = true;
        return;
    }
    call.door.counts.commands += 1;
    if let Err(error) = (command.run)(call) {
        call.client.reply.bytes.truncate(start);
        refuse(call, &error);
    }
}

fn refuse(call: &mut RespCall<'_, '_>, error: &CommandError) {
    call.door.counts.errors += 1;
    call.client.reply.error(&error.0);
}

fn admit(call: &RespCall<'_, '_>) -> Result<(&'static RespCommand, Option<HashSlot>), CommandError> {
    let request = call.arguments;
    let command = RespCommand::find(request[0]).ok_or_else(|| CommandError::unknown(request))?;
    if !command.takes(request.len()) {
        return Err(CommandError::arity(command.name));
    }
    if call.client.user.is_none() && !command.has("no_auth") {
        return Err(CommandError::words("NOAUTH Authentication required."));
    }
    let slot = match &call.door.nodes {
        Some(nodes) => nodes.admit(command.keys_of(request))?,
        None => None,
    };
    check_listener(call.client, command)?;
    Ok((command, slot))
}

fn check_listener(client: &RespClient, command: &RespCommand) -> Outcome {
    if !client.only_listens() || OF_LISTENERS.contains(&command.name) {
        return Ok(());
    }
    let text = format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.name
    );
    Err(CommandError::text(text))
}

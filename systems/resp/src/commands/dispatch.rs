//! Which command a client may execute now, and its execution (`processCommand` of Redis).

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
    let command = match admit(call) {
        Ok(command) => command,
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
    run(call, command);
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

fn admit(call: &RespCall<'_, '_>) -> Result<&'static RespCommand, CommandError> {
    let request = call.arguments;
    let command = RespCommand::find(request[0]).ok_or_else(|| CommandError::unknown(request))?;
    if !command.takes(request.len()) {
        return Err(CommandError::arity(command.name));
    }
    if call.client.user.is_none() && !command.has("no_auth") {
        return Err(CommandError::words("NOAUTH Authentication required."));
    }
    if let Some(nodes) = &call.door.nodes {
        nodes.admit(command.keys_of(request))?;
    }
    check_listener(call.client, command)?;
    Ok(command)
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

//! `CLIENT` and its subcommands.

use super::Outcome;
use super::strings::integer;
use crate::client::{RespClient, WantedReplies};
use crate::door::RespCall;
use crate::error::CommandError;

pub(crate) fn client(call: &mut RespCall<'_, '_>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_lowercase();
    let words = &call.arguments[2..];
    let wrong = |arity_is_right: bool| match arity_is_right {
        true => Ok(()),
        false => Err(CommandError::arity(&format!("client|{}", String::from_utf8_lossy(&subcommand)))),
    };
    match subcommand.as_slice() {
        b"id" => {
            wrong(words.is_empty())?;
            call.client.reply.count(call.client.id);
        }
        b"getname" => {
            wrong(words.is_empty())?;
            match call.client.name.as_slice() {
                b"" => call.client.reply.null(),
                name => call.client.reply.bulk(name),
            }
        }
        b"setname" => {
            wrong(words.len() == 1)?;
            check_name(words[0], "Client names")?;
            call.client.name = words[0].to_vec();
            call.client.reply.ok();
        }
        b"setinfo" => {
            wrong(words.len() == 2)?;
            set_info(call)?;
        }
        b"info" => {
            wrong(words.is_empty())?;
            let text = call.client.describe(call.table.now_ns()) + "\n";
            call.client.reply.verbatim(&text);
        }
        b"list" => list(call)?,
        b"kill" => {
            wrong(!words.is_empty())?;
            kill(call)?;
        }
        b"reply" => {
            wrong(words.len() == 1)?;
            reply(call)?;
        }
        b"no-evict" => {
            wrong(words.len() == 1)?;
            call.client.is_never_evicted = match words[0].to_ascii_lowercase().as_slice() {
                b"on" => true,
                b"off" => false,
                _ => return Err(CommandError::SYNTAX),
            };
            call.client.reply.ok();
        }
        _ => return Err(CommandError::subcommand("client", call.arguments[1])),
    }
    Ok(())
}

/// The door leaves replies out behind the command (`RespConnection::call`).
fn reply(call: &mut RespCall<'_, '_>) -> Outcome {
    let before = call.client.wanted_replies;
    call.client.wanted_replies = match call.arguments[2].to_ascii_lowercase().as_slice() {
        b"on" => WantedReplies::All,
        b"off" => WantedReplies::None,
        b"skip" if before == WantedReplies::None => WantedReplies::None,
        b"skip" => WantedReplies::AllButNext,
        _ => return Err(CommandError::SYNTAX),
    };
    if call.client.wanted_replies == WantedReplies::All {
        call.client.reply.ok();
    }
    Ok(())
}

/// A name is printable and has no spaces, so that lists can be read.
pub(crate) fn check_name(name: &[u8], what: &str) -> Outcome {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(()),
        false => Err(CommandError::text(format!("ERR {what} cannot contain spaces, newlines or special characters."))),
    }
}

fn set_info(call: &mut RespCall<'_, '_>) -> Outcome {
    let (option, value) = (call.arguments[2], call.arguments[3]);
    let (place, words) = match option.to_ascii_lowercase().as_slice() {
        b"lib-name" => (&mut call.client.library, "lib-name"),
        b"lib-ver" => (&mut call.client.library_version, "lib-ver"),
        _ => return Err(CommandError([b"ERR Unrecognized option '", option, b"'"].concat().into())),
    };
    check_name(value, words)?;
    *place = value.to_vec();
    call.client.reply.ok();
    Ok(())
}

fn list(call: &mut RespCall<'_, '_>) -> Outcome {
    let mut ids = None;
    match &call.arguments[2..] {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"type") => {
            check_type(kind)?;
            if !kind.eq_ignore_ascii_case(b"normal") && !kind.eq_ignore_ascii_case(b"pubsub") {
                ids = Some(Vec::new());
            }
        }
        [option, wanted @ ..] if option.eq_ignore_ascii_case(b"id") && !wanted.is_empty() => {
            let wanted: Option<Vec<u64>> =
                wanted.iter().map(|id| integer(id).ok().and_then(|id| u64::try_from(id).ok())).collect();
            ids = Some(wanted.ok_or(CommandError::words("ERR Invalid client ID"))?);
        }
        _ => return Err(CommandError::SYNTAX),
    }
    let is_wanted = |client: &&RespClient| ids.as_ref().is_none_or(|ids| ids.contains(&client.id));
    let others = call.door.clients.values().map(|client| &**client);
    let mut clients: Vec<&RespClient> = others.chain([&*call.client]).filter(is_wanted).collect();
    clients.sort_unstable_by_key(|client| client.id);
    let text: String = clients.iter().map(|client| client.describe(call.table.now_ns()) + "\n").collect();
    call.client.reply.verbatim(&text);
    Ok(())
}

fn check_type(kind: &[u8]) -> Outcome {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" | b"pubsub" | b"master" | b"replica" | b"slave" => Ok(()),
        _ => Err(CommandError([b"ERR Unknown client type '", kind, b"'"].concat().into())),
    }
}

/// The clients that `CLIENT KILL` means.
#[derive(Default)]
struct Victims<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    listens: Option<bool>,
    spares_me: bool,
}

impl<'a> Victims<'a> {
    fn parse(mut words: &'a [&'a [u8]]) -> Result<Victims<'a>, CommandError> {
        let mut victims = Victims { spares_me: true, ..Victims::default() };
        while let [option, value, rest @ ..] = words {
            words = rest;
            match option.to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = integer(value).ok().and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                    victims.id = Some(id.ok_or(CommandError::words("ERR client-id should be greater than 0"))?);
                }
                b"addr" => victims.address = Some(value),
                b"laddr" => victims.local_address = Some(value),
                b"user" => victims.user = Some(value),
                b"type" => {
                    check_type(value)?;
                    victims.listens = Some(value.eq_ignore_ascii_case(b"pubsub"));
                }
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => victims.spares_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => victims.spares_me = false,
                _ => return Err(CommandError::SYNTAX),
            }
        }
        if words.is_empty() { Ok(victims) } else { Err(CommandError::SYNTAX) }
    }

    fn means(&self, client: &RespClient) -> bool {
        let is = |wanted: Option<&[u8]>, have: &str| wanted.is_none_or(|wanted| wanted == have.as_bytes());
        self.id.is_none_or(|id| id == client.id)
            && is(self.address, &client.address.to_string())
            && is(self.local_address, &client.local_address.to_string())
            && is(self.user, client.user.as_deref().unwrap_or_default())
            && self.listens.is_none_or(|listens| listens == (client.subscriptions() > 0))
    }
}

fn kill(call: &mut RespCall<'_, '_>) -> Outcome {
    let is_old_form = call.arguments.len() == 3;
    let victims = match is_old_form {
        true => Victims { address: Some(call.arguments[2]), ..Victims::default() },
        false => Victims::parse(&call.arguments[2..])?,
    };
    if let Some(user) = victims.user.filter(|user| !call.door.users.has(user)) {
        return Err(CommandError([b"ERR No such user '", user, b"'"].concat().into()));
    }
    let mut killed = 0;
    for client in call.door.clients.values_mut().filter(|client| victims.means(client)) {
        client.is_killed = true;
        call.door.touched.push(client.id);
        killed += 1;
    }
    if !victims.spares_me && victims.means(call.client) {
        // It learns of its end first.
        call.client.is_leaving = true;
        killed += 1;
    }
    match (is_old_form, killed) {
        (true, 0) => return Err(CommandError::words("ERR No such client")),
        (true, _) => call.client.reply.ok(),
        (false, _) => call.client.reply.integer(killed),
    }
    Ok(())
}

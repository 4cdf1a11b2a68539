//! Commands on the connection itself.

use super::Outcome;
use super::strings::integer;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::number::parse_i64;
use crate::users::DEFAULT;

/// The version of Redis whose behaviour the door has. Clients choose commands by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

pub(crate) fn ping(call: &mut RespCall<'_, '_>) -> Outcome {
    let words = &call.arguments[1..];
    if words.len() > 1 {
        return Err(CommandError::arity("ping"));
    }
    if call.client.only_listens() {
        call.client.reply.array(2);
        call.client.reply.bulk("pong");
        call.client.reply.bulk(words.first().copied().unwrap_or_default());
        return Ok(());
    }
    match words.first() {
        Some(text) => call.client.reply.bulk(text),
        None => call.client.reply.simple("PONG"),
    }
    Ok(())
}

pub(crate) fn echo(call: &mut RespCall<'_, '_>) -> Outcome {
    call.client.reply.bulk(call.arguments[1]);
    Ok(())
}

pub(crate) fn select(call: &mut RespCall<'_, '_>) -> Outcome {
    // The door has one table.
    if integer(call.arguments[1])? != 0 {
        return Err(CommandError::words("ERR DB index is out of range"));
    }
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn quit(call: &mut RespCall<'_, '_>) -> Outcome {
    call.client.is_leaving = true;
    call.client.reply.ok();
    Ok(())
}

pub(crate) fn reset(call: &mut RespCall<'_, '_>) -> Outcome {
    call.client.transaction = None;
    call.door.forget(call.client);
    call.client.name.clear();
    call.client.is_never_evicted = false;
    call.client.reply.is_resp3 = false;
    call.client.user = call.door.users.welcomes_strangers().then(|| DEFAULT.into());
    call.client.reply.simple("RESET");
    Ok(())
}

pub(crate) fn auth(call: &mut RespCall<'_, '_>) -> Outcome {
    let (name, password) = match &call.arguments[1..] {
        [password] => {
            if !call.door.users.has_default_password() {
                let words = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                             your configuration is correct?";
                return Err(CommandError::words(words));
            }
            (DEFAULT.as_bytes(), *password)
        }
        [name, password] => (*name, *password),
        _ => return Err(CommandError::SYNTAX),
    };
    prove(call, name, password)?;
    call.client.reply.ok();
    Ok(())
}

fn prove(call: &mut RespCall<'_, '_>, name: &[u8], password: &[u8]) -> Outcome {
    match call.door.users.prove(name, password) {
        Some(user) => {
            call.client.user = Some(user);
            Ok(())
        }
        None => Err(CommandError::words("WRONGPASS invalid username-password pair or user is disabled.")),
    }
}

pub(crate) fn hello(call: &mut RespCall<'_, '_>) -> Outcome {
    let mut words = &call.arguments[1..];
    let mut version = None;
    if let [first, rest @ ..] = words {
        let number =
            parse_i64(first).ok_or(CommandError::words("ERR Protocol version is not an integer or out of range"))?;
        if !(2..=3).contains(&number) {
            return Err(CommandError::words("NOPROTO unsupported protocol version"));
        }
        (version, words) = (Some(number), rest);
    }
    let (mut proof, mut name) = (None, None);
    while let [option, rest @ ..] = words {
        words = match (option.to_ascii_lowercase().as_slice(), rest) {
            (b"auth", [user, password, rest @ ..]) => {
                proof = Some((*user, *password));
                rest
            }
            (b"setname", [wanted, rest @ ..]) => {
                super::clients::check_name(wanted, "Client names")?;
                name = Some(wanted.to_vec());
                rest
            }
            _ => return Err(CommandError([b"ERR Syntax error in HELLO option '", *option, b"'"].concat().into())),
        };
    }
    if let Some((user, password)) = proof {
        prove(call, user, password)?;
    }
    if call.client.user.is_none() {
        let words = concat!(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH ",
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at ",
            "the same time"
        );
        return Err(CommandError::words(words));
    }
    if let Some(name) = name {
        call.client.name = name;
    }
    if let Some(version) = version {
        call.client.reply.is_resp3 = version == 3;
    }
    greet(call);
    Ok(())
}

fn greet(call: &mut RespCall<'_, '_>) {
    let (reply, id) = (&mut call.client.reply, call.client.id);
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("proto");
    reply.integer(if reply.is_resp3 { 3 } else { 2 });
    reply.bulk("id");
    reply.count(id);
    let mode = if call.door.nodes.is_some() { "cluster" } else { "standalone" };
    for (name, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("modules");
    reply.array(0);
}

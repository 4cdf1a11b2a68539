//! `COMMAND`: the commands themselves.

use super::Outcome;
use super::facts::{CommandFacts, FACTS, KeySpec};
use super::table::{COMMANDS, RespCommand};
use crate::door::RespCall;
use crate::error::CommandError;
use crate::glob;
use crate::reply::RespReply;

pub(crate) fn command(call: &mut RespCall<'_, '_>) -> Outcome {
    let Some(subcommand) = call.arguments.get(1) else {
        describe_all(&mut call.client.reply);
        return Ok(());
    };
    let words = &call.arguments[2..];
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" if words.is_empty() => call.client.reply.count(COMMANDS.len()),
        b"info" if words.is_empty() => describe_all(&mut call.client.reply),
        b"info" => {
            call.client.reply.array(words.len());
            for name in words {
                match RespCommand::find(name) {
                    Some(command) => describe(command, &mut call.client.reply),
                    None => call.client.reply.null(),
                }
            }
        }
        b"docs" => docs(call),
        b"list" => list(call)?,
        b"getkeys" if words.len() >= 2 => get_keys(call)?,
        name @ (b"count" | b"getkeys") => {
            return Err(CommandError::arity(&format!("command|{}", String::from_utf8_lossy(name))));
        }
        _ => return Err(CommandError::subcommand("command", subcommand)),
    }
    Ok(())
}

fn describe_all(reply: &mut RespReply) {
    reply.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| describe(command, reply));
}

fn facts_of(command: &RespCommand) -> Option<&'static CommandFacts> {
    FACTS.iter().find(|facts| facts.name == command.name)
}

fn describe(command: &RespCommand, reply: &mut RespReply) {
    reply.array(10);
    reply.bulk(command.name);
    reply.integer(command.arity);
    reply.set(command.flags.len());
    command.flags.iter().for_each(|flag| reply.simple(flag));
    for number in [command.keys.0, command.keys.1, command.keys.2] {
        reply.integer(number);
    }
    let facts = facts_of(command);
    let (categories, tips, keys) = facts.map_or_else(Default::default, |f| (f.categories, f.tips, f.keys));
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
    reply.set(tips.len());
    tips.iter().for_each(|tip| reply.bulk(tip));
    reply.set(keys.len());
    keys.iter().for_each(|spec| describe_keys(spec, reply));
    // Subcommands.
    reply.set(0);
}

fn describe_keys(spec: &KeySpec, reply: &mut RespReply) {
    reply.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply.bulk("notes");
        reply.bulk(spec.notes);
    }
    reply.bulk("flags");
    reply.set(spec.flags.len());
    spec.flags.iter().for_each(|flag| reply.simple(flag));
    let last = [("lastkey", spec.last), ("keystep", spec.step), ("limit", 0)];
    for (name, kind, numbers) in
        [("begin_search", "index", &[("index", spec.first)][..]), ("find_keys", "range", &last)]
    {
        reply.bulk(name);
        reply.map(2);
        reply.bulk("type");
        reply.bulk(kind);
        reply.bulk("spec");
        reply.map(numbers.len());
        for (name, number) in numbers {
            reply.bulk(name);
            reply.integer(*number);
        }
    }
}

fn docs(call: &mut RespCall<'_, '_>) {
    let words = &call.arguments[2..];
    let is_wanted = |command: &&RespCommand| words.is_empty() || words.iter().any(|name| command.is_called(name));
    let found: Vec<&RespCommand> = COMMANDS.iter().filter(is_wanted).collect();
    let reply = &mut call.client.reply;
    reply.map(found.len());
    for command in found {
        reply.bulk(command.name);
        reply.map(3);
        let since = facts_of(command).map_or("", |facts| facts.since);
        for (name, value) in [("summary", command.summary), ("since", since), ("group", command.group)] {
            reply.bulk(name);
            reply.bulk(value);
        }
    }
}

fn list(call: &mut RespCall<'_, '_>) -> Outcome {
    let (words, mut pattern, mut group) = (&call.arguments[2..], None, None);
    match words {
        [] => {}
        [by, kind, value] if by.eq_ignore_ascii_case(b"filterby") => match kind.to_ascii_lowercase().as_slice() {
            b"pattern" => pattern = Some(*value),
            b"aclcat" => group = Some(*value),
            b"module" => pattern = Some(&b""[..]),
            _ => return Err(CommandError::SYNTAX),
        },
        _ => return Err(CommandError::SYNTAX),
    }
    let is_wanted = |command: &&RespCommand| {
        pattern.is_none_or(|pattern| glob::matches(pattern, command.name.as_bytes()))
            && group.is_none_or(|group| {
                facts_of(command)
                    .is_some_and(|facts| facts.categories.iter().any(|one| group.eq_ignore_ascii_case(one.as_bytes())))
            })
    };
    let found: Vec<&RespCommand> = COMMANDS.iter().filter(is_wanted).collect();
    call.client.reply.array(found.len());
    found.iter().for_each(|command| call.client.reply.bulk(command.name));
    Ok(())
}

fn get_keys(call: &mut RespCall<'_, '_>) -> Outcome {
    let request = &call.arguments[2..];
    let command = RespCommand::find(request[0]).ok_or(CommandError::words("ERR Invalid command specified"))?;
    if !command.takes(request.len()) {
        return Err(CommandError::words("ERR Invalid number of arguments specified for command"));
    }
    let keys: Vec<&[u8]> = command.keys_of(request).collect();
    if keys.is_empty() {
        return Err(CommandError::words("ERR The command has no key arguments"));
    }
    call.client.reply.array(keys.len());
    keys.iter().for_each(|key| call.client.reply.bulk(key));
    Ok(())
}

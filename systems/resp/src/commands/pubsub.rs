//! Channels. A message goes to those who listen at the moment, at this door and at those of other members.

use std::collections::BTreeSet;

use longarm_kv::{MOST_MESSAGE_BYTES, MemberMessages};

use super::Outcome;
use crate::client::RespClient;
use crate::door::{Door, RespCall, Subscribers};
use crate::error::CommandError;
use crate::glob;
use crate::nodes::DoorNodes;

/// Channels and patterns of one client, at most.
const MOST_SUBSCRIPTIONS: usize = 100_000;

/// The three sorts of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Channel,
    Pattern,
    Shard,
}

impl Sort {
    fn names(self, client: &mut RespClient) -> &mut BTreeSet<Vec<u8>> {
        match self {
            Sort::Channel => &mut client.channels,
            Sort::Pattern => &mut client.patterns,
            Sort::Shard => &mut client.shard_channels,
        }
    }

    fn subscribers(self, door: &mut Door) -> &mut Subscribers {
        match self {
            Sort::Channel => &mut door.channels,
            Sort::Pattern => &mut door.patterns,
            Sort::Shard => &mut door.shard_channels,
        }
    }

    fn count(self, client: &RespClient) -> usize {
        if self == Sort::Shard { client.shard_channels.len() } else { client.subscriptions() }
    }
}

fn subscribe_to(call: &mut RespCall<'_, '_>, sort: Sort, word: &str) -> Outcome {
    for name in &call.arguments[1..] {
        if sort.names(call.client).len() >= MOST_SUBSCRIPTIONS {
            return Err(CommandError::words("ERR too many subscriptions"));
        }
        if sort.names(call.client).insert(name.to_vec()) {
            sort.subscribers(call.door).entry(name.to_vec()).or_default().insert(call.client.id);
        }
        let count = sort.count(call.client);
        call.client.reply.push(3);
        call.client.reply.bulk(word);
        call.client.reply.bulk(name);
        call.client.reply.count(count);
    }
    Ok(())
}

fn unsubscribe_from(call: &mut RespCall<'_, '_>, sort: Sort, word: &str) -> Outcome {
    let names: Vec<Vec<u8>> = match &call.arguments[1..] {
        [] => sort.names(call.client).iter().cloned().collect(),
        names => names.iter().map(|name| name.to_vec()).collect(),
    };
    for name in &names {
        if sort.names(call.client).remove(name) {
            let subscribers = sort.subscribers(call.door);
            if let Some(ids) = subscribers.get_mut(name) {
                ids.remove(&call.client.id);
                if ids.is_empty() {
                    subscribers.remove(name);
                }
            }
        }
        tell_unsubscribed(call, sort, word, Some(name));
    }
    if names.is_empty() {
        tell_unsubscribed(call, sort, word, None);
    }
    Ok(())
}

fn tell_unsubscribed(call: &mut RespCall<'_, '_>, sort: Sort, word: &str, name: Option<&[u8]>) {
    let count = sort.count(call.client);
    let reply = &mut call.client.reply;
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.count(count);
}

pub(crate) fn subscribe(call: &mut RespCall<'_, '_>) -> Outcome {
    subscribe_to(call, Sort::Channel, "subscribe")
}

pub(crate) fn psubscribe(call: &mut RespCall<'_, '_>) -> Outcome {
    subscribe_to(call, Sort::Pattern, "psubscribe")
}

pub(crate) fn ssubscribe(call: &mut RespCall<'_, '_>) -> Outcome {
    subscribe_to(call, Sort::Shard, "ssubscribe")
}

pub(crate) fn unsubscribe(call: &mut RespCall<'_, '_>) -> Outcome {
    unsubscribe_from(call, Sort::Channel, "unsubscribe")
}

pub(crate) fn punsubscribe(call: &mut RespCall<'_, '_>) -> Outcome {
    unsubscribe_from(call, Sort::Pattern, "punsubscribe")
}

pub(crate) fn sunsubscribe(call: &mut RespCall<'_, '_>) -> Outcome {
    unsubscribe_from(call, Sort::Shard, "sunsubscribe")
}

/// Sends a message to one client, which may be the one whose request is executed.
fn deliver(door: &mut Door, current: Option<&mut RespClient>, id: u64, parts: &[&[u8]]) {
    let client = match (door.clients.get_mut(&id), current) {
        (Some(client), _) => {
            door.touched.push(id);
            client
        }
        (None, Some(current)) if current.id == id => current,
        _ => return,
    };
    client.reply.push(parts.len());
    parts.iter().for_each(|part| client.reply.bulk(part));
}

/// Sends a message to all clients of this door that listen to a channel. Returns their number.
fn spread(door: &mut Door, mut current: Option<&mut RespClient>, channel: &[u8], message: &[u8]) -> usize {
    let direct: Vec<u64> = door.channels.get(channel).into_iter().flatten().copied().collect();
    let fits = |(pattern, _): &(&Vec<u8>, &BTreeSet<u64>)| glob::matches(pattern, channel);
    let matching = door.patterns.iter().filter(fits);
    let patterns: Vec<(Vec<u8>, Vec<u64>)> =
        matching.map(|(pattern, ids)| (pattern.clone(), ids.iter().copied().collect())).collect();
    let mut receivers = direct.len();
    for id in direct {
        deliver(door, current.as_deref_mut(), id, &[b"message", channel, message]);
    }
    for (pattern, ids) in &patterns {
        receivers += ids.len();
        for id in ids {
            deliver(door, current.as_deref_mut(), *id, &[b"pmessage", pattern, channel, message]);
        }
    }
    receivers
}

/// Sends the messages of other members' doors to the clients of this one.
pub(crate) fn spread_from_others(door: &mut Door) {
    let messages = door.messages.as_ref().map(MemberMessages::take).unwrap_or_default();
    for both in messages {
        if let Some((channel, message)) = split(&both) {
            spread(door, None, channel, message);
        }
    }
}

/// Channel and message, as doors tell each other.
fn join(channel: &[u8], message: &[u8]) -> Vec<u8> {
    [&(channel.len() as u32).to_le_bytes(), channel, message].concat()
}

fn split(both: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = both.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

pub(crate) fn publish(call: &mut RespCall<'_, '_>) -> Outcome {
    let (channel, message) = (call.arguments[1], call.arguments[2]);
    if call.door.nodes.as_ref().is_some_and(DoorNodes::has_others) {
        match &call.door.messages {
            Some(others) if others.send(&join(channel, message)) => {}
            Some(_) => {
                return Err(CommandError::text(format!(
                    "ERR other nodes of this cluster take messages of {MOST_MESSAGE_BYTES} bytes at most, channel included"
                )));
            }
            // The clients of other doors would miss the message.
            None => {
                return Err(CommandError::words(
                    "ERR PUBLISH does not reach other nodes of this cluster: use SPUBLISH",
                ));
            }
        }
    }
    let receivers = spread(call.door, Some(&mut *call.client), channel, message);
    call.client.reply.count(receivers);
    Ok(())
}

pub(crate) fn spublish(call: &mut RespCall<'_, '_>) -> Outcome {
    let (channel, message) = (call.arguments[1], call.arguments[2]);
    let ids: Vec<u64> = call.door.shard_channels.get(channel).into_iter().flatten().copied().collect();
    for id in &ids {
        deliver(call.door, Some(&mut *call.client), *id, &[b"smessage", channel, message]);
    }
    call.client.reply.count(ids.len());
    Ok(())
}

pub(crate) fn pubsub(call: &mut RespCall<'_, '_>) -> Outcome {
    let (door, reply, rest) = (&*call.door, &mut call.client.reply, &call.arguments[2..]);
    match call.arguments[1].to_ascii_lowercase().as_slice() {
        b"channels" if rest.len() <= 1 => channels(&door.channels, rest, reply),
        b"shardchannels" if rest.len() <= 1 => channels(&door.shard_channels, rest, reply),
        b"numsub" => numbers(&door.channels, rest, reply),
        b"shardnumsub" => numbers(&door.shard_channels, rest, reply),
        b"numpat" if rest.is_empty() => reply.count(door.patterns.len()),
        name @ (b"channels" | b"shardchannels" | b"numpat") => {
            return Err(CommandError::arity(&format!("pubsub|{}", String::from_utf8_lossy(name))));
        }
        _ => return Err(CommandError::subcommand("pubsub", call.arguments[1])),
    }
    Ok(())
}

fn channels(subscribers: &Subscribers, pattern: &[&[u8]], reply: &mut crate::reply::RespReply) {
    let fits = |name: &&Vec<u8>| pattern.first().is_none_or(|pattern| glob::matches(pattern, name));
    let names: Vec<&Vec<u8>> = subscribers.keys().filter(fits).collect();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
}

fn numbers(subscribers: &Subscribers, names: &[&[u8]], reply: &mut crate::reply::RespReply) {
    reply.array(names.len() * 2);
    for name in names {
        reply.bulk(name);
        reply.count(subscribers.get(*name).map_or(0, BTreeSet::len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_from_what_doors_tell_each_other() {
        for (channel, message) in [(&b"news"[..], &b"hello"[..]), (b"", b"x"), (b"x", b""), (b"", b"")] {
            assert_eq!(split(&join(channel, message)), Some((channel, message)));
        }
        assert_eq!([split(b""), split(b"\x02\0\0\0x"), split(b"\xff\xff\xff\xff")], [None; 3]);
    }
}

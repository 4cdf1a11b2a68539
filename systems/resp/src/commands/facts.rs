//! Facts about commands that `COMMAND` tells: those of Redis 7.0. Clients of clusters choose servers by them. A test compares them
//! with a real Redis.

/// Facts about one command.
pub(crate) struct CommandFacts {
    pub(crate) name: &'static str,
    /// The version of Redis that had it first.
    pub(crate) since: &'static str,
    /// Categories of access control lists.
    pub(crate) categories: &'static [&'static str],
    /// Tips for clients of clusters.
    pub(crate) tips: &'static [&'static str],
    pub(crate) keys: &'static [KeySpec],
}

/// A range of keys in a request.
pub(crate) struct KeySpec {
    pub(crate) notes: &'static str,
    pub(crate) flags: &'static [&'static str],
    /// The place of the first key.
    pub(crate) first: i64,
    /// The last one counted from the first one, or from the end if negative.
    pub(crate) last: i64,
    pub(crate) step: i64,
}

const fn spec(notes: &'static str, flags: &'static [&'static str], first: i64, last: i64, step: i64) -> KeySpec {
    KeySpec { notes, flags, first, last, step }
}

const fn facts(
    name: &'static str,
    since: &'static str,
    categories: &'static [&'static str],
    tips: &'static [&'static str],
    keys: &'static [KeySpec],
) -> CommandFacts {
    CommandFacts { name, since, categories, tips, keys }
}

/// One for each command, in the same order.
#[rustfmt::skip]
pub(crate) static FACTS: [CommandFacts; super::table::COMMANDS.len()] = [
    facts("append", "2.0.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "insert"], 1, 0, 1)]),
    facts("asking", "3.0.0", &["fast", "connection"], &[], &[]),
    facts("auth", "1.0.0", &["fast", "connection"], &[], &[]),
    facts("client", "2.4.0", &["slow"], &[], &[]),
    facts("cluster", "3.0.0", &["slow"], &[], &[]),
    facts("command", "2.8.13", &["slow", "connection"], &["nondeterministic_output_order"], &[]),
    facts("config", "2.0.0", &["slow"], &[], &[]),
    facts("copy", "6.2.0", &["keyspace", "write", "slow"], &[], &[spec("", &["RO", "access"], 1, 0, 1), spec("", &["OW", "update"], 2, 0, 1)]),
    facts("dbsize", "1.0.0", &["keyspace", "read", "fast"], &["request_policy:all_shards", "response_policy:agg_sum"], &[]),
    facts("debug", "1.0.0", &["admin", "slow", "dangerous"], &[], &[]),
    facts("decr", "1.0.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "update"], 1, 0, 1)]),
    facts("decrby", "1.0.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "update"], 1, 0, 1)]),
    facts("del", "1.0.0", &["keyspace", "write", "slow"], &["request_policy:multi_shard", "response_policy:agg_sum"], &[spec("", &["RM", "delete"], 1, -1, 1)]),
    facts("discard", "2.0.0", &["fast", "transaction"], &[], &[]),
    facts("echo", "1.0.0", &["fast", "connection"], &[], &[]),
    facts("exec", "1.2.0", &["slow", "transaction"], &[], &[]),
    facts("exists", "1.0.0", &["keyspace", "read", "fast"], &["request_policy:multi_shard", "response_policy:agg_sum"], &[spec("", &["RO"], 1, -1, 1)]),
    facts("expire", "1.0.0", &["keyspace", "write", "fast"], &[], &[spec("", &["RW", "update"], 1, 0, 1)]),
    facts("expireat", "1.2.0", &["keyspace", "write", "fast"], &[], &[spec("", &["RW", "update"], 1, 0, 1)]),
    facts("expiretime", "7.0.0", &["keyspace", "read", "fast"], &[], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("flushall", "1.0.0", &["keyspace", "write", "slow", "dangerous"], &["request_policy:all_shards", "response_policy:all_succeeded"], &[]),
    facts("flushdb", "1.0.0", &["keyspace", "write", "slow", "dangerous"], &["request_policy:all_shards", "response_policy:all_succeeded"], &[]),
    facts("get", "1.0.0", &["read", "string", "fast"], &[], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("getdel", "6.2.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "delete"], 1, 0, 1)]),
    facts("getex", "6.2.0", &["write", "string", "fast"], &[], &[spec("RW and UPDATE because it changes the TTL", &["RW", "access", "update"], 1, 0, 1)]),
    facts("getrange", "2.4.0", &["read", "string", "slow"], &[], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("getset", "1.0.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "update"], 1, 0, 1)]),
    facts("hello", "6.0.0", &["fast", "connection"], &[], &[]),
    facts("incr", "1.0.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "update"], 1, 0, 1)]),
    facts("incrby", "1.0.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "update"], 1, 0, 1)]),
    facts("incrbyfloat", "2.6.0", &["write", "string", "fast"], &[], &[spec("", &["RW", "access", "update"], 1, 0, 1)]),
    facts("info", "1.0.0", &["slow", "dangerous"], &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"], &[]),
    facts("keys", "1.0.0", &["keyspace", "read", "slow", "dangerous"], &["request_policy:all_shards", "nondeterministic_output_order"], &[]),
    facts("memory", "4.0.0", &["slow"], &[], &[]),
    facts("mget", "1.0.0", &["read", "string", "fast"], &["request_policy:multi_shard"], &[spec("", &["RO", "access"], 1, -1, 1)]),
    facts("mset", "1.0.1", &["write", "string", "slow"], &["request_policy:multi_shard", "response_policy:all_succeeded"], &[spec("", &["OW", "update"], 1, -1, 2)]),
    facts("msetnx", "1.0.1", &["write", "string", "slow"], &["request_policy:multi_shard", "response_policy:agg_min"], &[spec("", &["OW", "insert"], 1, -1, 2)]),
    facts("multi", "1.2.0", &["fast", "transaction"], &[], &[]),
    facts("object", "2.2.3", &["slow"], &[], &[]),
    facts("persist", "2.2.0", &["keyspace", "write", "fast"], &[], &[spec("", &["RW", "update"], 1, 0, 1)]),
    facts("pexpire", "2.6.0", &["keyspace", "write", "fast"], &[], &[spec("", &["RW", "update"], 1, 0, 1)]),
    facts("pexpireat", "2.6.0", &["keyspace", "write", "fast"], &[], &[spec("", &["RW", "update"], 1, 0, 1)]),
    facts("pexpiretime", "7.0.0", &["keyspace", "read", "fast"], &[], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("ping", "1.0.0", &["fast", "connection"], &["request_policy:all_shards", "response_policy:all_succeeded"], &[]),
    facts("psetex", "2.6.0", &["write", "string", "slow"], &[], &[spec("", &["OW", "update"], 1, 0, 1)]),
    facts("psubscribe", "2.0.0", &["pubsub", "slow"], &[], &[]),
    facts("pttl", "2.6.0", &["keyspace", "read", "fast"], &["nondeterministic_output"], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("publish", "2.0.0", &["pubsub", "fast"], &[], &[]),
    facts("pubsub", "2.8.0", &["slow"], &[], &[]),
    facts("punsubscribe", "2.0.0", &["pubsub", "slow"], &[], &[]),
    facts("quit", "1.0.0", &["fast", "connection"], &[], &[]),
    facts("randomkey", "1.0.0", &["keyspace", "read", "slow"], &["request_policy:all_shards", "nondeterministic_output"], &[]),
    facts("readonly", "3.0.0", &["fast", "connection"], &[], &[]),
    facts("readwrite", "3.0.0", &["fast", "connection"], &[], &[]),
    facts("rename", "1.0.0", &["keyspace", "write", "slow"], &[], &[spec("", &["RW", "access", "delete"], 1, 0, 1), spec("", &["OW", "update"], 2, 0, 1)]),
    facts("renamenx", "1.0.0", &["keyspace", "write", "fast"], &[], &[spec("", &["RW", "access", "delete"], 1, 0, 1), spec("", &["OW", "insert"], 2, 0, 1)]),
    facts("reset", "6.2.0", &["fast", "connection"], &[], &[]),
    facts("scan", "2.8.0", &["keyspace", "read", "slow"], &["nondeterministic_output", "request_policy:special"], &[]),
    facts("select", "1.0.0", &["fast", "connection"], &[], &[]),
    facts("set", "1.0.0", &["write", "string", "slow"], &[], &[spec("RW and ACCESS due to the optional `GET` argument", &["RW", "access", "update", "variable_flags"], 1, 0, 1)]),
    facts("setex", "2.0.0", &["write", "string", "slow"], &[], &[spec("", &["OW", "update"], 1, 0, 1)]),
    facts("setnx", "1.0.0", &["write", "string", "fast"], &[], &[spec("", &["OW", "insert"], 1, 0, 1)]),
    facts("setrange", "2.2.0", &["write", "string", "slow"], &[], &[spec("", &["RW", "update"], 1, 0, 1)]),
    facts("spublish", "7.0.0", &["pubsub", "fast"], &[], &[spec("", &["not_key"], 1, 0, 1)]),
    facts("ssubscribe", "7.0.0", &["pubsub", "slow"], &[], &[spec("", &["not_key"], 1, -1, 1)]),
    facts("strlen", "2.2.0", &["read", "string", "fast"], &[], &[spec("", &["RO"], 1, 0, 1)]),
    facts("subscribe", "2.0.0", &["pubsub", "slow"], &[], &[]),
    facts("substr", "1.0.0", &["read", "string", "slow"], &[], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("sunsubscribe", "7.0.0", &["pubsub", "slow"], &[], &[spec("", &["not_key"], 1, -1, 1)]),
    facts("time", "2.6.0", &["fast"], &["nondeterministic_output"], &[]),
    facts("touch", "3.2.1", &["keyspace", "read", "fast"], &["request_policy:multi_shard", "response_policy:agg_sum"], &[spec("", &["RO"], 1, -1, 1)]),
    facts("ttl", "1.0.0", &["keyspace", "read", "fast"], &["nondeterministic_output"], &[spec("", &["RO", "access"], 1, 0, 1)]),
    facts("type", "1.0.0", &["keyspace", "read", "fast"], &[], &[spec("", &["RO"], 1, 0, 1)]),
    facts("unlink", "4.0.0", &["keyspace", "write", "fast"], &["request_policy:multi_shard", "response_policy:agg_sum"], &[spec("", &["RM", "delete"], 1, -1, 1)]),
    facts("unsubscribe", "2.0.0", &["pubsub", "slow"], &[], &[]),
    facts("unwatch", "2.2.0", &["fast", "transaction"], &[], &[]),
    facts("wait", "3.0.0", &["slow", "connection"], &["request_policy:all_shards", "response_policy:agg_min"], &[]),
    facts("watch", "2.2.0", &["fast", "transaction"], &[], &[spec("", &["RO"], 1, -1, 1)]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::COMMANDS;

    #[test]
    fn facts_are_those_of_the_commands() {
        for (facts, command) in FACTS.iter().zip(&COMMANDS) {
            assert_eq!(facts.name, command.name);
        }
    }
}

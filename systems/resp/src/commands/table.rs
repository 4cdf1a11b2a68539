//! All commands: names, numbers of arguments, places of keys.

use super::*;
use crate::door::RespCall;

/// A command. Documentation and `COMMAND` tell what stands here.
pub(crate) struct RespCommand {
    /// In small letters.
    pub(crate) name: &'static str,
    /// Arguments with the name; so many at least, if negative.
    pub(crate) arity: i64,
    pub(crate) flags: &'static [&'static str],
    /// The first key, the last one (from the end, if negative), and the step between them; zeros without keys.
    pub(crate) keys: (i64, i64, i64),
    pub(crate) group: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) run: fn(&mut RespCall<'_, '_>) -> Outcome,
}

impl RespCommand {
    /// The command of that name, in any letters.
    pub(crate) fn find(name: &[u8]) -> Option<&'static RespCommand> {
        let mut small = [0; LONGEST_NAME];
        let small = small.get_mut(..name.len())?;
        small.copy_from_slice(name);
        small.make_ascii_lowercase();
        let found = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(small)).ok()?;
        Some(&COMMANDS[found])
    }

    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(name)
    }

    /// True if it takes so many arguments, its name included.
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let arguments = arguments as i64;
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The keys of a request.
    pub(crate) fn keys_of<'a>(&self, request: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        self.places_of_keys(request.len()).map(|place| request[place])
    }

    /// The places of the keys in a request of so many arguments.
    pub(crate) fn places_of_keys(&self, len: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { len as i64 + last } else { last };
        let from = if first == 0 { len } else { first as usize };
        let to = (last + 1).clamp(0, len as i64) as usize;
        (from..to).step_by(step.max(1) as usize)
    }
}

/// The longest name of a command.
const LONGEST_NAME: usize = 16;

/// Shorthand of the table below.
const fn command(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    group: &'static str,
    run: fn(&mut RespCall<'_, '_>) -> Outcome,
    summary: &'static str,
) -> RespCommand {
    RespCommand { name, arity, flags, keys, group, summary, run }
}

/// All commands, by name.
#[rustfmt::skip]
pub(crate) static COMMANDS: [RespCommand; 78] = [
    command("append", 3, &["write", "denyoom", "fast"], (1, 1, 1), "string", strings::append, "Appends to a value"),
    command("asking", 1, &["fast"], (0, 0, 0), "cluster", cluster::of_clusters, "Changes nothing: nobody is told to ASK"),
    command("auth", -2, &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"], (0, 0, 0), "connection", connection::auth, "Proves the user"),
    command("client", -2, &["noscript", "loading", "stale"], (0, 0, 0), "connection", clients::client, "ID, GETNAME, SETNAME, SETINFO, INFO, LIST, KILL, NO-EVICT"),
    command("cluster", -2, &["stale"], (0, 0, 0), "cluster", cluster::cluster, "INFO, NODES, SLOTS, SHARDS, MYID, KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT, REPLICAS, LINKS"),
    command("command", -1, &["loading", "stale"], (0, 0, 0), "server", introspection::command, "COUNT, INFO, DOCS, LIST, GETKEYS"),
    command("config", -2, &["admin", "noscript", "loading", "stale"], (0, 0, 0), "server", config::config, "GET, SET (to the same value), RESETSTAT"),
    command("copy", -3, &["write", "denyoom"], (1, 2, 1), "generic", keys::copy, "Copies a value: REPLACE"),
    command("dbsize", 1, &["readonly", "fast"], (0, 0, 0), "server", keyspace::dbsize, "The number of keys"),
    command("debug", -2, &["admin", "noscript", "loading", "stale"], (0, 0, 0), "server", debug::debug, "Refused"),
    command("decr", 2, &["write", "denyoom", "fast"], (1, 1, 1), "string", counters::decr, "Takes one away"),
    command("decrby", 3, &["write", "denyoom", "fast"], (1, 1, 1), "string", counters::decrby, "Takes a whole number away"),
    command("del", -2, &["write"], (1, -1, 1), "generic", keys::del, "Deletes keys"),
    command("discard", 1, &["noscript", "loading", "stale", "fast", "allow_busy"], (0, 0, 0), "transactions", transactions::discard, "Forgets it"),
    command("echo", 2, &["loading", "stale", "fast"], (0, 0, 0), "connection", connection::echo, "The same text"),
    command("exec", 1, &["noscript", "loading", "stale", "skip_slowlog"], (0, 0, 0), "transactions", transactions::exec, "Executes it"),
    command("exists", -2, &["readonly", "fast"], (1, -1, 1), "generic", keys::exists, "Counts the keys that are there"),
    command("expire", -3, &["write", "fast"], (1, 1, 1), "generic", expiry::expire, "Sets the time to live in seconds: NX, XX, GT, LT"),
    command("expireat", -3, &["write", "fast"], (1, 1, 1), "generic", expiry::expireat, "Sets the time of the day of the expiry in seconds"),
    command("expiretime", 2, &["readonly", "fast"], (1, 1, 1), "generic", expiry::expiretime, "The time of the day of the expiry in seconds"),
    command("flushall", -1, &["write"], (0, 0, 0), "server", keyspace::flush, "Deletes all keys"),
    command("flushdb", -1, &["write"], (0, 0, 0), "server", keyspace::flush, "Deletes all keys"),
    command("get", 2, &["readonly", "fast"], (1, 1, 1), "string", strings::get, "The value of a key"),
    command("getdel", 2, &["write", "fast"], (1, 1, 1), "string", strings::getdel, "Tells a value and deletes the key"),
    command("getex", -2, &["write", "fast"], (1, 1, 1), "string", set::getex, "Tells a value and changes its expiry"),
    command("getrange", 4, &["readonly"], (1, 1, 1), "string", strings::getrange, "A part of a value"),
    command("getset", 3, &["write", "denyoom", "fast"], (1, 1, 1), "string", strings::getset, "Sets a value and tells the one before"),
    command("hello", -1, &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"], (0, 0, 0), "connection", connection::hello, "RESP2 or RESP3: AUTH, SETNAME"),
    command("incr", 2, &["write", "denyoom", "fast"], (1, 1, 1), "string", counters::incr, "Adds one"),
    command("incrby", 3, &["write", "denyoom", "fast"], (1, 1, 1), "string", counters::incrby, "Adds a whole number"),
    command("incrbyfloat", 3, &["write", "denyoom", "fast"], (1, 1, 1), "string", counters::incrbyfloat, "Adds a number with a fraction"),
    command("info", -1, &["loading", "stale"], (0, 0, 0), "server", info::info, "Figures of the server"),
    command("keys", 2, &["readonly"], (0, 0, 0), "generic", keyspace::keys, "The keys that match a pattern"),
    command("memory", -2, &["readonly"], (2, 2, 1), "server", keys::memory, "USAGE"),
    command("mget", -2, &["readonly", "fast"], (1, -1, 1), "string", strings::mget, "The values of several keys"),
    command("mset", -3, &["write", "denyoom"], (1, -1, 2), "string", strings::mset, "Sets several values"),
    command("msetnx", -3, &["write", "denyoom"], (1, -1, 2), "string", strings::msetnx, "Sets several values if all keys are absent"),
    command("multi", 1, &["noscript", "loading", "stale", "fast", "allow_busy"], (0, 0, 0), "transactions", transactions::multi, "Begins a transaction"),
    command("object", -2, &["readonly"], (2, 2, 1), "generic", keys::object, "ENCODING, REFCOUNT"),
    command("persist", 2, &["write", "fast"], (1, 1, 1), "generic", expiry::persist, "Takes the expiry away"),
    command("pexpire", -3, &["write", "fast"], (1, 1, 1), "generic", expiry::pexpire, "Sets the time to live in milliseconds"),
    command("pexpireat", -3, &["write", "fast"], (1, 1, 1), "generic", expiry::pexpireat, "Sets the time of the day of the expiry in milliseconds"),
    command("pexpiretime", 2, &["readonly", "fast"], (1, 1, 1), "generic", expiry::pexpiretime, "The time of the day of the expiry in milliseconds"),
    command("ping", -1, &["fast"], (0, 0, 0), "connection", connection::ping, "PONG"),
    command("psetex", 4, &["write", "denyoom"], (1, 1, 1), "string", strings::psetex, "Sets a value and its time to live in milliseconds"),
    command("psubscribe", -2, &["pubsub", "noscript", "loading", "stale"], (0, 0, 0), "pubsub", pubsub::psubscribe, "Listens to channels that match patterns"),
    command("pttl", 2, &["readonly", "fast"], (1, 1, 1), "generic", expiry::pttl, "The time to live in milliseconds"),
    command("publish", 3, &["pubsub", "loading", "stale", "fast"], (0, 0, 0), "pubsub", pubsub::publish, "Sends a message to a channel"),
    command("pubsub", -2, &["pubsub", "loading", "stale"], (0, 0, 0), "pubsub", pubsub::pubsub, "CHANNELS, NUMSUB, NUMPAT, SHARDCHANNELS, SHARDNUMSUB"),
    command("punsubscribe", -1, &["pubsub", "noscript", "loading", "stale"], (0, 0, 0), "pubsub", pubsub::punsubscribe, "Listens no more to patterns"),
    command("quit", -1, &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"], (0, 0, 0), "connection", connection::quit, "Ends the connection"),
    command("randomkey", 1, &["readonly"], (0, 0, 0), "generic", keyspace::randomkey, "A key"),
    command("readonly", 1, &["loading", "stale", "fast"], (0, 0, 0), "cluster", cluster::of_clusters, "Changes nothing: there are no replicas"),
    command("readwrite", 1, &["loading", "stale", "fast"], (0, 0, 0), "cluster", cluster::of_clusters, "Changes nothing: there are no replicas"),
    command("rename", 3, &["write"], (1, 2, 1), "generic", keys::rename, "Gives a value another key"),
    command("renamenx", 3, &["write", "fast"], (1, 2, 1), "generic", keys::renamenx, "Gives a value another key that is absent"),
    command("reset", 1, &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"], (0, 0, 0), "connection", connection::reset, "Forgets the state of the connection"),
    command("scan", -2, &["readonly"], (0, 0, 0), "generic", keyspace::scan, "Some keys: MATCH, COUNT, TYPE"),
    command("select", 2, &["loading", "stale", "fast"], (0, 0, 0), "connection", connection::select, "The table: 0 only"),
    command("set", -3, &["write", "denyoom"], (1, 1, 1), "string", set::set, "Sets a value: NX, XX, GET, EX, PX, EXAT, PXAT, KEEPTTL"),
    command("setex", 4, &["write", "denyoom"], (1, 1, 1), "string", strings::setex, "Sets a value and its time to live in seconds"),
    command("setnx", 3, &["write", "denyoom", "fast"], (1, 1, 1), "string", strings::setnx, "Sets a value if the key is absent"),
    command("setrange", 4, &["write", "denyoom"], (1, 1, 1), "string", strings::setrange, "Overwrites a part of a value"),
    command("spublish", 3, &["pubsub", "loading", "stale", "fast"], (1, 1, 1), "pubsub", pubsub::spublish, "Sends a message to a channel of the shard"),
    command("ssubscribe", -2, &["pubsub", "noscript", "loading", "stale"], (1, -1, 1), "pubsub", pubsub::ssubscribe, "Listens to channels of the shard"),
    command("strlen", 2, &["readonly", "fast"], (1, 1, 1), "string", strings::strlen, "The length of a value"),
    command("subscribe", -2, &["pubsub", "noscript", "loading", "stale"], (0, 0, 0), "pubsub", pubsub::subscribe, "Listens to channels"),
    command("substr", 4, &["readonly"], (1, 1, 1), "string", strings::getrange, "The old name of GETRANGE"),
    command("sunsubscribe", -1, &["pubsub", "noscript", "loading", "stale"], (1, -1, 1), "pubsub", pubsub::sunsubscribe, "Listens no more to channels of the shard"),
    command("time", 1, &["loading", "stale", "fast"], (0, 0, 0), "server", info::time, "The time of the day"),
    command("touch", -2, &["readonly", "fast"], (1, -1, 1), "generic", keys::exists, "Counts the keys that are there"),
    command("ttl", 2, &["readonly", "fast"], (1, 1, 1), "generic", expiry::ttl, "The time to live in seconds"),
    command("type", 2, &["readonly", "fast"], (1, 1, 1), "generic", keys::kind, "string, or none"),
    command("unlink", -2, &["write", "fast"], (1, -1, 1), "generic", keys::del, "Deletes keys"),
    command("unsubscribe", -1, &["pubsub", "noscript", "loading", "stale"], (0, 0, 0), "pubsub", pubsub::unsubscribe, "Listens no more to channels"),
    command("unwatch", 1, &["noscript", "loading", "stale", "fast", "allow_busy"], (0, 0, 0), "transactions", transactions::unwatch, "Forgets the watched keys"),
    command("wait", 3, &["noscript"], (0, 0, 0), "generic", info::wait, "The backups of this server's keys, at once: each has all that was answered"),
    command("watch", -2, &["noscript", "loading", "stale", "fast", "allow_busy"], (1, -1, 1), "transactions", transactions::watch, "The next transaction happens only if these keys stay the same"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in &COMMANDS {
            let found = RespCommand::find(command.name.to_uppercase().as_bytes()).expect(command.name);
            assert_eq!(found.name, command.name);
        }
        for wrong in ["", "gett", "ge", "a name longer than any command"] {
            assert!(RespCommand::find(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn keys_stand_where_the_table_says() {
        let keys = |request: &[&'static str]| -> Vec<Vec<u8>> {
            let request: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
            RespCommand::find(request[0]).unwrap().keys_of(&request).map(<[u8]>::to_vec).collect()
        };
        assert_eq!(keys(&["mset", "a", "1", "b", "2"]), [b"a", b"b"]);
        assert_eq!(keys(&["del", "a", "b", "c"]).len(), 3);
        assert_eq!(keys(&["copy", "a", "b", "replace"]), [b"a", b"b"]);
        assert_eq!(keys(&["object", "encoding", "k"]), [b"k"]);
        assert!(keys(&["ping"]).is_empty() && keys(&["object", "help"]).is_empty());
    }
}

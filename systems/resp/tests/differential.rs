//! The same requests to the door and to a real Redis: each reply has the same bytes.

mod support;

use longarm_resp::RespOptions;
use support::{DOOR, OpenDoor, REDIS, Raw, encode, redis, redis_with, with_hub};

/// Requests of each run.
const REQUESTS: usize = 30_000;

struct Both {
    door: Raw,
    redis: Raw,
    journal: Vec<String>,
}

impl Both {
    fn connect() -> Both {
        Both { door: Raw::connect(DOOR), redis: Raw::connect(REDIS), journal: Vec::new() }
    }

    /// Sends one request to both, and compares what `of_interest` makes of the replies.
    fn compare(&mut self, request: &[Vec<u8>], of_interest: fn(Vec<u8>) -> Vec<u8>) {
        self.door.send(request);
        self.redis.send(request);
        let words: Vec<String> = request.iter().map(|word| word.escape_ascii().to_string()).collect();
        self.journal.push(words.join(" "));
        let (door, redis) = (self.door.reply().map(of_interest), self.redis.reply().map(of_interest));
        if door != redis {
            let show = |reply: &Option<Vec<u8>>| reply.as_ref().map(|reply| reply.escape_ascii().to_string());
            let last = &self.journal[self.journal.len().saturating_sub(12)..];
            panic!("{}\n  door: {:?}\n redis: {:?}", last.join("\n"), show(&door), show(&redis));
        }
    }

    fn same(&mut self, words: &[&str]) {
        let request: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.compare(&request, |reply| reply);
    }
}

/// The lines of a reply in order: sets of keys come in any.
fn sorted(reply: Vec<u8>) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// A time to live that a tenth of a second does not change.
fn rounded(reply: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(reply).unwrap();
    match text.trim_end().strip_prefix(':').and_then(|digits| digits.parse::<i64>().ok()) {
        Some(number) if number > 0 => b"a time".to_vec(),
        _ => text.into_bytes(),
    }
}

struct Generator(fastrand::Rng);

impl Generator {
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.0.usize(..words.len())]
    }

    fn key(&mut self) -> String {
        format!("key:{}", self.0.u8(..12))
    }

    fn number(&mut self) -> String {
        match self.0.u8(..12) {
            0 => self
                .pick(&[
                    "",
                    "abc",
                    "1.5",
                    " 1",
                    "01",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "99999999999999999999",
                ])
                .into(),
            1 => self.0.i64(..).to_string(),
            _ => self.0.i64(-20..200).to_string(),
        }
    }

    fn float(&mut self) -> String {
        match self.0.u8(..8) {
            0 => self.pick(&["", "nope", "nan", "inf", "1e400", "5.0e3", "-0.0", ".5", "1e-20"]).into(),
            1 => (self.0.i32(..)).to_string(),
            _ => format!("{:.*}", self.0.usize(1..6), (self.0.f64() - 0.5) * 1000.0),
        }
    }

    fn value(&mut self) -> String {
        match self.0.u8(..5) {
            0 => self.number(),
            1 => self.float(),
            2 => "v".repeat(self.0.usize(..100)),
            _ => format!("value {}", self.0.u32(..)),
        }
    }

    /// Seconds or milliseconds far enough away, or wrong ones.
    fn time(&mut self) -> String {
        match self.0.u8(..6) {
            0 => self.pick(&["0", "-1", "x", "9223372036854775807", "-9223372036854775808", ""]).into(),
            _ => self.0.u32(1_000_000..2_000_000).to_string(),
        }
    }

    fn set_options(&mut self) -> Vec<String> {
        let mut options: Vec<String> = Vec::new();
        for _ in 0..self.0.u8(..4) {
            match self.0.u8(..8) {
                0..3 => {
                    options.push(self.pick(&["ex", "PX", "EXAT", "pxat", "Ex"]).into());
                    options.push(if options.last().unwrap().to_lowercase().ends_with("at") {
                        self.late()
                    } else {
                        self.time()
                    });
                }
                _ => options.push(self.pick(&["nx", "xx", "GET", "keepttl", "persist", "nonsense", "ex"]).into()),
            }
        }
        options
    }

    /// A time of the day after 2100, in seconds or milliseconds.
    fn late(&mut self) -> String {
        match self.0.u8(..6) {
            0 => self.time(),
            _ => (4_200_000_000_000 + self.0.i64(..1_000_000)).to_string(),
        }
    }

    fn request(&mut self) -> Vec<String> {
        let key = self.key();
        let name = self.pick(&NAMES);
        let mut request = vec![name.to_owned()];
        let more: Vec<String> = match name {
            "set" => [vec![key, self.value()], self.set_options()].concat(),
            "getex" => [vec![key], self.set_options()].concat(),
            "setex" | "psetex" => vec![key, self.time(), self.value()],
            "setnx" | "getset" | "append" => vec![key, self.value()],
            "getrange" | "substr" => vec![key, self.number(), self.number()],
            "setrange" => vec![key, self.0.i32(-3..300).to_string(), self.value()],
            "incrby" | "decrby" => vec![key, self.number()],
            "incrbyfloat" => vec![key, self.float()],
            "mset" | "msetnx" => {
                (0..self.0.usize(1..7)).map(|at| if at % 2 == 0 { self.key() } else { self.value() }).collect()
            }
            "mget" | "del" | "unlink" | "exists" | "touch" | "watch" => {
                (0..self.0.usize(..4)).map(|_| self.key()).collect()
            }
            "rename" | "renamenx" => vec![key, self.key()],
            "copy" => {
                let options = [vec![], vec!["replace".into()], vec!["db".into(), "0".into()], vec!["db".into()]];
                [vec![key, self.key()], options[self.0.usize(..4)].clone()].concat()
            }
            "expire" | "pexpire" => {
                let options =
                    (0..self.0.usize(..3)).map(|_| self.pick(&["nx", "XX", "gt", "LT", "zz"]).into()).collect();
                [vec![key, self.time()], options].concat()
            }
            "expireat" | "pexpireat" => vec![key, self.late()],
            "multi" | "exec" | "discard" | "unwatch" => vec![],
            _ => vec![key],
        };
        request.extend(more);
        request
    }
}

const NAMES: [&str; 52] = [
    "get",
    "get",
    "set",
    "set",
    "set",
    "setnx",
    "setex",
    "psetex",
    "getset",
    "getdel",
    "getex",
    "mget",
    "mset",
    "msetnx",
    "append",
    "strlen",
    "getrange",
    "substr",
    "setrange",
    "incr",
    "decr",
    "incrby",
    "decrby",
    "incrbyfloat",
    "incrbyfloat",
    "del",
    "unlink",
    "exists",
    "touch",
    "type",
    "rename",
    "renamenx",
    "copy",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "persist",
    "touch",
    "multi",
    "exec",
    "discard",
    "watch",
    "unwatch",
    "GET",
    "Set",
    "nonsense",
    "incr",
];

#[test]
fn random_requests_have_the_replies_of_redis() {
    with_hub("random_requests_have_the_replies_of_redis", || {
        let (_door, _redis) = (OpenDoor::new(Default::default()), redis());
        for seed in 0..3 {
            let mut both = Both::connect();
            if seed == 1 {
                both.compare(&[b"HELLO".to_vec(), b"3".to_vec()], |reply| reply[..4].to_vec());
            }
            let mut generator = Generator(fastrand::Rng::with_seed(seed));
            for number in 0..REQUESTS {
                let mut request = generator.request();
                if generator.0.u8(..50) == 0 {
                    request.truncate(1);
                }
                let is_time = ["pttl", "ttl"].contains(&request[0].as_str()) || request[0].contains("expiretime");
                let request: Vec<Vec<u8>> = request.into_iter().map(String::into_bytes).collect();
                // In a transaction's replies, times may differ by a millisecond.
                both.compare(&request, if is_time { rounded } else { without_times });
                if number % 500 == 0 {
                    both.compare(&[b"DISCARD".to_vec()], |_| Vec::new());
                    both.compare(&[b"KEYS".to_vec(), b"*".to_vec()], sorted);
                }
                if number % 5000 == 0 {
                    both.same(&["FLUSHALL"]);
                }
            }
        }
    });
}

#[test]
fn pipelines_in_any_pieces_have_the_replies_of_redis() {
    with_hub("pipelines_in_any_pieces_have_the_replies_of_redis", || {
        let (_door, _redis) = (OpenDoor::new(Default::default()), redis());
        let (mut both, mut generator) = (Both::connect(), Generator(fastrand::Rng::with_seed(11)));
        for _ in 0..300 {
            let requests: Vec<Vec<String>> = (0..generator.0.usize(1..60)).map(|_| generator.request()).collect();
            let encoded = requests.iter().map(|request| {
                let words: Vec<Vec<u8>> = request.iter().map(|word| word.as_bytes().to_vec()).collect();
                // Lines of words are requests, too.
                if words.len() == 2 && generator.0.bool() && words.iter().all(|word| is_plain(word)) {
                    return [words.join(&b' '), b"\r\n".to_vec()].concat();
                }
                encode(&words)
            });
            let stream = encoded.collect::<Vec<_>>().concat();
            let mut rest = stream.as_slice();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(generator.0.usize(1..=rest.len()));
                both.door.send_bytes(piece).unwrap();
                rest = after;
            }
            both.redis.send_bytes(&stream).unwrap();
            for request in &requests {
                let is_time = ["pttl", "ttl"].contains(&request[0].as_str()) || request[0].contains("expiretime");
                let of_interest = if is_time { rounded } else { without_times };
                let (door, redis) = (both.door.reply().map(of_interest), both.redis.reply().map(of_interest));
                assert_eq!(door, redis, "{request:?} of {requests:?}");
            }
        }
    });
}

#[test]
fn a_cluster_of_one_node_has_the_replies_of_redis() {
    with_hub("a_cluster_of_one_node_has_the_replies_of_redis", || {
        let place = testkit::TestDir::new("resp-cluster-redis");
        let (dir, mut options) = (place.path().to_str().unwrap(), RespOptions::default());
        options.is_cluster = true;
        let (_door, _redis) = (OpenDoor::new(options), redis_with(&["--cluster-enabled", "yes", "--dir", dir]));
        let mut owner = Raw::connect(REDIS);
        assert_eq!(owner.ask(&["cluster", "addslotsrange", "0", "16383"]), "+OK\r\n");
        testkit::wait_until("Redis serves all slots", || owner.ask(&["cluster", "info"]).contains("cluster_state:ok"));
        let (mut both, mut generator) = (Both::connect(), Generator(fastrand::Rng::with_seed(5)));
        for number in 0..REQUESTS / 2 {
            let (mut request, has_tag) = (generator.request(), generator.0.bool());
            let keys = request.iter_mut().filter(|word| has_tag && word.starts_with("key:"));
            keys.for_each(|key| key.insert_str(0, "{tag}"));
            let is_time = ["pttl", "ttl"].contains(&request[0].as_str()) || request[0].contains("expiretime");
            let request: Vec<Vec<u8>> = request.into_iter().map(String::into_bytes).collect();
            both.compare(&request, if is_time { rounded } else { without_times });
            if number % 100 == 0 {
                both.compare(&[b"DISCARD".to_vec()], |_| Vec::new());
                // Redis removes keys whose time was over from the beginning when it looks at them.
                let keys: Vec<String> = (0..12).map(|number| format!("{{tag}}key:{number}")).collect();
                both.same(&[&["exists"], &keys.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
                both.compare(&["cluster".into(), "getkeysinslot".into(), "8338".into(), "100".into()], sorted);
            }
        }
        both.compare(&[b"DISCARD".to_vec()], |_| Vec::new());
        for line in OF_CLUSTERS.lines() {
            both.same(&line.split(' ').collect::<Vec<_>>());
        }
        for what in ["info", "nodes", "slots", "shards"] {
            both.compare(&["cluster".into(), what.into()], without_names);
        }
    });
}

const OF_CLUSTERS: &str = "\
readonly
readwrite
asking
readonly x
cluster keyslot {tag}key:1
cluster keyslot
cluster myid x
cluster links
cluster replicas nobody
cluster slaves nobody
cluster countkeysinslot 8338
cluster countkeysinslot 16384
cluster countkeysinslot x
cluster getkeysinslot 0 x
cluster getkeysinslot 16384 1
cluster getkeysinslot 1 -1
cluster nonsense
mset a 1 b 2
mset {x}a 1 {x}b 2
multi
mget a b
exec
multi
set a 1
set b 2
exec
get a
watch a b
publish news x
spublish news x
pubsub shardchannels";

/// Without what two nodes tell of themselves: ids, ports, and counts of messages and epochs.
fn without_names(reply: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(reply).unwrap();
    let is_id = |word: &str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let word = |word: &str| match word {
        word if is_id(word) => "ID".to_owned(),
        // Redis does not know its address before another node tells it.
        word if word.contains('@') => "PLACE".into(),
        "127.0.0.1" => String::new(),
        _ => word.replace("6390", "6379"),
    };
    let line = |line: &str| match line.split_once("epoch:").or(line.split_once("messages_")) {
        Some((name, _)) => name.to_owned(),
        None if line.contains("connected") => line
            .split(' ')
            .enumerate()
            .filter(|(at, _)| !(4..7).contains(at))
            .map(|(_, one)| word(one))
            .collect::<Vec<_>>()
            .join(" "),
        None => word(line),
    };
    // The length of a text differs with the numbers in it.
    text.split("\r\n").filter(|one| !one.starts_with('$')).map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

fn is_plain(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b':')
}

/// Replies with numbers of a million and more inside of an array become the same.
fn without_times(reply: Vec<u8>) -> Vec<u8> {
    if reply[0] != b'*' {
        return reply;
    }
    let text = String::from_utf8_lossy(&reply);
    let lines = text.split("\r\n").map(|line| match line.strip_prefix(':').map(str::len) {
        Some(6..) => ":a time",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

#[test]
fn commands_are_described_as_in_redis() {
    with_hub("commands_are_described_as_in_redis", || {
        let (_door, _redis) = (OpenDoor::new(Default::default()), redis());
        // These have subcommands, which the door does not describe.
        let containers = ["client", "cluster", "command", "config", "memory", "object", "pubsub", "debug"];
        for hello in ["2", "3"] {
            let mut both = Both::connect();
            both.compare(&[b"HELLO".to_vec(), hello.into()], |reply| reply[..1].to_vec());
            for (name, ..) in longarm_resp::commands().filter(|(name, ..)| !containers.contains(name)) {
                both.same(&["command", "info", name]);
            }
            both.same(&["command", "info", "nonsense", "get"]);
        }
    });
}

#[test]
fn odd_requests_have_the_replies_of_redis() {
    with_hub("odd_requests_have_the_replies_of_redis", || {
        let (_door, _redis) = (OpenDoor::new(Default::default()), redis());
        for hello in ["2", "3"] {
            let mut both = Both::connect();
            both.compare(&[b"HELLO".to_vec(), hello.into()], |reply| reply[..1].to_vec());
            for line in ODD.lines().filter(|line| !line.is_empty()) {
                both.same(&line.split(' ').collect::<Vec<_>>());
            }
            let long = "x".repeat(300);
            both.same(&[&long, &long]);
            both.same(&["foo", &"y".repeat(100), &"z".repeat(100)]);
            both.same(&["foo", "a\r\nb", "c\0d"]);
            both.same(&["f\0o", "a"]);
            both.same(&["object", &long]);
            both.same(&["flushall"]);
            both.same(&["randomkey"]);
            for number in 0..300 {
                both.same(&["set", &format!("k{number}"), "v"]);
            }
            both.same(&["dbsize"]);
            for pattern in ["*", "k1*", "k[1-3]?", "k[^1]", "\\k1", "*9*", "k?", "[a-", "k\\"] {
                both.compare(&["keys".into(), pattern.into()], sorted);
            }
            both.same(&["flushall"]);
        }
    });
}

const ODD: &str = "\
get
get a b
nonsense
nonsense a b c
set a
set a 1 ex
set a 1 ex 10 px 10
set a 1 nx xx
set a 1 keepttl ex 10
set a 1 get get
set a 1 ex 0
set a 1 px -5
setex a 0 v
psetex a -1 v
expire a 100 nx gt
expire a 100 gt lt
expire a 100 what
expire a x what
expire missing 5
set a 10
expire a 9223372036854775807
pexpire a 9223372036854775807
expire a -9223372036854775808
get a
set a 1 pxat 1
get a
exists a a a
set a 1
exists a a b
type a
type b
object encoding a
object encoding b
object
object nonsense a
object encoding
set big aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
object encoding big
set small hello
object encoding small
setrange a -1 x
setrange a 600000000 x
setrange missing 0 
setrange missing 5 hello
getrange missing 0 -1
incrbyfloat a 1.5
incrbyfloat a x
incrbyfloat small 1
set f 10.50
incrbyfloat f 0.1
incrbyfloat f -5
set f 5.0e3
incrbyfloat f 2.0e2
set f 3000.1
incrbyfloat f 0.1
incrbyfloat f 1e300
decrby a -9223372036854775808
rename missing a
renamenx missing a
rename a a
renamenx a a
copy a a
copy a b db 1x
copy missing b
copy a c
copy a c
copy a c replace
scan x
scan 0 count 0
scan 0 count x
scan 0 match
select 0
debug sleep 1
debug
select x
ping
ping a
ping a b
echo
echo a
multi
multi
set a
exec
multi
set a 2
incr a
incr small
exec
exec
discard
multi
watch a
discard
watch a
set a 3
multi
get a
exec
watch nothing
set nothing 1
del nothing
multi
get a
exec
subscribe
publish ch msg
publish ch
pubsub channels
pubsub numsub ch
pubsub numpat
pubsub nonsense
pubsub
hello 4
hello x
hello 2x
hello 3 setname
client getname
client setname a\tb
client setname name
client getname
client nonsense
client
client setname
client id x
client kill 1.2.3.4:5
client kill id x
client list type x
client no-evict
client no-evict maybe
client no-evict on
client no-evict off
auth x
auth x y z
auth default x
auth nobody x
config set nonsense 1
config get
config get nonsense
config nonsense
config get save
config get appendonly
command nonsense
command getkeys get a
command getkeys mset a 1 b 2
command getkeys nonsense
command getkeys ping
command getkeys get
command count x
memory usage missing
memory nonsense
cluster info
cluster nodes
cluster keyslot
wait 0 0
wait x 0
wait 0 x
wait 0 -1
time x
dbsize x
flushall now
flushdb async
";

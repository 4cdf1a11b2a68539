//! `longarm kv cli`: operations on a table, one by one.

use std::io::Write;
use std::ops::Bound;
use std::time::Duration;

use clap::Args;
use longarm_kv::{KvError, KvTable, KvVersion, PutExpiry, PutIf, TimeToLive};

use super::many::ShellTable;
use super::prompt;
use super::target::TableTarget;
use crate::error::Error;
use crate::sizes;

/// Keys of one step of a scan.
const SCAN: u32 = 1000;

pub(super) const COMMANDS: &str = "\
get KEY                              the value
getv KEY                             the version, then the value
mget KEY…                            several values, one for each line
set KEY VALUE [ex SECONDS] [nx|xx]   put a value; nx: only if absent, xx: only if present
cas KEY VERSION VALUE                put a value if the key still has this version
del KEY…                             delete keys; prints how many were there
incr KEY [BY], decr KEY [BY]         add to a counter
expire KEY SECONDS, persist KEY      let a key expire, or stay
ttl KEY                              seconds that a key has left; -1: it stays, -2: it is absent
scan [PREFIX]                        all keys, in no order
range FROM TO [LIMIT]                keys of a tree from FROM to the one before TO, in order, each with its value; - and + stand
                                     for the lowest and the highest key
figures, clients                     of the table
help, quit";

/// Use a table: one command, or a prompt without one
#[derive(Args, Debug)]
#[command(after_help = COMMANDS)]
pub(super) struct KvCliArgs {
    #[command(flatten)]
    target: TableTarget,
    /// The command with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// `longarm kv cli`
pub(super) fn run(args: &KvCliArgs) -> Result<(), Error> {
    let mut table = ShellTable::open(&args.target)?;
    if args.command.is_empty() {
        return prompt::run(&mut table, &args.target.server);
    }
    let words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    table.execute(&words)
}

/// Executes one command, and prints its result.
pub(super) fn execute(table: &mut KvTable, words: &[&str]) -> Result<(), Error> {
    let command = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    match (command.as_str(), &words[words.len().min(1)..]) {
        ("get", [key]) => print_value(table.get(key.as_bytes())?.map(|value| value.bytes).as_deref()),
        ("getv", [key]) => {
            let value = table.get(key.as_bytes())?;
            if let Some(value) = &value {
                println!("{}", value.version);
            }
            print_value(value.as_ref().map(|value| value.bytes.as_slice()))
        }
        ("mget", keys @ [_, ..]) => {
            let mut values = vec![None; keys.len()];
            table.multi_get(keys, |number, found| values[number] = found.map(|(bytes, _)| bytes.to_vec()))?;
            values.iter().try_for_each(|value| print_value(value.as_deref()))
        }
        ("set", [key, value, rest @ ..]) => {
            let (condition, expiry) = conditions(rest)?;
            println!("{}", table.put_with(key.as_bytes(), value.as_bytes(), condition, expiry)?);
            Ok(())
        }
        ("cas", [key, version, value]) => {
            let wanted = KvVersion::parse(version).ok_or_else(|| usage(format!("{version} is no version")))?;
            println!("{}", table.compare_and_put(key.as_bytes(), value.as_bytes(), wanted)?);
            Ok(())
        }
        ("del", keys @ [_, ..]) => {
            let deleted: Result<Vec<bool>, KvError> = keys.iter().map(|key| table.delete(key.as_bytes())).collect();
            println!("{}", deleted?.iter().filter(|was_there| **was_there).count());
            Ok(())
        }
        ("incr" | "decr", [key, by @ ..]) if by.len() <= 1 => {
            let by = by.first().unwrap_or(&"1");
            let number: i64 = by.parse().map_err(|_| usage(format!("{by} is no number")))?;
            let signed = if command == "decr" { number.checked_neg() } else { Some(number) };
            let signed = signed.ok_or_else(|| usage(format!("{by} has no opposite")))?;
            println!("{}", table.add(key.as_bytes(), signed)?);
            Ok(())
        }
        ("expire", [key, after]) => {
            let after = sizes::seconds(after).map_err(usage)?;
            println!("{}", u8::from(table.expire(key.as_bytes(), after)?));
            Ok(())
        }
        ("persist", [key]) => {
            println!("{}", u8::from(table.persist(key.as_bytes())?));
            Ok(())
        }
        ("ttl", [key]) => {
            match table.time_to_live(key.as_bytes())? {
                None => println!("-2"),
                Some(TimeToLive::Forever) => println!("-1"),
                Some(TimeToLive::Left(left)) => println!("{:.3}", left.as_secs_f64()),
            }
            Ok(())
        }
        ("scan", prefix) if prefix.len() <= 1 => scan(table, prefix.first().unwrap_or(&"").as_bytes()),
        ("range", [from, to, limit @ ..]) if limit.len() <= 1 => range(table, from, to, limit.first()),
        ("figures", []) => {
            println!("{:#?}", table.figures()?);
            Ok(())
        }
        ("clients", []) => {
            for client in table.clients()? {
                let address = client.address.as_deref().unwrap_or("no connection for READs");
                let idle = Duration::from_nanos(client.idle_ns);
                println!("{}  {address}  last request {:.1} s ago", client.client, idle.as_secs_f64());
            }
            Ok(())
        }
        ("help", _) => {
            println!("{COMMANDS}");
            Ok(())
        }
        _ => Err(usage(format!("{:?} is no command with so many arguments; `help` lists them", words.join(" ")))),
    }
}

/// The words behind a value.
fn conditions(mut words: &[&str]) -> Result<(PutIf, PutExpiry), Error> {
    let (mut condition, mut expiry) = (PutIf::Always, PutExpiry::Never);
    loop {
        words = match words {
            [] => return Ok((condition, expiry)),
            [word, rest @ ..] if word.eq_ignore_ascii_case("nx") => {
                condition = PutIf::Absent;
                rest
            }
            [word, rest @ ..] if word.eq_ignore_ascii_case("xx") => {
                condition = PutIf::Present;
                rest
            }
            [word, after, rest @ ..] if word.eq_ignore_ascii_case("ex") => {
                let after = sizes::seconds(after).map_err(usage)?;
                expiry = PutExpiry::AfterNs(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
                rest
            }
            [word, ..] => return Err(usage(format!("{word}: behind a value stand ex SECONDS, nx or xx"))),
        };
    }
}

fn scan(table: &mut KvTable, prefix: &[u8]) -> Result<(), Error> {
    let mut cursor = 0;
    loop {
        let (keys, next) = table.scan(cursor, SCAN, prefix)?;
        keys.iter().try_for_each(|key| print_value(Some(key)))?;
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

fn range(table: &mut KvTable, from: &str, to: &str, limit: Option<&&str>) -> Result<(), Error> {
    let limit =
        limit.map_or(Ok(usize::MAX), |limit| limit.parse().map_err(|_| usage(format!("{limit} is no number"))))?;
    let end = if to == "+" { Bound::Unbounded } else { Bound::Excluded(to) };
    let mut printed = Ok(());
    table.range_each((Bound::Included(if from == "-" { "" } else { from }), end), limit, |key, value, _| {
        let line = [key, b"\t", value].concat();
        printed = std::mem::replace(&mut printed, Ok(())).and_then(|()| print_value(Some(&line)));
    })?;
    printed
}

/// Prints bytes as they are; an absent key is an error, so that scripts notice.
fn print_value(value: Option<&[u8]>) -> Result<(), Error> {
    let Some(value) = value else { return Err(Error::Usage("the key is absent".into())) };
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(value).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => crate::output::end_without_reader(),
        written => Ok(written?),
    }
}

fn usage(text: String) -> Error {
    Error::Usage(text)
}

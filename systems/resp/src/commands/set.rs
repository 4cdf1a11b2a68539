//! `SET` and `GETEX`, with their options.

use longarm_kv::{PutExpiry, PutIf};

use super::Outcome;
use super::expiry::ExpiryOption;
use crate::door::RespCall;
use crate::error::CommandError;

/// The options of a request.
#[derive(Default)]
struct SetOptions<'a> {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep: bool,
    persist: bool,
    expiry: Option<(ExpiryOption, &'a [u8])>,
}

impl<'a> SetOptions<'a> {
    fn parse(mut words: &'a [&'a [u8]], is_set: bool) -> Result<SetOptions<'a>, CommandError> {
        let mut options = SetOptions::default();
        while let [word, rest @ ..] = words {
            words = rest;
            // An option may come twice; two of these are one too many.
            let unit = options.expiry.map(|(unit, _)| unit);
            match word.to_ascii_lowercase().as_slice() {
                b"nx" if is_set && !options.if_present => options.if_absent = true,
                b"xx" if is_set && !options.if_absent => options.if_present = true,
                b"get" if is_set => options.get = true,
                b"keepttl" if is_set && unit.is_none() => options.keep = true,
                b"persist" if !is_set && unit.is_none() => options.persist = true,
                other if !options.keep && !options.persist && !words.is_empty() => {
                    let wanted = ExpiryOption::parse(other).ok_or(CommandError::SYNTAX)?;
                    if unit.is_some_and(|unit| unit != wanted) {
                        return Err(CommandError::SYNTAX);
                    }
                    options.expiry = Some((wanted, words[0]));
                    words = &words[1..];
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(options)
    }
}

pub(crate) fn set(call: &mut RespCall<'_, '_>) -> Outcome {
    let (key, value) = (call.arguments[1], call.arguments[2]);
    if call.arguments.len() == 3 {
        call.put(key, value, PutExpiry::Never)?;
        call.client.reply.ok();
        return Ok(());
    }
    let options = SetOptions::parse(&call.arguments[3..], true)?;
    let at = options.expiry.map(|(unit, number)| unit.at_ms(call, number, "set")).transpose()?;
    let before = match options.get {
        true => call.reply_value(key)?,
        false => call.table.head(key)?.is_some(),
    };
    let is_met = !(options.if_absent && before || options.if_present && !before);
    if is_met {
        match at {
            Some(at) => call.put_until(key, value, at)?,
            None => {
                let expiry = if options.keep { PutExpiry::Keep } else { PutExpiry::Never };
                call.put_if(key, value, PutIf::Always, expiry)?;
            }
        }
    }
    match (options.get, is_met) {
        (true, _) => {}
        (false, true) => call.client.reply.ok(),
        (false, false) => call.client.reply.null(),
    }
    Ok(())
}

pub(crate) fn getex(call: &mut RespCall<'_, '_>) -> Outcome {
    let key = call.arguments[1];
    let options = SetOptions::parse(&call.arguments[2..], false)?;
    if call.table.head(key)?.is_none() {
        call.client.reply.null();
        return Ok(());
    }
    let at = options.expiry.map(|(unit, number)| unit.at_ms(call, number, "getex")).transpose()?;
    call.reply_value(key)?;
    match at {
        Some(at) => call.expire_at(key, at),
        None if options.persist => call.expire(key, PutExpiry::Never),
        None => Ok(()),
    }
}

//! Commands on the time that keys live.

use longarm_kv::PutExpiry;

use super::Outcome;
use super::strings::integer;
use crate::door::RespCall;
use crate::error::CommandError;

/// The unit of an expiry, and the time from which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryOption {
    Seconds,
    Milliseconds,
    AtSeconds,
    AtMilliseconds,
}

impl ExpiryOption {
    pub(crate) fn parse(word: &[u8]) -> Option<ExpiryOption> {
        Some(match word {
            b"ex" => ExpiryOption::Seconds,
            b"px" => ExpiryOption::Milliseconds,
            b"exat" => ExpiryOption::AtSeconds,
            b"pxat" => ExpiryOption::AtMilliseconds,
            _ => return None,
        })
    }

    /// The time of the day in milliseconds; a number below one is no expiry here.
    pub(crate) fn at_ms(self, call: &RespCall<'_, '_>, number: &[u8], name: &str) -> Result<i64, CommandError> {
        let number = integer(number)?;
        if number <= 0 {
            return Err(invalid(name));
        }
        self.signed_ms(call, number, name)
    }

    fn signed_ms(self, call: &RespCall<'_, '_>, number: i64, name: &str) -> Result<i64, CommandError> {
        let is_seconds = matches!(self, ExpiryOption::Seconds | ExpiryOption::AtSeconds);
        let is_relative = matches!(self, ExpiryOption::Seconds | ExpiryOption::Milliseconds);
        let from = if is_relative { call.door.clock.unix_ms(call.table.now_ns()) } else { 0 };
        let number = number.checked_mul(if is_seconds { 1000 } else { 1 });
        number.and_then(|number| number.checked_add(from)).ok_or_else(|| invalid(name))
    }
}

fn invalid(name: &str) -> CommandError {
    CommandError::text(format!("ERR invalid expire time in '{name}' command"))
}

pub(crate) fn expire(call: &mut RespCall<'_, '_>) -> Outcome {
    change(call, ExpiryOption::Seconds, "expire")
}

pub(crate) fn pexpire(call: &mut RespCall<'_, '_>) -> Outcome {
    change(call, ExpiryOption::Milliseconds, "pexpire")
}

pub(crate) fn expireat(call: &mut RespCall<'_, '_>) -> Outcome {
    change(call, ExpiryOption::AtSeconds, "expireat")
}

pub(crate) fn pexpireat(call: &mut RespCall<'_, '_>) -> Outcome {
    change(call, ExpiryOption::AtMilliseconds, "pexpireat")
}

/// The state that the present expiry must be in.
#[derive(Default)]
struct ExpireIf {
    none: bool,
    some: bool,
    earlier: bool,
    later: bool,
}

impl ExpireIf {
    fn parse(words: &[&[u8]]) -> Result<ExpireIf, CommandError> {
        let mut wanted = ExpireIf::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => wanted.none = true,
                b"xx" => wanted.some = true,
                b"gt" => wanted.earlier = true,
                b"lt" => wanted.later = true,
                _ => return Err(CommandError([b"ERR Unsupported option ", *word].concat().into())),
            }
        }
        if wanted.none && (wanted.some || wanted.earlier || wanted.later) {
            let words = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(CommandError::words(words));
        }
        if wanted.earlier && wanted.later {
            return Err(CommandError::words("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(wanted)
    }

    /// `present` is the present expiry, if there is one. No expiry counts as an infinite one.
    fn is_met(&self, present: Option<i64>, at_ms: i64) -> bool {
        match present {
            Some(present) => !self.none && (!self.earlier || at_ms > present) && (!self.later || at_ms < present),
            None => !self.some && !self.earlier,
        }
    }
}

fn change(call: &mut RespCall<'_, '_>, option: ExpiryOption, name: &str) -> Outcome {
    let key = call.arguments[1];
    let wanted = ExpireIf::parse(&call.arguments[3..])?;
    let number = integer(call.arguments[2])?;
    let at_ms = option.signed_ms(call, number, name)?;
    let Some(head) = call.table.head(key)? else {
        call.client.reply.integer(0);
        return Ok(());
    };
    let present = (head.expires_ns != 0).then(|| call.door.clock.expiry_ms(head.expires_ns));
    let is_met = wanted.is_met(present, at_ms);
    if is_met {
        call.expire_at(key, at_ms)?;
    }
    call.client.reply.integer(i64::from(is_met));
    Ok(())
}

pub(crate) fn ttl(call: &mut RespCall<'_, '_>) -> Outcome {
    tell(call, 1000, true)
}

pub(crate) fn pttl(call: &mut RespCall<'_, '_>) -> Outcome {
    tell(call, 1, true)
}

pub(crate) fn expiretime(call: &mut RespCall<'_, '_>) -> Outcome {
    tell(call, 1000, false)
}

pub(crate) fn pexpiretime(call: &mut RespCall<'_, '_>) -> Outcome {
    tell(call, 1, false)
}

fn tell(call: &mut RespCall<'_, '_>, unit_ms: i64, is_relative: bool) -> Outcome {
    let number = match call.table.head(call.arguments[1])? {
        None => -2,
        Some(head) if head.expires_ns == 0 => -1,
        Some(head) => {
            let now_ms = if is_relative { call.door.clock.unix_ms(call.table.now_ns()) } else { 0 };
            let left = (call.door.clock.expiry_ms(head.expires_ns) - now_ms).max(0);
            // Redis rounds seconds.
            (left + unit_ms / 2) / unit_ms
        }
    };
    call.client.reply.integer(number);
    Ok(())
}

pub(crate) fn persist(call: &mut RespCall<'_, '_>) -> Outcome {
    let key = call.arguments[1];
    let expires = call.table.head(key)?.is_some_and(|head| head.expires_ns != 0);
    if expires {
        call.expire(key, PutExpiry::Never)?;
    }
    call.client.reply.integer(i64::from(expires));
    Ok(())
}

//! Errors of commands, in the words of Redis 7.0.

use std::borrow::Cow;

use longarm_kv::KvError;

/// The reason why a command is refused, with its code before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandError(pub(crate) Cow<'static, [u8]>);

impl CommandError {
    pub(crate) const SYNTAX: CommandError = CommandError::words("ERR syntax error");
    pub(crate) const NOT_INTEGER: CommandError = CommandError::words("ERR value is not an integer or out of range");
    pub(crate) const NOT_FLOAT: CommandError = CommandError::words("ERR value is not a valid float");
    pub(crate) const TOO_LONG: CommandError =
        CommandError::words("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    pub(crate) const DOWN: CommandError = CommandError::words("CLUSTERDOWN The cluster is down");
    pub(crate) const HANDING_OVER: CommandError =
        CommandError::words("TRYAGAIN The slot is being handed over to another node");

    pub(crate) const fn words(words: &'static str) -> CommandError {
        CommandError(Cow::Borrowed(words.as_bytes()))
    }

    pub(crate) fn text(text: String) -> CommandError {
        CommandError(Cow::Owned(text.into_bytes()))
    }

    pub(crate) fn arity(name: &str) -> CommandError {
        CommandError::text(format!("ERR wrong number of arguments for '{name}' command"))
    }

    pub(crate) fn subcommand(name: &str, subcommand: &[u8]) -> CommandError {
        let mut text = b"ERR unknown subcommand '".to_vec();
        text.extend_from_slice(c_string(subcommand, 128));
        text.extend_from_slice(format!("'. Try {} HELP.", name.to_uppercase()).as_bytes());
        CommandError(text.into())
    }

    /// The refusal of a command that does not exist. Redis shows up to 128 bytes of the arguments.
    pub(crate) fn unknown(request: &[&[u8]]) -> CommandError {
        let mut shown = Vec::new();
        for argument in &request[1..] {
            if shown.len() >= 128 {
                break;
            }
            let part = c_string(argument, 128 - shown.len());
            shown.push(b'\'');
            shown.extend_from_slice(part);
            shown.extend_from_slice(b"' ");
        }
        let mut text = b"ERR unknown command '".to_vec();
        text.extend_from_slice(c_string(request[0], 128));
        text.extend_from_slice(b"', with args beginning with: ");
        text.extend_from_slice(&shown);
        CommandError(text.into())
    }
}

/// As C prints it: up to so many bytes, and none from a zero on.
fn c_string(bytes: &[u8], most: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(most)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl From<KvError> for CommandError {
    fn from(error: KvError) -> CommandError {
        match error {
            KvError::Full(_) => CommandError::words("OOM command not allowed when used memory > 'maxmemory'."),
            other => CommandError::text(format!("ERR {other}")),
        }
    }
}

//! `DEBUG`, which Redis refuses as well unless a setting allows it.

use super::Outcome;
use crate::door::RespCall;
use crate::error::CommandError;

pub(crate) fn debug(_: &mut RespCall<'_, '_>) -> Outcome {
    Err(CommandError::words(concat!(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", ",
        "you can run it from a local connection, otherwise you need to set this option in the configuration file, ",
        "and then restart the server."
    )))
}

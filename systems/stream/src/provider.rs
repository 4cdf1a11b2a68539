//! The device below the streams, which is always Longarm's own.

use std::io::{self, ErrorKind};

use crate::error::StreamError;

/// The variable with which a user chooses the devices of Longarm's Rust API.
const VARIABLE: &str = "LONGARM_PROVIDER";
/// Its value for the devices of the system.
const SYSTEM: &str = "verbs";

/// Refuses to work if the user asks for the devices of the system.
///
/// # Errors
/// `Unsupported` then.
pub(crate) fn check() -> io::Result<()> {
    check_choice(guest::environment::text(VARIABLE).as_deref())
}

fn check_choice(choice: Option<&str>) -> io::Result<()> {
    if choice != Some(SYSTEM) {
        return Ok(());
    }
    let text = format!("byte streams run on Longarm's own devices only, and {VARIABLE}={SYSTEM} asks for the system's");
    Err(io::Error::new(ErrorKind::Unsupported, StreamError::new(text, libc::EOPNOTSUPP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_the_system_are_refused() {
        assert!(check_choice(None).is_ok() && check_choice(Some("longarm")).is_ok());
        let error = check_choice(Some("verbs")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("LONGARM_PROVIDER=verbs"), "{error}");
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<StreamError>());
        assert_eq!(cause.map(StreamError::errno), Some(libc::EOPNOTSUPP));
    }
}

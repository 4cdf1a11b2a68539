//! The library's log: silent unless `LONGARM_LOG` asks (`debug` says why a verb refused).

use std::sync::Once;

/// Starts it, once.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let environment = env_logger::Env::new().filter_or("LONGARM_LOG", "off");
        // A program that brings a logger of its own keeps it.
        let _ = env_logger::Builder::from_env(environment).try_init();
    });
}

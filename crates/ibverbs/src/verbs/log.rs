//! The library's log: silent unless `LONGARM_LOG` is set (`debug` says why a verb refused). One exception is logged
//! always: an error that makes every call fail, since programs cannot report it.

use std::io::Write;
use std::sync::Once;

use env_logger::Builder;

const VARIABLE: &str = "LONGARM_LOG";
/// The filter without the variable: errors of the process's connection to the hub.
const UNASKED: &str = "off,connect::process=error";

/// Starts it, once.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut builder = guest::environment::text(VARIABLE).map_or_else(unasked, |filters| asked(&filters));
        // A program that brings a logger of its own keeps it.
        let _ = builder.try_init();
    });
}

fn asked(filters: &str) -> Builder {
    let mut builder = Builder::new();
    builder.parse_filters(filters);
    builder
}

fn unasked() -> Builder {
    let mut builder = Builder::new();
    builder.parse_filters(UNASKED).format(|to, record| writeln!(to, "longarm: {}", record.args()));
    builder
}

//! The library's log: silent unless `LONGARM_LOG` asks (`debug` says why a verb refused), but for what makes every
//! call fail, which programs cannot say.

use std::io::Write;
use std::sync::Once;

use env_logger::Builder;

const VARIABLE: &str = "LONGARM_LOG";
/// What is said without being asked: that there is no hub.
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

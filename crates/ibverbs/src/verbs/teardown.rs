//! Notice of destroyed objects, for the connection manager, which closes devices that nothing uses.

use std::sync::OnceLock;

static LISTENER: OnceLock<fn()> = OnceLock::new();

/// Calls `listener` after each later [`object_destroyed`]. Only the first listener counts.
pub(crate) fn listen(listener: fn()) {
    let _ = LISTENER.set(listener);
}

/// A verb has destroyed an object, which may have been the last on its device.
pub(crate) fn object_destroyed() {
    if let Some(listener) = LISTENER.get() {
        listener();
    }
}

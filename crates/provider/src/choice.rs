//! The choice of a provider.

use std::sync::OnceLock;

use device::{OpenError, PortState, Provider};

/// The variable that chooses the provider.
const VARIABLE: &str = "LONGARM_PROVIDER";

/// The provider for callers that name none: that of the variable `LONGARM_PROVIDER`. Without it, `Verbs` if the system
/// has an RDMA device with an active port, and else `Longarm`.
///
/// A program under `longarm run` has Longarm's own library in the place of the system's: then it is `Longarm`.
///
/// # Errors
/// If the variable has another value than `verbs` or `longarm`.
pub fn preferred() -> Result<Provider, OpenError> {
    static PREFERRED: OnceLock<Provider> = OnceLock::new();
    if let Some(known) = PREFERRED.get() {
        return Ok(*known);
    }
    let provider = match of_environment()? {
        Some(provider) => provider,
        None if has_active_device() => Provider::Verbs,
        None => Provider::Longarm,
    };
    Ok(*PREFERRED.get_or_init(|| provider))
}

/// That of the variable `LONGARM_PROVIDER`, if it is set.
fn of_environment() -> Result<Option<Provider>, OpenError> {
    match guest::environment::text(VARIABLE).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|problem| OpenError::Environment { variable: VARIABLE, problem }),
    }
}

fn has_active_device() -> bool {
    verbs::Device::is_of_system() && verbs::Device::list().iter().any(|info| info.port.state == PortState::Active)
}

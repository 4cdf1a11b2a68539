//! The start of the engine: the hub, the environment, and the only instance in this process.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::time::Duration;

use ::faults::FaultPlan;
use guest::{environment, fork};
use hub::client::{AttachOptions, ShmOffer, attach};
use memory::{Adoption, Registry};
use parking_lot::Mutex;
use shm::{Export, MAX_SLOTS};

use crate::engine::{EngineParts, EngineRef, WeakEngine};
use crate::error::OpenError;
use crate::objects::counters::EngineCounters;
use crate::path::shm::LanePath;
use crate::schedule::background::wake_descriptor;

/// The number of slots that this process starts with: the number of cores on which it can receive
/// at once.
const SLOTS: &str = "LONGARM_SLOTS";
const FAULTS: &str = "LONGARM_FAULTS";
const CAPTURE: &str = "LONGARM_CAPTURE";
/// Whether peers on this host are reached by shared memory.
const LOCAL: &str = "LONGARM_LOCAL";
/// The registered memory of the program that is moved into a file that such peers can map.
const ADOPT: &str = "LONGARM_ADOPT";
/// Whether a poll that finds nothing may sleep while others want the processor.
const NAP: &str = "LONGARM_NAP";
/// The time for which a child waits for a lock that its parent may have held when it forked.
const FORK_WAIT: Duration = Duration::from_secs(20);

static ENGINE: Mutex<Option<WeakEngine>> = Mutex::new(None);

/// The engine of this process, started now if there is none. It lives as long as any object that belongs to it.
pub(crate) fn engine() -> Result<EngineRef, OpenError> {
    fork::watch();
    let mut place = ENGINE.try_lock_for(FORK_WAIT).ok_or(OpenError::Forked)?;
    if let Some(engine) = place.as_ref().and_then(WeakEngine::upgrade) {
        return Ok(engine);
    }
    let engine = start()?;
    *place = Some(engine.downgrade());
    at_exit();
    Ok(engine)
}

/// Whether the program has returned from `main` or called `exit`.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Whether this process, which has opened the device, is about to end: it has returned from `main` or called `exit`.
pub fn process_ends() -> bool {
    ENDS.load(Acquire)
}

/// Sends the deferred ACKs when the program returns from `main` or calls `exit` with queue pairs. Otherwise they would be
/// lost with the process.
#[allow(unsafe_code)]
fn at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn drain_at_exit() {
        ENDS.store(true, Release);
        // While a thread starts the engine there is nothing to send.
        let engine = ENGINE.try_lock().and_then(|place| place.as_ref().and_then(WeakEngine::upgrade));
        if let Some(engine) = engine.filter(|engine| engine.check().is_ok()) {
            engine.drain();
            engine.drain_all_qps();
        }
    }
    ONCE.call_once(|| {
        // SAFETY: the handler is a static function with the signature that `atexit` asks for. It does not unwind, and the
        // library that contains it is not unloaded.
        if unsafe { libc::atexit(drain_at_exit) } != 0 {
            log::warn!("peers may wait for ACKs when this program ends");
        }
    });
}

fn start() -> Result<EngineRef, OpenError> {
    let faults = faults_of_environment()?;
    let slots = slots_of_environment()?;
    let counters = EngineCounters::new().map_err(|error| std::io::Error::other(error.to_string()))?;
    let registry = Registry::from_entropy()?;
    let bell = wake_descriptor()?;
    // Faults from the environment are injected into packets.
    let shm = if is_on(LOCAL)? && !is_set(FAULTS) { shm_path(&registry) } else { None };
    // Memory that peers cannot map costs them a system call for each access.
    registry.set_adoption(if shm.is_some() { adoption_of_environment()? } else { Adoption::Never });
    let options = AttachOptions {
        counters: Some(Arc::clone(counters.page())),
        shm: shm.as_ref().map(|shm| shm_offer(shm, &bell)).transpose()?,
        ..AttachOptions::default()
    };
    let mut session = attach(&options)?;
    if slots > 1 {
        session.more_slots(slots - 1)?;
    }
    let sockets = session.slots().iter().map(|slot| {
        let socket = guest::copy(&slot.socket)?;
        Ok((slot.number, socket))
    });
    let parts = EngineParts {
        sockets: sockets.collect::<std::io::Result<_>>()?,
        devices: session.devices().to_vec(),
        session: Some(session),
        counters,
        registry,
        bell,
        shm,
        naps: is_on(NAP)?,
    };
    let engine = EngineRef::start(parts)?;
    engine.set_faults(faults);
    capture_of_environment(&engine)?;
    Ok(engine)
}

/// A switch that is on unless the environment says otherwise.
fn is_on(variable: &'static str) -> Result<bool, OpenError> {
    match environment::var_os(variable).unwrap_or_default().to_str() {
        Some("" | "on") => Ok(true),
        Some("off") => Ok(false),
        _ => Err(OpenError::Environment { variable, problem: "it is neither \"on\" nor \"off\"".into() }),
    }
}

fn adoption_of_environment() -> Result<Adoption, OpenError> {
    match environment::var_os(ADOPT).unwrap_or_default().to_str() {
        Some("" | "safe") => Ok(Adoption::Safe),
        Some("always") => Ok(Adoption::Always),
        Some("never" | "off") => Ok(Adoption::Never),
        _ => {
            let problem = "it is none of \"safe\", \"always\" and \"never\"".into();
            Err(OpenError::Environment { variable: ADOPT, problem })
        }
    }
}

fn is_set(variable: &str) -> bool {
    environment::value(variable).is_some()
}

/// The path to peers on this host. `None` if the system has no memory to share.
fn shm_path(registry: &Registry) -> Option<LanePath> {
    let made = Export::new(&registry.remote_keys()).and_then(LanePath::new);
    made.inspect_err(|error| log::warn!("peers on this host are reached by packets: {error}")).ok()
}

fn shm_offer(shm: &LanePath, wake: &OwnedFd) -> Result<ShmOffer, OpenError> {
    Ok(ShmOffer { export: shm.export.export().shared_fd(), wake: Arc::new(guest::copy(wake)?) })
}

/// The number of slots that this process starts with.
fn slots_of_environment() -> Result<u8, OpenError> {
    let Some(text) = environment::value(SLOTS) else { return Ok(1) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.filter(|number| (1..=MAX_SLOTS as u8).contains(number)).ok_or_else(|| OpenError::Environment {
        variable: SLOTS,
        problem: format!("it is not a number from 1 to {MAX_SLOTS}"),
    })
}

fn faults_of_environment() -> Result<Option<FaultPlan>, OpenError> {
    let Some(text) = environment::value(FAULTS) else { return Ok(None) };
    let fail = |problem: String| OpenError::Environment { variable: FAULTS, problem };
    let text = text.to_str().ok_or_else(|| fail("it is not text".into()))?;
    text.parse().map(Some).map_err(|error: ::faults::PlanError| fail(error.to_string()))
}

fn capture_of_environment(engine: &EngineRef) -> Result<(), OpenError> {
    let Some(path) = environment::value(CAPTURE) else { return Ok(()) };
    let started = engine.start_capture(Path::new(&path));
    let fail = |problem: String| OpenError::Environment { variable: CAPTURE, problem };
    let path = started.map_err(|error| fail(error.to_string()))?;
    log::info!("capturing to {}", path.display());
    Ok(())
}

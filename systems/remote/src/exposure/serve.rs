//! The memory process: it exposes the memory of a program on its word, and stays for the peers when the program has gone.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use longarm::{Access, MemoryRegion};

use crate::exposure::error::ExposureError;
use crate::exposure::keeper::{WindowKeeper, WindowSpec};
use crate::exposure::message::{FoundWindow, KeeperReply, KeeperRequest, KeeperSocket, WindowPlace};
use crate::exposure::name::NameHolder;

/// Time between two looks whether peers are still there.
const LOOK: Duration = Duration::from_millis(50);

/// Runs this process as the memory process of the program that started it ([`MemoryProcess`](crate::MemoryProcess)); the
/// socket to it is the standard input. Returns when nobody needs it any more.
///
/// # Errors
/// If the standard input is no such socket, or nobody can listen at the wanted address.
pub fn serve_memory() -> Result<(), ExposureError> {
    let socket = KeeperSocket(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((request, _)) = socket.receive(None)? else { return Ok(()) };
    let KeeperRequest::Start { host, port, name, linger_ms } = request else {
        return Err(ExposureError::process("the first message is not the one to start with"));
    };
    let started = start(&host, port, name.as_deref());
    let (keeper, name) = match started {
        Ok(started) => started,
        Err(error) => {
            socket.send(&KeeperReply::Refused(error.to_string()), None)?;
            return Err(error);
        }
    };
    socket.send(&KeeperReply::Started(keeper.local_addr().port()), None)?;
    let (keeper, stopping) = (Arc::new(keeper), Arc::new(AtomicBool::new(false)));
    let accepting = {
        let (keeper, stopping) = (Arc::clone(&keeper), Arc::clone(&stopping));
        thread::Builder::new().name("memory-accept".into()).spawn(move || accept(&keeper, name.as_ref(), &stopping))?
    };
    let mut exposed = ExposedMemory { keeper, regions: HashMap::new() };
    let served = exposed.serve(&socket);
    // The program has ended, or says nonsense: its peers are not to suffer from it.
    exposed.stay(Duration::from_millis(linger_ms));
    stopping.store(true, Ordering::Release);
    let _ = accepting.join();
    served
}

fn start(host: &str, port: u16, name: Option<&str>) -> Result<(WindowKeeper, Option<UnixListener>), ExposureError> {
    let name = name.map(|name| NameHolder::MemoryProcess.take(name)).transpose()?;
    if let Some(name) = &name {
        name.set_nonblocking(true)?;
    }
    Ok((WindowKeeper::bind(host, port)?, name))
}

fn accept(keeper: &WindowKeeper, name: Option<&UnixListener>, stopping: &AtomicBool) {
    while !stopping.load(Ordering::Acquire) {
        keeper.step(LOOK);
        // Callers only want to know who has the name.
        while name.is_some_and(|name| name.accept().is_ok()) {}
    }
}

struct ExposedMemory {
    keeper: Arc<WindowKeeper>,
    regions: HashMap<u32, Arc<MemoryRegion>>,
}

impl ExposedMemory {
    /// Carries requests out until the program has ended.
    fn serve(&mut self, socket: &KeeperSocket<OwnedFd>) -> Result<(), ExposureError> {
        while let Some((request, file)) = socket.receive(None)? {
            let reply = self.carry_out(request, file).unwrap_or_else(|error| KeeperReply::Refused(error.to_string()));
            match socket.send(&reply, None) {
                // The program ended while it waited.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                sent => sent?,
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, request: KeeperRequest, file: Option<OwnedFd>) -> Result<KeeperReply, ExposureError> {
        match request {
            KeeperRequest::Start { .. } => return Err(ExposureError::Refused("it has started".into())),
            KeeperRequest::Region { number, len_bytes } => self.expose(number, len_bytes, file)?,
            KeeperRequest::Allow(token) => self.keeper.allow(token)?,
            KeeperRequest::Open { token, window, place } => {
                let spec = self.spec(place)?;
                self.keeper.open(&token, window, spec)?;
            }
            KeeperRequest::Close { token, window } => self.keeper.close(&token, window),
            KeeperRequest::Revoke(token) => self.keeper.revoke(&token),
            KeeperRequest::Find { token, window } => {
                let found = self.keeper.find(&token, window);
                return Ok(KeeperReply::Found(found.map(|found| FoundWindow {
                    key: found.key.to_bytes().to_vec(),
                    peer: found.peer,
                    attempt: found.attempt,
                })));
            }
        }
        Ok(KeeperReply::Done)
    }

    fn expose(&mut self, number: u32, len_bytes: u64, file: Option<OwnedFd>) -> Result<(), ExposureError> {
        let refused = |why: String| ExposureError::Refused(why);
        let file = file.ok_or_else(|| refused("the region comes without its file".into()))?;
        let len = usize::try_from(len_bytes).map_err(|error| refused(error.to_string()))?;
        // Nobody gets the region's own key: rights come from windows.
        let region = self.keeper.domain().expose_file(file, len, Access::empty());
        let region = region.map_err(|error| refused(error.to_string()))?;
        if self.regions.contains_key(&number) {
            return Err(refused(format!("there is a region {number}")));
        }
        self.regions.insert(number, Arc::new(region));
        Ok(())
    }

    fn spec(&self, place: WindowPlace) -> Result<WindowSpec, ExposureError> {
        let region = self.regions.get(&place.region);
        let region = region.ok_or_else(|| ExposureError::Refused(format!("there is no region {}", place.region)))?;
        let access = Access::from_bits(place.access).ok_or_else(|| ExposureError::Refused("unknown rights".into()))?;
        Ok(WindowSpec { region: Arc::clone(region), range: place.start..place.end, access })
    }

    /// Goes on exposing the memory while a peer is connected, for so long at most.
    fn stay(&self, linger: Duration) {
        let until = Instant::now() + linger;
        while self.keeper.connected() > 0 && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}

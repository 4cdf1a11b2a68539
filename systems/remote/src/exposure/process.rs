//! The program's half of memory that another process exposes.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longarm::{Access, MemoryRegion, RemoteKey};
use parking_lot::Mutex;

use crate::exposure::error::ExposureError;
use crate::exposure::keeper::{ConnectionToken, OpenWindow};
use crate::exposure::message::{KeeperReply, KeeperRequest, KeeperSocket, WindowPlace};
use crate::exposure::name::{NameHolder, end_memory};

/// A memory process that does not answer for so long is ended, and another one started.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that a new one has to start.
const START: Duration = Duration::from_secs(30);

/// Settings of a [`MemoryProcess`].
#[derive(Clone, Debug)]
pub struct MemoryProcessOptions {
    /// The host, or another address, at which it listens for peers.
    pub host: String,
    /// The name by which the program's next life finds it, to end it: at most 48 bytes. Two programs that live cannot have
    /// one name. Without a name, peers of a dead program may read its memory beside a new one, for as long as `linger`.
    pub name: Option<String>,
    /// The time that it stays for peers that are connected when the program has been killed.
    pub linger: Duration,
}

impl Default for MemoryProcessOptions {
    fn default() -> MemoryProcessOptions {
        MemoryProcessOptions { host: "127.0.0.1".into(), name: None, linger: Duration::from_secs(600) }
    }
}

/// A window onto part of a region, by the region's number.
#[derive(Clone, Debug)]
pub struct ProcessWindow {
    /// The number that [`MemoryProcess::expose`] gave.
    pub region: u32,
    /// The part, in bytes.
    pub range: Range<u64>,
    /// The peer's rights.
    pub access: Access,
}

impl ProcessWindow {
    fn place(&self) -> WindowPlace {
        let Range { start, end } = self.range;
        WindowPlace { region: self.region, start, end, access: self.access.bits() }
    }
}

/// A process that exposes regions of this one to peers. They go on reading and writing while this process is stopped, and
/// after it was killed. Which peers may connect, and which windows they get, is decided here.
///
/// If it ends, another one is started by the next call, with the same regions, rights and port; so call
/// [`tend`](MemoryProcess::tend) from time to time. Dropping this ends the process.
pub struct MemoryProcess {
    state: Mutex<ExposingState>,
    /// The name, as long as the program lives.
    _name: Option<UnixListener>,
}

struct ExposingState {
    command: Command,
    options: MemoryProcessOptions,
    regions: Vec<(OwnedFd, u64)>,
    rights: HashMap<ConnectionToken, HashMap<u32, ProcessWindow>>,
    /// The port of the first process, for all after it.
    port: u16,
    running: Option<RunningProcess>,
    started: u64,
}

/// The socket goes first: the process sees that it is to end.
struct RunningProcess {
    socket: KeeperSocket<OwnedFd>,
    child: Child,
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl MemoryProcess {
    /// Starts the process by a command, whose program calls [`serve_memory`](crate::serve_memory). The command's standard input
    /// is the socket between the two. A memory process that an earlier life of this program has left under the same name
    /// is ended first.
    ///
    /// # Errors
    /// See [`ExposureError`].
    pub fn start(command: Command, options: MemoryProcessOptions) -> Result<MemoryProcess, ExposureError> {
        let name = options.name.as_deref().map(|name| NameHolder::Program.take(name)).transpose()?;
        if let Some(name) = &options.name {
            end_memory(name)?;
        }
        let mut state = ExposingState {
            command,
            options,
            regions: Vec::new(),
            rights: HashMap::new(),
            port: 0,
            running: None,
            started: 0,
        };
        state.run()?;
        Ok(MemoryProcess { state: Mutex::new(state), _name: name })
    }

    /// The port at which peers connect, with [`connection_data`](crate::connection_data).
    pub fn port(&self) -> u16 {
        self.state.lock().port
    }

    /// Processes that were started up to now: more than one if some have ended.
    pub fn started(&self) -> u64 {
        self.state.lock().started
    }

    /// The number of the process.
    pub fn id(&self) -> Option<u32> {
        self.state.lock().running.as_ref().map(|running| running.child.id())
    }

    /// Exposes a region by the process, and tells the region's number there.
    ///
    /// # Errors
    /// If the region has no [`file`](MemoryRegion::file), or the process refuses it.
    pub fn expose(&self, region: &MemoryRegion) -> Result<u32, ExposureError> {
        let (mut state, file, len_bytes) = (self.state.lock(), region.file()?, region.len_bytes());
        let number = u32::try_from(state.regions.len()).map_err(|error| ExposureError::Refused(error.to_string()))?;
        state.regions.push((file, len_bytes));
        let exposed = state.again(|state| state.expose(number as usize));
        if exposed.is_err() {
            state.regions.pop();
        }
        exposed.map(|()| number)
    }

    /// Lets a peer connect that has this token, and gives it these windows.
    ///
    /// # Errors
    /// If the process refuses it.
    pub fn allow(&self, token: ConnectionToken, windows: &[(u32, ProcessWindow)]) -> Result<(), ExposureError> {
        let mut state = self.state.lock();
        state.rights.insert(token, windows.iter().cloned().collect());
        let allowed = state.again(|state| state.allow(&token));
        if allowed.is_err() {
            state.rights.remove(&token);
        }
        allowed
    }

    /// Takes a right away. When this returns, keys of its windows are good for nothing: a process that does not do it is ended.
    pub fn revoke(&self, token: &ConnectionToken) {
        let mut state = self.state.lock();
        if state.rights.remove(token).is_some() {
            // A process that is started anew does not know the right.
            let _ = state.again(|state| state.call(&KeeperRequest::Revoke(*token), None).map(drop));
        }
    }

    /// The window of a peer's right, if the peer's connection stands.
    ///
    /// # Errors
    /// If there is no process now.
    pub fn find(&self, token: &ConnectionToken, window: u32) -> Result<Option<OpenWindow>, ExposureError> {
        let request = KeeperRequest::Find { token: *token, window };
        let KeeperReply::Found(found) = self.state.lock().again(|state| state.call(&request, None))? else {
            return Err(ExposureError::process("it gave another answer"));
        };
        let malformed = |error: longarm::KeyError| ExposureError::process(error.to_string());
        let known = found.map(|found| {
            let key = RemoteKey::from_bytes(&found.key).map_err(malformed)?;
            Ok(OpenWindow { key, peer: found.peer, attempt: found.attempt })
        });
        known.transpose()
    }

    /// Starts another process if this one has ended.
    ///
    /// # Errors
    /// If none can be started now: the next call tries it again.
    pub fn tend(&self) -> Result<(), ExposureError> {
        let mut state = self.state.lock();
        let has_ended = state.running.as_mut().is_none_or(|running| !matches!(running.child.try_wait(), Ok(None)));
        if has_ended { state.run() } else { Ok(()) }
    }
}

impl ExposingState {
    /// Starts a process that has all regions and rights.
    fn run(&mut self) -> Result<(), ExposureError> {
        self.running = None;
        let (socket, theirs) = KeeperSocket::pair()?;
        let child = self.command.stdin(Stdio::from(theirs)).spawn();
        // The command keeps the process's end of the socket otherwise, and nobody would see that the process has ended.
        self.command.stdin(Stdio::null());
        let running = RunningProcess { socket, child: child? };
        let MemoryProcessOptions { host, name, linger } = self.options.clone();
        let linger_ms = u64::try_from(linger.as_millis()).unwrap_or(u64::MAX);
        running.socket.send(&KeeperRequest::Start { host, port: self.port, name, linger_ms }, None)?;
        let KeeperReply::Started(port) = answer(&running.socket, START)? else {
            return Err(ExposureError::process("it gave another answer"));
        };
        (self.port, self.running) = (port, Some(running));
        self.started += 1;
        let told = self.tell_all();
        if told.is_err() {
            self.running = None;
        }
        told
    }

    fn tell_all(&mut self) -> Result<(), ExposureError> {
        (0..self.regions.len()).try_for_each(|number| self.expose(number))?;
        let tokens: Vec<ConnectionToken> = self.rights.keys().copied().collect();
        tokens.iter().try_for_each(|token| self.allow(token))
    }

    /// Does something with the process, and once more with another one if this one fails.
    fn again<T>(&mut self, act: impl Fn(&mut Self) -> Result<T, ExposureError>) -> Result<T, ExposureError> {
        match act(self) {
            Err(ExposureError::Process(_)) => {
                self.run()?;
                act(self)
            }
            done => done,
        }
    }

    fn expose(&mut self, number: usize) -> Result<(), ExposureError> {
        let (file, len_bytes) = &self.regions[number];
        let request = KeeperRequest::Region { number: number as u32, len_bytes: *len_bytes };
        self.exchange(&request, Some(file)).map(drop)
    }

    fn allow(&mut self, token: &ConnectionToken) -> Result<(), ExposureError> {
        self.call(&KeeperRequest::Allow(*token), None)?;
        let windows = self.rights.get(token).into_iter().flatten();
        let places: Vec<_> = windows.map(|(number, window)| (*number, window.place())).collect();
        for (window, place) in places {
            self.call(&KeeperRequest::Open { token: *token, window, place }, None)?;
        }
        Ok(())
    }

    fn call(&mut self, request: &KeeperRequest, file: Option<&OwnedFd>) -> Result<KeeperReply, ExposureError> {
        let outcome = self.exchange(request, file);
        if matches!(outcome, Err(ExposureError::Process(_))) {
            // Its answer may still come. The next process knows nothing of it.
            self.running = None;
        }
        outcome
    }

    fn exchange(&self, request: &KeeperRequest, file: Option<&OwnedFd>) -> Result<KeeperReply, ExposureError> {
        let running = self.running.as_ref().ok_or_else(|| ExposureError::process("there is none"))?;
        running.socket.send(request, file.map(AsFd::as_fd))?;
        answer(&running.socket, PATIENCE)
    }
}

fn answer(socket: &KeeperSocket<OwnedFd>, patience: Duration) -> Result<KeeperReply, ExposureError> {
    let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended");
    match socket.receive(Some(patience))?.ok_or_else(gone)?.0 {
        KeeperReply::Refused(why) => Err(ExposureError::Refused(why)),
        reply => Ok(reply),
    }
}

impl Drop for MemoryProcess {
    /// Ends the process. (When the program is killed, this does not run, and the process stays for its peers.)
    fn drop(&mut self) {
        self.state.lock().running = None;
    }
}

impl std::fmt::Debug for MemoryProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        write!(f, "MemoryProcess(port {}, {} regions, {} rights)", state.port, state.regions.len(), state.rights.len())
    }
}

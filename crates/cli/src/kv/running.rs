//! A server that runs until the system ends it by a signal.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use longarm_kv::KvServer;
use longarm_resp::RespServer;
use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::metrics;
use crate::error::Error;

/// The time for the requests that the server has when the signal comes.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

type ServerAndDoor = (KvServer, Option<RespServer>);

/// A server and its door, shared with the thread that tells the figures. `None` once they have ended.
#[derive(Clone)]
pub(super) struct RunningServer(Arc<Mutex<Option<ServerAndDoor>>>);

impl RunningServer {
    pub(super) fn new(server: KvServer, door: Option<RespServer>) -> RunningServer {
        RunningServer(Arc::new(Mutex::new(Some((server, door)))))
    }

    /// Runs until SIGTERM or SIGINT, and then brings all changes to disk. A second signal ends the process at once.
    pub(super) fn run(self, metrics: Option<String>) -> Result<(), Error> {
        let (end, ended) = channel();
        end_by_signal(end.clone())?;
        if let Some(address) = metrics {
            let running = self.clone();
            let serve = move || crate::metrics::serve(&address, || running.figures(), || running.ready());
            thread::spawn(move || end.send(serve()));
        }
        ended.recv().unwrap_or(Ok(()))?;
        self.shut_down()
    }

    fn figures(&self) -> String {
        self.0.lock().as_ref().map(|(server, door)| metrics::of(server, door.as_ref())).unwrap_or_default()
    }

    /// Whether clients can change what the server has; the reason if not.
    fn ready(&self) -> Result<(), &'static str> {
        let running = self.0.lock();
        let Some((server, _)) = &*running else { return Err("the server ends") };
        match server.data_figures() {
            Some(disk) if disk.failed != 0 => Err("the disk failed: no more changes until the server is started again"),
            _ => Ok(()),
        }
    }

    fn shut_down(&self) -> Result<(), Error> {
        let Some((server, door)) = self.0.lock().take() else { return Ok(()) };
        drop(door);
        if !server.shut_down(LAST_REQUESTS)? {
            eprintln!("longarm: the server ends before it has answered all requests");
        }
        Ok(())
    }
}

/// Tells the first signal, and ends the process at the second.
fn end_by_signal(end: Sender<Result<(), Error>>) -> Result<(), Error> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::spawn(move || {
        let mut signals = signals.forever();
        signals.next();
        let _ = end.send(Ok(()));
        let second = signals.next().unwrap_or(SIGTERM);
        std::process::exit(128 + second);
    });
    Ok(())
}

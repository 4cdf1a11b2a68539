//! The way from a thread that wakes a task to the event loop of that task.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;

use parking_lot::Mutex;
use pyo3::prelude::*;

/// One event loop's end: the operations that it waits for, and a socket on which it sleeps.
#[pyclass(frozen, module = "longarm_kv")]
pub(crate) struct LoopBridge {
    bell: UnixStream,
    woken: Arc<WokenOperations>,
    /// Futures of asyncio, by the number of the operation that waits for each.
    waiting: Mutex<HashMap<u64, Py<PyAny>>>,
}

/// The operations that can go on, and the other end of the socket.
struct WokenOperations {
    numbers: Mutex<Vec<u64>>,
    bell: UnixStream,
}

/// Wakes one operation.
pub(crate) struct OperationWaker {
    number: u64,
    woken: Arc<WokenOperations>,
}

impl Wake for OperationWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_first = {
            let mut numbers = self.woken.numbers.lock();
            numbers.push(self.number);
            numbers.len() == 1
        };
        if is_first {
            // A full socket means that the loop is about to look. A closed one, that there is no loop.
            let _ = (&self.woken.bell).write(&[1]);
        }
    }
}

impl LoopBridge {
    /// A waker for an operation that has no number yet.
    pub(crate) fn waker(&self) -> (u64, Arc<OperationWaker>) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        (number, Arc::new(OperationWaker { number, woken: Arc::clone(&self.woken) }))
    }

    /// Lets a future of asyncio end when the operation can go on.
    pub(crate) fn wait(&self, number: u64, future: Py<PyAny>) {
        self.waiting.lock().insert(number, future);
    }

    /// The operation is gone.
    pub(crate) fn forget(&self, number: u64) {
        let forgotten = self.waiting.lock().remove(&number);
        drop(forgotten);
    }
}

#[pymethods]
impl LoopBridge {
    #[new]
    fn new() -> PyResult<LoopBridge> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let woken = Arc::new(WokenOperations { numbers: Mutex::new(Vec::new()), bell: ring });
        Ok(LoopBridge { bell, woken, waiting: Mutex::new(HashMap::new()) })
    }

    /// The descriptor that is readable when operations can go on.
    fn fileno(&self) -> i32 {
        self.bell.as_raw_fd()
    }

    /// Ends the futures of operations that can go on. The event loop calls it.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let mut bytes = [0; 64];
        match (&self.bell).read(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
            _ => {}
        }
        let numbers = std::mem::take(&mut *self.woken.numbers.lock());
        for number in numbers {
            let future = self.waiting.lock().remove(&number);
            let Some(future) = future.map(|future| future.into_bound(py)) else { continue };
            if !future.call_method0("done")?.is_truthy()? {
                future.call_method1("set_result", (py.None(),))?;
            }
        }
        Ok(())
    }
}

//! An operation under way, as an object that Python awaits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use longarm_kv::KvError;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::aio::bridge::LoopBridge;
use crate::errors::exception;

/// Looks before a task leaves its turn: some microseconds.
const LOOKS: usize = 64;

/// Makes the object that Python gets from the outcome.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// An operation under way. It begins when it is awaited, and is given up when it is dropped.
#[pyclass(frozen, module = "longarm_kv")]
pub(crate) struct AwaitedOperation {
    state: Mutex<OperationState>,
}

struct OperationState {
    work: Option<Work>,
    place: Option<LoopPlace>,
}

/// The event loop on which it waits.
struct LoopPlace {
    event_loop: Py<PyAny>,
    bridge: Py<LoopBridge>,
    number: u64,
    waker: Waker,
}

impl AwaitedOperation {
    pub(crate) fn new<T: Send + 'static>(
        work: impl Future<Output = Result<T, KvError>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> AwaitedOperation {
        let work = async move {
            let done = work.await;
            let finish: Finish = Box::new(move |py| match done {
                Ok(value) => finish(py, value),
                Err(error) => Err(exception(py, error)),
            });
            finish
        };
        AwaitedOperation { state: Mutex::new(OperationState { work: Some(Box::pin(work)), place: None }) }
    }
}

impl OperationState {
    /// The object that Python gets; `None` if the operation waits.
    fn advance(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let over = || PyRuntimeError::new_err("the operation has ended already, or was given up");
        let work = self.work.as_mut().ok_or_else(over)?;
        // The first looks need no event loop: GETs on one host end with one of them.
        let mut polled = match &self.place {
            Some(_) => Poll::Pending,
            None => py.detach(|| first_looks(work)),
        };
        if polled.is_pending() {
            let place = match &mut self.place {
                Some(place) => place,
                none => none.insert(LoopPlace::running(py)?),
            };
            polled = py.detach(|| work.as_mut().poll(&mut Context::from_waker(&place.waker)));
        }
        match polled {
            Poll::Pending => Ok(None),
            Poll::Ready(finish) => {
                self.work = None;
                finish(py).map(Some)
            }
        }
    }

    /// Gives the operation up.
    fn end(&mut self, py: Python<'_>) {
        if let Some(place) = self.place.take() {
            place.bridge.get().forget(place.number);
        }
        let work = self.work.take();
        py.detach(|| drop(work));
    }
}

/// Looks again while the work asks for it at once: an answer on one host comes sooner than a turn of the event loop.
fn first_looks(work: &mut Work) -> Poll<Finish> {
    let asked = Arc::new(AskedAgain(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&asked));
    for _ in 0..LOOKS {
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() || !asked.0.swap(false, Ordering::Relaxed) {
            return polled;
        }
    }
    Poll::Pending
}

/// Notes that the work wants another look.
struct AskedAgain(AtomicBool);

impl Wake for AskedAgain {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LoopPlace {
    fn running(py: Python<'_>) -> PyResult<LoopPlace> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = RUNNING.import(py, "longarm_kv._loop", "running")?;
        let (event_loop, bridge): (Py<PyAny>, Py<LoopBridge>) = running.call0()?.extract()?;
        let (number, waker) = bridge.get().waker();
        Ok(LoopPlace { event_loop, bridge, number, waker: Waker::from(waker) })
    }

    /// The object that a task of asyncio waits for.
    fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.event_loop.bind(py).call_method0("create_future")?;
        self.bridge.get().wait(self.number, future.clone().unbind());
        future.try_iter()?.next().unwrap_or_else(|| Err(PyRuntimeError::new_err("a future of asyncio ended at once")))
    }
}

#[pymethods]
impl AwaitedOperation {
    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let awaited_twice = || PyRuntimeError::new_err("two tasks await one operation");
        let mut state = self.state.try_lock().ok_or_else(awaited_twice)?;
        match state.advance(py)? {
            Some(value) => {
                state.end(py);
                Err(PyStopIteration::new_err((value,)))
            }
            None => match &state.place {
                Some(place) => place.future(py),
                None => Err(awaited_twice()),
            },
        }
    }

    /// Gives the operation up: a change may have been executed or not.
    fn close(&self, py: Python<'_>) {
        if let Some(mut state) = self.state.try_lock() {
            state.end(py);
        }
    }
}

impl Drop for AwaitedOperation {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.work.is_some() || state.place.is_some() {
            Python::attach(|py| state.end(py));
        }
    }
}

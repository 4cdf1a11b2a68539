//! Operations of one table that the tasks of a program share. The class `AsyncTable` of Python wraps them.

use std::future::Future;
use std::time::Duration;

use longarm_kv::{AsyncKvTable, KvError, KvItem, KvOptions, KvValue, KvVersion, PutIf, TimeToLive};
use parking_lot::Mutex;
use pyo3::BoundObject;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::aio::operation::AwaitedOperation;
use crate::buffer::{OutBuffer, bytes_of};
use crate::errors::{ClosedError, InvalidArgumentError};
use crate::options::{OpenArguments, expiry_of, nanoseconds, stats_of};
use crate::version::Version;

/// A table that tasks share, or one that is closed.
#[pyclass(frozen, module = "longarm_kv")]
pub(crate) struct TaskTable {
    address: String,
    name: String,
    options: KvOptions,
    open: Mutex<Option<AsyncKvTable>>,
    /// The process that opened it. The threads of the device do not exist in a process that was forked.
    process: u32,
}

impl TaskTable {
    fn table(&self) -> PyResult<AsyncKvTable> {
        if std::process::id() != self.process {
            return Err(ClosedError::new_err("the table was made before this process was forked: open another one"));
        }
        self.open
            .lock()
            .clone()
            .ok_or_else(|| ClosedError::new_err("the table is not open: `async with`, or `await` it"))
    }

    /// An operation on the open table.
    fn operate<T, W>(
        &self,
        begin: impl FnOnce(AsyncKvTable) -> W,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<AwaitedOperation>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, KvError>> + Send + 'static,
    {
        Ok(AwaitedOperation::new(begin(self.table()?), finish))
    }

    fn put_if(
        &self,
        (key, value): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        condition: PutIf,
        ttl: Option<f64>,
    ) -> PyResult<AwaitedOperation> {
        let (key, value, expiry) = (owned(key, "a key")?, owned(value, "a value")?, expiry_of(ttl)?);
        let put = |table: AsyncKvTable| async move { table.put_with(&key, &value, condition, expiry).await };
        self.operate(put, |py, version: KvVersion| object(py, Version(version)))
    }
}

fn owned(object: &Bound<'_, PyAny>, role: &str) -> PyResult<Vec<u8>> {
    Ok(bytes_of(object, role)?.into_owned())
}

fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>> {
    value.into_pyobject(py).map(|object| object.into_any().unbind()).map_err(Into::into)
}

fn truth(py: Python<'_>, is_so: bool) -> PyResult<Py<PyAny>> {
    object(py, is_so)
}

fn number(py: Python<'_>, number: i64) -> PyResult<Py<PyAny>> {
    object(py, number)
}

fn bytes(py: Python<'_>, value: &[u8]) -> Py<PyAny> {
    PyBytes::new(py, value).into_any().unbind()
}

#[pymethods]
impl TaskTable {
    #[new]
    #[pyo3(signature = (address, table, *, secret, timeout, get, put, locations, outstanding))]
    #[allow(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        address: String,
        table: String,
        secret: Option<&Bound<'_, PyAny>>,
        timeout: f64,
        get: &str,
        put: &str,
        locations: usize,
        outstanding: usize,
    ) -> PyResult<TaskTable> {
        let options = OpenArguments { secret, timeout, get, put, locations, outstanding }.options()?;
        Ok(TaskTable { address, name: table, options, open: Mutex::new(None), process: std::process::id() })
    }

    /// Connects, and opens the table.
    fn open(this: &Bound<'_, Self>) -> AwaitedOperation {
        let (table, owner) = (this.get(), this.clone().unbind());
        let (address, name, options) = (table.address.clone(), table.name.clone(), table.options.clone());
        let open = async move { AsyncKvTable::open(&address, &name, options).await };
        AwaitedOperation::new(open, move |py, table| {
            let before = owner.get().open.lock().replace(table);
            py.detach(|| drop(before));
            Ok(py.None())
        })
    }

    /// Gives the right to the table back.
    fn close(&self) -> AwaitedOperation {
        let open = self.open.lock().take();
        if std::process::id() != self.process {
            std::mem::forget(open);
            return AwaitedOperation::new(async { Ok(()) }, |py, ()| Ok(py.None()));
        }
        let leave = async move {
            match open {
                Some(table) => table.close().await,
                None => Ok(()),
            }
        };
        AwaitedOperation::new(leave, |py, ()| Ok(py.None()))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.open.lock().is_none()
    }

    #[getter]
    fn client(&self) -> PyResult<Option<u64>> {
        Ok(self.table()?.client())
    }

    /// The value and its version; None if the key is absent.
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(
            |table| async move { table.get(&key).await },
            |py, found: Option<KvValue>| {
                object(py, found.map(|value| (bytes(py, &value.bytes), Version(value.version))))
            },
        )
    }

    fn get(&self, key: &Bound<'_, PyAny>, default: Py<PyAny>) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(
            |table| async move { table.get(&key).await },
            |py, found: Option<KvValue>| Ok(found.map_or(default, |value| bytes(py, &value.bytes))),
        )
    }

    fn get_into(&self, key: &Bound<'_, PyAny>, buffer: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let (key, out) = (owned(key, "a key")?, OutBuffer::of(buffer)?);
        self.operate(
            |table| async move { table.get(&key).await },
            move |py, found: Option<KvValue>| {
                let Some(value) = found else { return Ok(py.None()) };
                let len_bytes = value.bytes.len();
                if !out.fill(py, &value.bytes) {
                    let room = out.len_bytes();
                    let words = format!("the value has {len_bytes} bytes, and the buffer only {room}");
                    return Err(InvalidArgumentError::new_err(words));
                }
                object(py, len_bytes)
            },
        )
    }

    fn multi_get(&self, keys: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let keys = keys.try_iter()?.map(|key| owned(&key?, "a key")).collect::<PyResult<Vec<_>>>()?;
        self.operate(
            |table| async move { table.multi_get(&keys).await },
            |py, values: Vec<Option<KvValue>>| {
                let values = values.iter().map(|value| value.as_ref().map(|value| bytes(py, &value.bytes)));
                object(py, PyList::new(py, values)?)
            },
        )
    }

    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Option<f64>) -> PyResult<AwaitedOperation> {
        self.put_if((key, value), PutIf::Always, ttl)
    }

    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Option<f64>) -> PyResult<AwaitedOperation> {
        self.put_if((key, value), PutIf::Absent, ttl)
    }

    fn update(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, ttl: Option<f64>) -> PyResult<AwaitedOperation> {
        self.put_if((key, value), PutIf::Present, ttl)
    }

    fn compare_and_put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        version: Version,
        ttl: Option<f64>,
    ) -> PyResult<AwaitedOperation> {
        self.put_if((key, value), PutIf::Version(version.0), ttl)
    }

    /// Takes pairs.
    fn multi_put(&self, pairs: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let pair = |pair: PyResult<Bound<'_, PyAny>>| {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            Ok((owned(&key, "a key")?, owned(&value, "a value")?))
        };
        let pairs = pairs.try_iter()?.map(pair).collect::<PyResult<Vec<_>>>()?;
        self.operate(|table| async move { table.multi_put(&pairs).await }, |py, ()| Ok(py.None()))
    }

    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(|table| async move { table.delete(&key).await }, truth)
    }

    fn compare_and_delete(&self, key: &Bound<'_, PyAny>, version: Version) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(|table| async move { table.compare_and_delete(&key, version.0).await }, truth)
    }

    fn add(&self, key: &Bound<'_, PyAny>, amount: i64) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(|table| async move { table.add(&key, amount).await }, number)
    }

    fn expire(&self, key: &Bound<'_, PyAny>, seconds: f64) -> PyResult<AwaitedOperation> {
        let (key, after) = (owned(key, "a key")?, Duration::from_nanos(nanoseconds(seconds)?));
        self.operate(|table| async move { table.expire(&key, after).await }, truth)
    }

    fn persist(&self, key: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(|table| async move { table.persist(&key).await }, truth)
    }

    fn time_to_live(&self, key: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let key = owned(key, "a key")?;
        self.operate(
            |table| async move { table.time_to_live(&key).await },
            |py, left: Option<TimeToLive>| {
                let seconds = left.map(|left| match left {
                    TimeToLive::Forever => f64::INFINITY,
                    TimeToLive::Left(left) => left.as_secs_f64(),
                });
                object(py, seconds)
            },
        )
    }

    /// Some keys with a prefix, and the cursor for the next ones.
    fn scan(&self, cursor: u64, count: u32, prefix: &Bound<'_, PyAny>) -> PyResult<AwaitedOperation> {
        let prefix = owned(prefix, "a prefix")?;
        self.operate(
            |table| async move { table.scan(cursor, count, &prefix).await },
            |py, (keys, next): (Vec<Vec<u8>>, u64)| {
                let keys = PyList::new(py, keys.iter().map(|key| bytes(py, key)))?;
                object(py, (keys, next))
            },
        )
    }

    fn range(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        limit: usize,
    ) -> PyResult<AwaitedOperation> {
        let start = start.map(|start| owned(start, "a key")).transpose()?.unwrap_or_default();
        let end = end.map(|end| owned(end, "a key")).transpose()?;
        let range = |table: AsyncKvTable| async move {
            match end {
                Some(end) => table.range(start..end, limit).await,
                None => table.range(start.., limit).await,
            }
        };
        self.operate(range, |py, items: Vec<KvItem>| {
            let pairs = items.iter().map(|item| (bytes(py, &item.key), bytes(py, &item.value)));
            object(py, PyList::new(py, pairs)?)
        })
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        object(py, stats_of(py, self.table()?.stats())?)
    }
}

//! The class `Table`.

use std::time::Duration;

use longarm_kv::{KvTable, PutIf, TimeToLive};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping};

use crate::buffer::{OutBuffer, bytes_of};
use crate::errors::{InvalidArgumentError, exception};
use crate::keys::KeyIterator;
use crate::options::{OpenArguments, expiry_of, nanoseconds, stats_of};
use crate::shared::SharedTable;
use crate::version::Version;

/// Longer values are copied once only, straight into their Python object.
const SHORT_BYTES: usize = 16 << 10;

/// A table on a server. It connects again by itself after the server was away. Threads may share it: one operates at a time, and
/// others of the program run while it waits.
#[pyclass(frozen, mapping, module = "longarm_kv")]
pub(crate) struct Table {
    shared: SharedTable,
    name: String,
    address: String,
}

/// The bytes of a value that was found. Taking the interpreter's lock once more costs more than copying short ones twice.
enum FoundBytes {
    Short(Vec<u8>),
    Long(Py<PyBytes>),
}

impl Table {
    pub(crate) fn shared(&self) -> &SharedTable {
        &self.shared
    }

    fn put_if(
        &self,
        py: Python<'_>,
        (key, value): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        condition: PutIf,
        ttl: Option<f64>,
    ) -> PyResult<Version> {
        let (key, value) = (bytes_of(key, "a key")?, bytes_of(value, "a value")?);
        let expiry = expiry_of(ttl)?;
        let version = self.shared.with(py, |table| table.put_with(&key, &value, condition, expiry))?;
        Ok(Version(version))
    }

    /// The value of a key and its version.
    fn find<'py>(&self, py: Python<'py>, key: &Bound<'_, PyAny>) -> PyResult<Option<(Bound<'py, PyBytes>, Version)>> {
        let key = bytes_of(key, "a key")?;
        let found = self.shared.with(py, |table| {
            table.get_with(&key, |found| {
                found.map(|(value, version)| {
                    let bytes = match value.len() {
                        ..=SHORT_BYTES => FoundBytes::Short(value.to_vec()),
                        _ => FoundBytes::Long(Python::attach(|py| PyBytes::new(py, value).unbind())),
                    };
                    (bytes, version)
                })
            })
        })?;
        let Some((value, version)) = found else { return Ok(None) };
        let value = match value {
            FoundBytes::Short(bytes) => PyBytes::new(py, &bytes),
            FoundBytes::Long(value) => value.into_bound(py),
        };
        Ok(Some((value, Version(version))))
    }
}

#[pymethods]
impl Table {
    /// Connects to the server at `address`, "host:port", and opens a table.
    #[new]
    #[pyo3(signature = (address, table, *, secret=None, timeout=5.0, get="one-sided", put="rpc", locations=65536, outstanding=16))]
    #[allow(clippy::too_many_arguments, reason = "they are named in Python")]
    fn open(
        py: Python<'_>,
        address: &str,
        table: &str,
        secret: Option<&Bound<'_, PyAny>>,
        timeout: f64,
        get: &str,
        put: &str,
        locations: usize,
        outstanding: usize,
    ) -> PyResult<Table> {
        let options = OpenArguments { secret, timeout, get, put, locations, outstanding }.options()?;
        let opened = py.detach(|| KvTable::open(address, table, options)).map_err(|error| exception(py, error))?;
        Ok(Table { shared: SharedTable::new(opened), name: table.into(), address: address.into() })
    }

    /// The client's number at the server.
    #[getter]
    fn client(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.shared.with(py, |table| Ok(table.client()))
    }

    /// True after `close`.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.shared.is_closed())
    }

    /// The value of a key; `default` if it is absent.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, key)?.map(|(value, _)| value.into_any()).or(default))
    }

    /// The value of a key and its version; None if it is absent.
    fn get_with_version<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Version)>> {
        self.find(py, key)
    }

    /// Copies the value of a key to the front of a writable buffer, such as an array. Returns its number of bytes, or None if the
    /// key is absent. A buffer that is too short remains as it is.
    fn get_into(&self, py: Python<'_>, key: &Bound<'_, PyAny>, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let (key, out) = (bytes_of(key, "a key")?, OutBuffer::of(buffer)?);
        let found = self.shared.with(py, |table| {
            table
                .get_with(&key, |found| found.map(|(value, _)| (value.len(), Python::attach(|py| out.fill(py, value)))))
        })?;
        match found {
            None => Ok(None),
            Some((len_bytes, true)) => Ok(Some(len_bytes)),
            Some((len_bytes, false)) => Err(InvalidArgumentError::new_err(format!(
                "the value has {len_bytes} bytes, and the buffer only {}",
                out.len_bytes()
            ))),
        }
    }

    /// The values of several keys, in their order; None for absent ones. Several are looked up at a time.
    fn multi_get<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let objects: Vec<_> = keys.try_iter()?.collect::<PyResult<_>>()?;
        let keys: Vec<_> = objects.iter().map(|key| bytes_of(key, "a key")).collect::<PyResult<_>>()?;
        let values = self.shared.with(py, |table| {
            let mut values: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
            table.multi_get(&keys, |number, found| values[number] = found.map(|(value, _)| value.to_vec()))?;
            Ok(values)
        })?;
        PyList::new(py, values.iter().map(|value| value.as_ref().map(|value| PyBytes::new(py, value))))
    }

    /// Gives a key a value. With `ttl` it expires after so many seconds.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<Version> {
        self.put_if(py, (key, value), PutIf::Always, ttl)
    }

    /// Gives a value to a key that is absent.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn insert(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<Version> {
        self.put_if(py, (key, value), PutIf::Absent, ttl)
    }

    /// Gives a value to a key that is present.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn update(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<Version> {
        self.put_if(py, (key, value), PutIf::Present, ttl)
    }

    /// Gives a key a value, if it still has this version.
    #[pyo3(signature = (key, value, version, *, ttl=None))]
    fn compare_and_put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        version: Version,
        ttl: Option<f64>,
    ) -> PyResult<Version> {
        self.put_if(py, (key, value), PutIf::Version(version.0), ttl)
    }

    /// Gives keys values, several at a time: a mapping, or pairs.
    fn multi_put(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let items = match pairs.cast::<PyMapping>() {
            Ok(mapping) => mapping.items()?.into_any(),
            Err(_) => pairs.clone(),
        };
        let objects: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> =
            items.try_iter()?.map(|pair| pair?.extract()).collect::<PyResult<_>>()?;
        let pairs: Vec<_> = objects
            .iter()
            .map(|(key, value)| Ok((bytes_of(key, "a key")?, bytes_of(value, "a value")?)))
            .collect::<PyResult<_>>()?;
        self.shared.with(py, |table| table.multi_put(pairs.len(), |number| (&pairs[number].0, &pairs[number].1)))
    }

    /// Deletes a key. Returns False if it was absent.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes_of(key, "a key")?;
        self.shared.with(py, |table| table.delete(&key))
    }

    /// Deletes a key that still has this version. Returns False if it was absent.
    fn compare_and_delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, version: Version) -> PyResult<bool> {
        let key = bytes_of(key, "a key")?;
        self.shared.with(py, |table| table.compare_and_delete(&key, version.0))
    }

    /// Adds to a counter, and returns its sum. It is kept as decimal digits; an absent key counts from zero.
    #[pyo3(signature = (key, amount=1))]
    fn add(&self, py: Python<'_>, key: &Bound<'_, PyAny>, amount: i64) -> PyResult<i64> {
        let key = bytes_of(key, "a key")?;
        self.shared.with(py, |table| table.add(&key, amount))
    }

    /// Lets a key expire after so many seconds. Returns False if it is absent.
    fn expire(&self, py: Python<'_>, key: &Bound<'_, PyAny>, seconds: f64) -> PyResult<bool> {
        let (key, after) = (bytes_of(key, "a key")?, Duration::from_nanos(nanoseconds(seconds)?));
        self.shared.with(py, |table| table.expire(&key, after))
    }

    /// Lets a key stay. Returns False if it is absent.
    fn persist(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes_of(key, "a key")?;
        self.shared.with(py, |table| table.persist(&key))
    }

    /// The seconds that a key has left; infinity if it stays, None if it is absent.
    fn time_to_live(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let key = bytes_of(key, "a key")?;
        let left = self.shared.with(py, |table| table.time_to_live(&key))?;
        Ok(left.map(|left| match left {
            TimeToLive::Forever => f64::INFINITY,
            TimeToLive::Left(left) => left.as_secs_f64(),
        }))
    }

    /// An iterator over the keys with a prefix, in the order of a hash; `count` of them are fetched at a time.
    #[pyo3(signature = (prefix=None, *, count=100))]
    fn scan(this: Bound<'_, Self>, prefix: Option<&Bound<'_, PyAny>>, count: u32) -> PyResult<KeyIterator> {
        let prefix = prefix.map(|prefix| bytes_of(prefix, "a prefix")).transpose()?.unwrap_or_default();
        Ok(KeyIterator::new(this.unbind(), prefix.into_owned(), count))
    }

    /// At most `limit` pairs from the key `start` to before `end`, in the order of keys. Only for tables of the layout "tree".
    #[pyo3(signature = (start=None, end=None, *, limit=1000))]
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        limit: usize,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let bound = |bound: Option<&Bound<'_, PyAny>>| -> PyResult<Option<Vec<u8>>> {
            bound.map(|key| Ok(bytes_of(key, "a key")?.into_owned())).transpose()
        };
        let (start, end) = (bound(start)?, bound(end)?);
        let start = start.unwrap_or_default();
        let items = self.shared.with(py, |table| match end {
            Some(end) => table.range(start..end, limit),
            None => table.range(start.., limit),
        })?;
        let pair = |item: longarm_kv::KvItem| (PyBytes::new(py, &item.key), PyBytes::new(py, &item.value));
        Ok(items.into_iter().map(pair).collect())
    }

    /// Figures of this client.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.shared.with(py, |table| Ok(table.stats()))?;
        stats_of(py, stats)
    }

    /// Gives the right to the table back, and ends the connections.
    fn close(&self, py: Python<'_>) {
        self.shared.close(py);
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let found = self.find(py, key)?;
        found.map(|(value, _)| value).ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put_if(py, (key, value), PutIf::Always, None).map(|_| ())
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.delete(py, key)? { Ok(()) } else { Err(PyKeyError::new_err(key.clone().unbind())) }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = bytes_of(key, "a key")?;
        self.shared.with(py, |table| table.get_with(&key, |found| found.is_some()))
    }

    fn __iter__(this: Bound<'_, Self>) -> PyResult<KeyIterator> {
        Table::scan(this, None, 100)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.shared.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = if self.closed(py) { ", closed" } else { "" };
        format!("<longarm_kv.Table {:?} at {}{state}>", self.name, self.address)
    }
}

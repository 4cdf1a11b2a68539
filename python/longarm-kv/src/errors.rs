//! Exceptions: one for each kind of [`KvError`].

use longarm_kv::KvError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::version::Version;

create_exception!(longarm_kv, PyKvError, PyException, "The reason why an operation has no result.");
create_exception!(longarm_kv, NoSuchTableError, PyKvError, "The server has no table of that name.");
create_exception!(longarm_kv, NotAuthorizedError, PyKvError, "The client has not the table's secret.");
create_exception!(longarm_kv, WrongServerError, PyKvError, "The server has not the table's secret.");
create_exception!(longarm_kv, RevokedError, PyKvError, "The server has taken the right to the table back.");
create_exception!(longarm_kv, ConflictError, PyKvError, "The key has another version: see the attribute `version`.");
create_exception!(longarm_kv, WrongTypeError, PyKvError, "The value is not of the kind that the operation needs.");
create_exception!(longarm_kv, NoOrderError, PyKvError, "The table's layout keeps no order, so it has no ranges.");
create_exception!(
    longarm_kv,
    NoDeviceGetsError,
    PyKvError,
    "The device here or at the server carries out no GETs: other ways may work."
);
create_exception!(longarm_kv, TableFullError, PyKvError, "The table's memory is full.");
create_exception!(
    longarm_kv,
    InvalidArgumentError,
    PyKvError,
    "A key, a value or an argument is too long or malformed."
);
create_exception!(
    longarm_kv,
    NoAnswerError,
    PyKvError,
    "The server did not answer in time. The attribute `executed` says whether it executed the operation."
);
create_exception!(longarm_kv, ReadFailedError, PyKvError, "A READ or the lookup failed.");
create_exception!(
    longarm_kv,
    ClosedError,
    PyKvError,
    "The table was closed, or opened before this process was forked."
);

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("KvError", py.get_type::<PyKvError>())?;
    for (name, class) in [
        ("NoSuchTableError", py.get_type::<NoSuchTableError>()),
        ("NotAuthorizedError", py.get_type::<NotAuthorizedError>()),
        ("WrongServerError", py.get_type::<WrongServerError>()),
        ("RevokedError", py.get_type::<RevokedError>()),
        ("ConflictError", py.get_type::<ConflictError>()),
        ("WrongTypeError", py.get_type::<WrongTypeError>()),
        ("NoOrderError", py.get_type::<NoOrderError>()),
        ("NoDeviceGetsError", py.get_type::<NoDeviceGetsError>()),
        ("TableFullError", py.get_type::<TableFullError>()),
        ("InvalidArgumentError", py.get_type::<InvalidArgumentError>()),
        ("NoAnswerError", py.get_type::<NoAnswerError>()),
        ("ReadFailedError", py.get_type::<ReadFailedError>()),
        ("ClosedError", py.get_type::<ClosedError>()),
    ] {
        module.add(name, class)?;
    }
    Ok(())
}

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: KvError) -> PyErr {
    let words = error.to_string();
    match error {
        KvError::NoSuchTable(_) => NoSuchTableError::new_err(words),
        KvError::NotAuthorized(_) => NotAuthorizedError::new_err(words),
        KvError::WrongServer => WrongServerError::new_err(words),
        KvError::Revoked => RevokedError::new_err(words),
        KvError::Conflict(present) => {
            with_attribute(py, ConflictError::new_err(words), "version", present.map(Version::from))
        }
        KvError::WrongType(_) => WrongTypeError::new_err(words),
        KvError::NoOrder(_) => NoOrderError::new_err(words),
        KvError::NoDeviceGets(_) => NoDeviceGetsError::new_err(words),
        KvError::Full(_) => TableFullError::new_err(words),
        KvError::Invalid(_) => InvalidArgumentError::new_err(words),
        KvError::Server(status) => {
            let executed = match status.executed() {
                longarm_rpc::Executed::No => "no",
                longarm_rpc::Executed::Yes => "yes",
                longarm_rpc::Executed::Unknown => "unknown",
            };
            with_attribute(py, NoAnswerError::new_err(words), "executed", executed)
        }
        KvError::NotAttached(..) => with_attribute(py, NoAnswerError::new_err(words), "executed", "no"),
        KvError::Read(_) | KvError::Changing => ReadFailedError::new_err(words),
        _ => PyKvError::new_err(words),
    }
}

fn with_attribute<'py, T: IntoPyObject<'py>>(py: Python<'py>, error: PyErr, name: &str, value: T) -> PyErr {
    match error.value(py).setattr(name, value) {
        Ok(()) => error,
        Err(other) => other,
    }
}

//! `dlopen` and versioned symbols.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// The system has no usable RDMA library.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The loader does not find or accept it.
    #[error("{library} cannot be loaded: {reason} (Debian: apt-get install libibverbs1 librdmacm1 ibverbs-providers)")]
    Library {
        /// Its name.
        library: &'static str,
        /// The loader's words.
        reason: String,
    },
    /// It is too old.
    #[error("{library} has no {symbol}: it is older than rdma-core 28")]
    Symbol {
        /// The library.
        library: &'static str,
        /// The missing function.
        symbol: &'static str,
    },
}

/// A loaded library. It stays loaded: its threads and handlers may run until the process ends.
pub(super) struct LoadedLibrary {
    name: &'static str,
    handle: NonNull<c_void>,
}

impl LoadedLibrary {
    /// # Errors
    /// If the loader does not find or accept it.
    pub(super) fn open(name: &'static str) -> Result<LoadedLibrary, LoadError> {
        let path = CString::new(name).unwrap_or_default();
        // SAFETY: the libraries of rdma-core do nothing when they are loaded that another thread could not bear.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(LoadedLibrary { name, handle }),
            None => Err(LoadError::Library { library: name, reason: last_error() }),
        }
    }

    /// The address of a function in the version that `verbs.h` of today links to.
    ///
    /// # Errors
    /// If the library does not have it.
    pub(super) fn symbol(&self, name: &'static CStr, version: &CStr) -> Result<NonNull<c_void>, LoadError> {
        // SAFETY: a loaded library and two strings of C.
        let address = unsafe { libc::dlvsym(self.handle.as_ptr(), name.as_ptr(), version.as_ptr()) };
        let missing = || LoadError::Symbol { library: self.name, symbol: name.to_str().unwrap_or_default() };
        NonNull::new(address).ok_or_else(missing)
    }
}

fn last_error() -> String {
    // SAFETY: the string of `dlerror` is this thread's until its next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: a string of C that `dlerror` returned just now.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A table of functions, each with its version and its type.
macro_rules! functions {
    (
        $(#[$doc:meta])* $table:ident of $library:literal by $get:ident {
            $($name:ident @ $version:literal : fn($($arg:ty),* $(,)?) $(-> $result:ty)?;)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)+
        }

        impl $table {
            fn load() -> Result<$table, LoadError> {
                let library = super::loader::LoadedLibrary::open($library)?;
                let name = |name: &'static str| CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
                Ok($table {
                    $($name: {
                        let address = library.symbol(name(concat!(stringify!($name), "\0")), name(concat!($version, "\0")))?;
                        // SAFETY: the function of that name and version has this type, by rdma-core's headers.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $result)?>(address.as_ptr())
                        }
                    },)+
                })
            }
        }

        /// The functions; the first call loads the library.
        ///
        /// # Errors
        /// If the system has no such library, or one that is too old.
        pub(crate) fn $get() -> Result<&'static $table, LoadError> {
            static TABLE: OnceLock<Result<$table, LoadError>> = OnceLock::new();
            TABLE.get_or_init($table::load).as_ref().map_err(LoadError::clone)
        }
    };
}
pub(super) use functions;

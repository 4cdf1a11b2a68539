//! Structures that are valid when all their bytes are zero.

/// A structure of C that is valid when all its bytes are zero.
///
/// # Safety
/// All bytes zero are a valid value of the type.
pub unsafe trait Zeroed: Sized {
    /// All bytes zero.
    fn zeroed() -> Self {
        // SAFETY: the contract of `Zeroed`: all bytes zero are a valid value.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ty),+ $(,)?) => {
        $(
            // SAFETY: only integers, pointers and `Option`s of functions.
            unsafe impl $crate::Zeroed for $name {}
        )+
    };
}
pub(crate) use zeroed;

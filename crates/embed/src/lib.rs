//! [`shared_library!`](macro@shared_library): the bytes of a shared library that cargo builds as a dependency.
//!
//! `cargo install` installs programs only. A program that needs a shared library of its own carries the bytes.
//! Cargo compiles a crate of the types `lib` and `cdylib` in one call of rustc, which writes both files side by side
//! under one name. Rustc gets the path of the first as `--extern NAME=…/libNAME.rlib`, so the macro knows the second.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use proc_macro::{Literal, TokenStream};

/// The bytes of a dependency's shared library, as `&[u8]`. The argument is the library's crate name as a string.
///
/// Where rustc only checks and links nothing (`cargo check`, clippy, rustdoc), the value is empty: no library is built.
///
/// # Errors
/// A compile error if the crate has no such dependency, or if the dependency has no shared library.
#[proc_macro]
pub fn shared_library(argument: TokenStream) -> TokenStream {
    let name = argument.to_string();
    let expansion = match find(name.trim_matches('"'), std::env::args()) {
        Ok(Some(file)) => format!("::core::include_bytes!({}) as &[u8]", Literal::string(&file.to_string_lossy())),
        Ok(None) => "&[] as &[u8]".to_owned(),
        Err(problem) => format!("::core::compile_error!({})", Literal::string(&problem)),
    };
    expansion.parse().expect("literals and paths are tokens")
}

/// Finds the shared library by the arguments of rustc; none if rustc gets the dependency's metadata only.
fn find(name: &str, arguments: impl Iterator<Item = String>) -> Result<Option<PathBuf>, String> {
    let file_of = |argument: String| {
        let (crate_name, path) = argument.split_once('=')?;
        // Options may stand before the name: `--extern noprelude:NAME=PATH`.
        (crate_name.rsplit(':').next() == Some(name)).then(|| PathBuf::from(path))
    };
    let dependency = arguments
        .filter_map(file_of)
        .find(|path| path.extension().is_some_and(|extension| extension == "rlib" || extension == "rmeta"))
        .ok_or_else(|| format!("{name} is not a dependency that rustc gets by `--extern`"))?;
    if dependency.extension().is_some_and(|extension| extension == "rmeta") {
        return Ok(None);
    }
    let library = dependency.with_extension("so");
    if library.is_file() {
        return Ok(Some(library));
    }
    Err(format!("{name} has no shared library {}: its crate-type must contain \"cdylib\"", library.display()))
}

#[cfg(test)]
mod tests;

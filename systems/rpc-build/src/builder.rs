//! The choices of a build script, and the way from `.proto` files to Rust.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use prost_build::Config;
use prost_types::FileDescriptorSet;

use crate::descriptors;
use crate::generator::CallGenerator;
use crate::names::CODEGEN;

/// The choices, all at their defaults: client and server, in Cargo's `OUT_DIR`.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// longarm_rpc_build::configure()
///     .build_server(false)
///     .bytes(["."])
///     .compile_protos(&["proto/greeter.proto"], &["proto"])
/// # }
/// ```
pub fn configure() -> Builder {
    let mut config = Config::new();
    config.prost_path(format!("{CODEGEN}::prost")).prost_types_path(format!("{CODEGEN}::prost_types"));
    Builder { client: true, server: true, skip_streaming: false, out_dir: None, descriptor_set: None, config }
}

/// The choices of a build script; [`configure`] makes it.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    client: bool,
    server: bool,
    skip_streaming: bool,
    out_dir: Option<PathBuf>,
    descriptor_set: Option<PathBuf>,
    config: Config,
}

impl Builder {
    /// Whether to generate clients.
    pub fn build_client(mut self, enable: bool) -> Builder {
        self.client = enable;
        self
    }

    /// Whether to generate servers and their traits.
    pub fn build_server(mut self, enable: bool) -> Builder {
        self.server = enable;
        self
    }

    /// Leaves methods with streams out instead of refusing their file. Nothing is generated for them on either side.
    pub fn skip_streaming(mut self, enable: bool) -> Builder {
        self.skip_streaming = enable;
        self
    }

    /// Writes to this directory instead of Cargo's `OUT_DIR`, and makes it.
    pub fn out_dir(mut self, directory: impl AsRef<Path>) -> Builder {
        self.out_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// Also writes the encoded `FileDescriptorSet` of all files to this path.
    pub fn file_descriptor_set_path(mut self, path: impl AsRef<Path>) -> Builder {
        self.descriptor_set = Some(path.as_ref().to_owned());
        self
    }

    /// Takes the messages of a package, or one message, from elsewhere: `(".greeter", "crate::messages")`. Passed on to
    /// [`Config::extern_path`].
    pub fn extern_path(mut self, proto_path: impl Into<String>, rust_path: impl Into<String>) -> Builder {
        self.config.extern_path(proto_path, rust_path);
        self
    }

    /// Adds an attribute to matching types. Passed on to [`Config::type_attribute`].
    pub fn type_attribute(mut self, path: impl AsRef<str>, attribute: impl AsRef<str>) -> Builder {
        self.config.type_attribute(path, attribute);
        self
    }

    /// Adds an attribute to matching fields. Passed on to [`Config::field_attribute`].
    pub fn field_attribute(mut self, path: impl AsRef<str>, attribute: impl AsRef<str>) -> Builder {
        self.config.field_attribute(path, attribute);
        self
    }

    /// Makes matching `bytes` fields of type `Bytes`, which share the received message instead of copying it. Passed on to
    /// [`Config::bytes`].
    pub fn bytes<S: AsRef<str>>(mut self, paths: impl IntoIterator<Item = S>) -> Builder {
        self.config.bytes(paths);
        self
    }

    /// Changes any other choice of prost-build.
    pub fn configure_prost(mut self, change: impl FnOnce(&mut Config)) -> Builder {
        change(&mut self.config);
        self
    }

    /// Compiles `.proto` files, which lie below one of the `includes`, and generates their code.
    ///
    /// # Errors
    /// Errors in the files, with their place; a method with streams; files that cannot be read or written.
    pub fn compile_protos(self, protos: &[impl AsRef<Path>], includes: &[impl AsRef<Path>]) -> io::Result<()> {
        let mut compiler = protox::Compiler::new(includes).map_err(io::Error::other)?;
        compiler.include_imports(true).include_source_info(true);
        compiler.open_files(protos).map_err(io::Error::other)?;
        if env::var_os("OUT_DIR").is_some() {
            for path in compiler.files().filter_map(|file| file.path()) {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
        self.compile_fds(compiler.file_descriptor_set())
    }

    /// Generates the code of files that are compiled already.
    ///
    /// # Errors
    /// A method with streams; files that cannot be written.
    pub fn compile_fds(mut self, mut files: FileDescriptorSet) -> io::Result<()> {
        if !self.skip_streaming {
            descriptors::refuse_streams(&files)?;
        }
        let directory = self.directory()?;
        std::fs::create_dir_all(&directory)?;
        if self.server {
            descriptors::write_packages(&files, &directory)?;
        }
        if let Some(path) = &self.descriptor_set {
            descriptors::write(&files, path)?;
        }
        files.file.retain(|file| file.package() != "google.protobuf");
        let generator = CallGenerator { client: self.client, server: self.server };
        self.config.service_generator(Box::new(generator)).out_dir(directory).compile_fds(files)
    }

    fn directory(&self) -> io::Result<PathBuf> {
        let directory = self.out_dir.clone().or_else(|| env::var_os("OUT_DIR").map(PathBuf::from));
        directory.ok_or_else(|| io::Error::other("OUT_DIR is not set: call this from a build script, or set `out_dir`"))
    }
}

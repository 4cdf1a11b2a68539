//! The descriptions of compiled files: what they must not contain, and the sets that servers carry for reflection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto};

/// Refuses files that have a method with a stream.
pub(crate) fn refuse_streams(files: &FileDescriptorSet) -> io::Result<()> {
    for file in &files.file {
        for service in &file.service {
            if let Some(method) = service.method.iter().find(|method| has_stream(method)) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, refusal(file, service.name(), method.name())));
            }
        }
    }
    Ok(())
}

fn has_stream(method: &MethodDescriptorProto) -> bool {
    method.client_streaming() || method.server_streaming()
}

fn refusal(file: &FileDescriptorProto, service: &str, method: &str) -> String {
    let service = qualified(file.package(), service);
    format!(
        "{}: the method /{service}/{method} has a stream, and a call of longarm-rpc has one request and one reply. \
         Use tonic over longarm-stream for streams (docs/streams.md of Longarm). \
         `skip_streaming(true)` leaves such methods out here.",
        file.name()
    )
}

/// The name with its package.
pub(crate) fn qualified(package: &str, name: &str) -> String {
    if package.is_empty() { name.to_owned() } else { format!("{package}.{name}") }
}

/// The name of the file with the set of a package.
pub(crate) fn set_name(package: &str) -> String {
    format!("{}.descriptors.bin", if package.is_empty() { "_" } else { package })
}

/// Writes for each package with a service the set of its files and of all that these import.
pub(crate) fn write_packages(files: &FileDescriptorSet, directory: &Path) -> io::Result<()> {
    let packages: BTreeSet<_> = files.file.iter().filter(|f| !f.service.is_empty()).map(|f| f.package()).collect();
    packages.iter().try_for_each(|package| write(&closure(files, package), &directory.join(set_name(package))))
}

/// The files of the package and all that they import, in the same order, without comments.
fn closure(files: &FileDescriptorSet, package: &str) -> FileDescriptorSet {
    let by_name: BTreeMap<&str, &FileDescriptorProto> = files.file.iter().map(|file| (file.name(), file)).collect();
    let mut needed = BTreeSet::new();
    let mut open: Vec<&str> = files.file.iter().filter(|f| f.package() == package).map(|f| f.name()).collect();
    while let Some(name) = open.pop() {
        if needed.insert(name) {
            let imports = by_name.get(name).map_or(&[][..], |file| &file.dependency);
            open.extend(imports.iter().map(String::as_str));
        }
    }
    let chosen = files.file.iter().filter(|file| needed.contains(file.name()));
    let file = chosen.map(|file| FileDescriptorProto { source_code_info: None, ..file.clone() }).collect();
    FileDescriptorSet { file }
}

/// Writes a set, unless the file has these bytes already.
pub(crate) fn write(files: &FileDescriptorSet, path: &Path) -> io::Result<()> {
    let bytes = files.encode_to_vec();
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::write(path, bytes)
}

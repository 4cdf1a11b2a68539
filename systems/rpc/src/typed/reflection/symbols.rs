//! The symbols that files define.

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The services, methods, messages and enums of an encoded `FileDescriptorSet`, with their packages. None if it does not
/// decode.
pub(super) fn symbols_of(set: &[u8]) -> Vec<String> {
    let mut symbols = Vec::new();
    for file in FileDescriptorSet::decode(set).unwrap_or_default().file {
        add_file(&file, &mut symbols);
    }
    symbols
}

fn add_file(file: &FileDescriptorProto, symbols: &mut Vec<String>) {
    let package = file.package();
    for service in &file.service {
        let name = inside(package, service.name());
        symbols.extend(service.method.iter().map(|method| inside(&name, method.name())));
        symbols.push(name);
    }
    symbols.extend(file.enum_type.iter().map(|item| inside(package, item.name())));
    file.message_type.iter().for_each(|message| add_message(package, message, symbols));
}

fn add_message(scope: &str, message: &DescriptorProto, symbols: &mut Vec<String>) {
    let name = inside(scope, message.name());
    symbols.extend(message.enum_type.iter().map(|item| inside(&name, item.name())));
    message.nested_type.iter().for_each(|nested| add_message(&name, nested, symbols));
    symbols.push(name);
}

fn inside(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

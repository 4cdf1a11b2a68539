//! Descriptors in the words of a `.proto` file.

use std::collections::HashSet;
use std::fmt::Write;

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor, ServiceDescriptor,
};

use super::find_method;
use super::names::SymbolName;

/// The symbol in words; `None` if the files do not define it.
pub(super) fn describe(pool: &DescriptorPool, name: &SymbolName) -> Option<String> {
    if let Some(service) = pool.get_service_by_name(name.dotted()) {
        return Some(service_text(&service));
    }
    if let Some(method) = find_method(pool, name) {
        let messages = messages_text([Kind::Message(method.input()), Kind::Message(method.output())]);
        return Some(format!("{}\n{messages}", method_text(&method)));
    }
    if let Some(message) = pool.get_message_by_name(name.dotted()) {
        return Some(messages_text([Kind::Message(message)]));
    }
    pool.get_enum_by_name(name.dotted()).map(|item| enum_text(&item))
}

fn service_text(service: &ServiceDescriptor) -> String {
    let methods: String = service.methods().map(|method| format!("  {}", method_text(&method))).collect();
    format!("service {} {{\n{methods}}}\n", service.full_name())
}

fn method_text(method: &MethodDescriptor) -> String {
    let stream = |is_stream| if is_stream { "stream " } else { "" };
    format!(
        "rpc {}({}{}) returns ({}{});\n",
        method.name(),
        stream(method.is_client_streaming()),
        method.input().full_name(),
        stream(method.is_server_streaming()),
        method.output().full_name()
    )
}

/// The types and all that their fields use, each once. Types of `google.protobuf` have JSON of their own and are left out.
fn messages_text(first: impl IntoIterator<Item = Kind>) -> String {
    let (mut open, mut seen, mut texts): (Vec<Kind>, _, _) = (first.into_iter().collect(), HashSet::new(), Vec::new());
    open.reverse();
    while let Some(kind) = open.pop() {
        match kind {
            Kind::Message(message) if is_new(message.full_name(), &mut seen) => {
                texts.push(message_text(&message));
                open.extend(message.fields().flat_map(|field| used_by(&field)).collect::<Vec<_>>().into_iter().rev());
            }
            Kind::Enum(item) if is_new(item.full_name(), &mut seen) => texts.push(enum_text(&item)),
            _ => {}
        }
    }
    texts.join("\n")
}

fn is_new(name: &str, seen: &mut HashSet<String>) -> bool {
    !name.starts_with("google.protobuf.") && seen.insert(name.to_owned())
}

/// The type of a field; of a map, the type of its values.
fn used_by(field: &FieldDescriptor) -> Option<Kind> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => Some(entry.map_entry_value_field().kind()),
        kind => Some(kind),
    }
}

fn message_text(message: &MessageDescriptor) -> String {
    let mut text = format!("message {} {{\n", message.full_name());
    for field in message.fields().filter(|field| real_oneof(field).is_none()) {
        let _ = writeln!(text, "  {}", field_text(&field));
    }
    for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
        let fields: String = oneof.fields().map(|field| format!("    {}\n", field_text(&field))).collect();
        let _ = writeln!(text, "  oneof {} {{\n{fields}  }}", oneof.name());
    }
    text + "}\n"
}

fn real_oneof(field: &FieldDescriptor) -> Option<()> {
    field.containing_oneof().filter(|oneof| !oneof.is_synthetic()).map(drop)
}

fn field_text(field: &FieldDescriptor) -> String {
    let kind = match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
            format!("map<{}, {}>", kind_name(&key), kind_name(&value))
        }
        kind if field.is_list() => format!("repeated {}", kind_name(&kind)),
        kind if field.containing_oneof().is_some_and(|oneof| oneof.is_synthetic()) => {
            format!("optional {}", kind_name(&kind))
        }
        kind => kind_name(&kind),
    };
    format!("{kind} {} = {};", field.name(), field.number())
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(item) => item.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

fn enum_text(item: &EnumDescriptor) -> String {
    let values: String = item.values().map(|value| format!("  {} = {};\n", value.name(), value.number())).collect();
    format!("enum {} {{\n{values}}}\n", item.full_name())
}

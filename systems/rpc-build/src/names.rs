//! Names and comments in generated code.

use prost_build::{Comments, Method, Service};

use crate::descriptors::qualified;

/// The path of the re-exports in generated code.
pub(crate) const CODEGEN: &str = "::longarm_rpc::codegen";

/// The service's name as part of a module's name, as tonic writes it: `MyService` is `my_service`, `HTTPServer` is
/// `h_t_t_p_server`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// The types of request and reply, as a module inside the package's module names them.
pub(crate) fn types_of(method: &Method) -> (String, String) {
    (from_inside(&method.input_type), from_inside(&method.output_type))
}

/// A type's path as a module inside the package's module names it. prost-build gives paths from the package's module, and for
/// well-known types absolute ones and primitive types.
fn from_inside(path: &str) -> String {
    const PRIMITIVE: &[&str] = &["()", "bool", "i32", "i64", "u32", "u64", "f32", "f64"];
    let is_absolute = path.starts_with("::") || path.starts_with("crate::") || PRIMITIVE.contains(&path);
    if is_absolute { path.to_owned() } else { format!("super::{path}") }
}

/// The methods that have one request and one reply.
pub(crate) fn unary(service: &Service) -> impl Iterator<Item = &Method> {
    service.methods.iter().filter(|method| !method.client_streaming && !method.server_streaming)
}

/// The name of the service with its package.
pub(crate) fn name_of(service: &Service) -> String {
    qualified(&service.package, &service.proto_name)
}

/// The path of the method.
pub(crate) fn path_of(service: &Service, method: &Method) -> String {
    format!("/{}/{}", name_of(service), method.proto_name)
}

/// The comments of the `.proto` file as documentation.
pub(crate) fn documentation(comments: &Comments) -> String {
    let mut text = String::new();
    let documentation = Comments { leading_detached: Vec::new(), ..comments.clone() };
    documentation.append_with_indent(0, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_the_names_that_tonic_gives_them() {
        assert_eq!(snake_case("Greeter"), "greeter");
        assert_eq!(snake_case("KeyValue2"), "key_value2");
        assert_eq!(snake_case("HTTPServer"), "h_t_t_p_server");
    }

    #[test]
    fn only_paths_from_the_package_change() {
        assert_eq!(from_inside("Reply"), "super::Reply");
        assert_eq!(from_inside("super::common::Key"), "super::super::common::Key");
        assert_eq!(from_inside("()"), "()");
        assert_eq!(from_inside("::longarm_rpc::codegen::prost_types::Any"), "::longarm_rpc::codegen::prost_types::Any");
        assert_eq!(from_inside("crate::messages::Key"), "crate::messages::Key");
    }
}

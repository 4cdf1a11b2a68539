//! The generator that prost-build calls for each service.

use prost_build::{Comments, Method, Service, ServiceGenerator};

use crate::descriptors::qualified;
use crate::{client, server};

/// Generates the modules of a service; methods with streams are left out.
#[derive(Debug)]
pub(crate) struct CallGenerator {
    pub(crate) client: bool,
    pub(crate) server: bool,
}

impl ServiceGenerator for CallGenerator {
    fn generate(&mut self, service: Service, out: &mut String) {
        if self.client {
            client::generate(&service, out);
        }
        if self.server {
            server::generate(&service, out);
        }
    }
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

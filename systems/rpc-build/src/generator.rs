//! The generator that prost-build calls for each service.

use prost_build::{Service, ServiceGenerator};

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

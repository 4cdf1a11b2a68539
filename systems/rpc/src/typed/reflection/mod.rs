//! Reflection: the service `longarm.rpc.Reflection`, which tells the services of a server.

mod symbols;

use std::collections::HashMap;

use bytes::Bytes;

use crate::message::{Request, Response};
use crate::service::{IntoMethods, Methods};
use crate::status::Status;
use generated::reflection_server::{Reflection, ReflectionServer};

pub use generated::reflection_client::{self, ReflectionClient};
pub use generated::{DescribeSymbolReply, DescribeSymbolRequest, ListServicesReply, ListServicesRequest, ServiceInfo};

/// The code that longarm-rpc-build made of `proto/reflection.proto`. A test of that crate makes it anew and compares.
pub(crate) mod generated {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    include!("generated/longarm.rpc.rs");
}

/// The service `longarm.rpc.Reflection`, which tells the services of a server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), longarm_rpc::Status> {
/// use longarm_rpc::reflection::{ListServicesRequest, ReflectionClient, ServiceCatalog};
/// use longarm_rpc::{Method, Methods, Router};
///
/// let mut router = Router::default();
/// router.add(Methods::new("sum.Sum").direct_unary(Method::new("/sum.Sum/Next"), |n: u64| Ok(n + 1)))?;
/// router.add(ServiceCatalog::of(router.services()))?;
///
/// let listed = ReflectionClient::new(router).list_services(ListServicesRequest {}).await?;
/// let names: Vec<_> = listed.into_inner().services.into_iter().map(|service| service.name).collect();
/// assert_eq!(names, ["longarm.rpc.Reflection", "sum.Sum"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServiceCatalog {
    services: Vec<ServiceInfo>,
    /// The set of files that defines a symbol.
    sets: HashMap<String, &'static [u8]>,
}

impl ServiceCatalog {
    /// A catalog of these services and of itself.
    pub fn of(services: &[Methods]) -> ServiceCatalog {
        let mut catalog = ServiceCatalog::default();
        let own = ReflectionServer::new(ServiceCatalog::default()).into_methods();
        services.iter().chain([&own]).for_each(|methods| catalog.add(methods));
        catalog.services.sort_by(|one, other| one.name.cmp(&other.name));
        catalog
    }

    fn add(&mut self, methods: &Methods) {
        let set = methods.descriptor();
        let symbols = set.map(symbols::symbols_of).unwrap_or_default();
        let is_described = symbols.iter().any(|symbol| symbol == methods.name());
        let (name, paths) = (methods.name().to_owned(), methods.paths().map(String::from).collect());
        self.services.push(ServiceInfo { name, methods: paths, is_described });
        for (symbol, set) in symbols.into_iter().zip(std::iter::repeat(set.unwrap_or_default())) {
            self.sets.entry(symbol).or_insert(set);
        }
    }
}

impl IntoMethods for ServiceCatalog {
    fn into_methods(self) -> Methods {
        ReflectionServer::new(self).into_methods()
    }
}

#[async_trait::async_trait]
impl Reflection for ServiceCatalog {
    async fn list_services(&self, _: Request<ListServicesRequest>) -> Result<Response<ListServicesReply>, Status> {
        Ok(Response::new(ListServicesReply { services: self.services.clone() }))
    }

    async fn describe_symbol(
        &self,
        request: Request<DescribeSymbolRequest>,
    ) -> Result<Response<DescribeSymbolReply>, Status> {
        let symbol = request.into_inner().symbol;
        match self.sets.get(&symbol) {
            Some(set) => Ok(Response::new(DescribeSymbolReply { file_descriptor_set: Bytes::from_static(set) })),
            None => Err(Status::not_found(format!("no file of this server defines {symbol}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::generated::reflection_server;
    use super::*;
    use crate::code::Code;
    use crate::service::{Method, Router};

    fn client() -> ReflectionClient<Router> {
        let mut router = Router::default();
        router.add(Methods::new("sum.Sum").direct_unary(Method::new("/sum.Sum/Next"), |n: u64| Ok(n + 1))).unwrap();
        router.add(ServiceCatalog::of(router.services())).unwrap();
        ReflectionClient::new(router)
    }

    #[tokio::test]
    async fn services_are_listed_with_their_methods() {
        let services = client().list_services(ListServicesRequest {}).await.unwrap().into_inner().services;
        let methods = vec!["/sum.Sum/Next".to_string()];
        assert_eq!(services[1], ServiceInfo { name: "sum.Sum".into(), methods, is_described: false });
        assert!(services[0].is_described);
        assert_eq!(services[0].name, reflection_server::SERVICE_NAME);
    }

    #[tokio::test]
    async fn symbols_lead_to_their_files() {
        for symbol in ["longarm.rpc.Reflection", "longarm.rpc.Reflection.ListServices", "longarm.rpc.ServiceInfo"] {
            let reply = client().describe_symbol(DescribeSymbolRequest { symbol: symbol.into() }).await.unwrap();
            assert_eq!(reply.get_ref().file_descriptor_set, reflection_server::FILE_DESCRIPTOR_SET, "{symbol}");
        }
        let symbol = "sum.Sum".to_string();
        let status = client().describe_symbol(DescribeSymbolRequest { symbol }).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
    }
}

//! Calls by name, with JSON in place of messages: for tools that know no service.

mod describe;
mod names;

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions};
use tower_service::Service;

use super::errors::BoxError;
use super::exchange::exchange;
use super::reflection::{DescribeSymbolRequest, ListServicesRequest, ReflectionClient, ServiceInfo};
use crate::code::Executed;
use crate::message::{Request, Response};
use crate::service::{Call, Method};
use crate::status::Status;
use names::SymbolName;

/// A client that learns the services of a server by reflection, and whose requests and replies are JSON.
///
/// The server must have the service `longarm.rpc.Reflection` ([`ServiceCatalog`](crate::reflection::ServiceCatalog)). JSON is that of Protocol Buffers (ProtoJSON).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), longarm_rpc::Status> {
/// use longarm_rpc::reflection::ServiceCatalog;
/// use longarm_rpc::{JsonClient, Request, Router};
///
/// let mut router = Router::default();
/// router.add(ServiceCatalog::of(router.services()))?;
/// let mut client = JsonClient::new(router);
/// let reply = client.call("longarm.rpc.Reflection/ListServices", Request::new("{}")).await?;
/// assert!(reply.get_ref().contains("longarm.rpc.Reflection"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct JsonClient<T> {
    channel: T,
    /// By symbol, the files that define it.
    known: HashMap<String, DescriptorPool>,
}

impl<T> JsonClient<T>
where
    T: Service<Call, Response = Response<Bytes>>,
    T::Error: Into<BoxError>,
{
    /// A client whose calls go to this channel.
    pub fn new(channel: T) -> JsonClient<T> {
        JsonClient { channel, known: HashMap::new() }
    }

    /// The services of the server, by name.
    ///
    /// # Errors
    /// The status of the call; [`Code::Unimplemented`](crate::Code::Unimplemented) if the server has no reflection.
    pub async fn services(&mut self) -> Result<Vec<ServiceInfo>, Status> {
        let listed = ReflectionClient::new(&mut self.channel).list_services(ListServicesRequest {}).await?;
        Ok(listed.into_inner().services)
    }

    /// A service, method, message or enum in the words of a `.proto` file; a method with its messages. Methods are
    /// `package.Service/Method` or `package.Service.Method`.
    ///
    /// # Errors
    /// The status of the call; [`Code::NotFound`](crate::Code::NotFound) if no file of the server defines it.
    pub async fn describe(&mut self, symbol: &str) -> Result<String, Status> {
        let name = SymbolName::new(symbol);
        let pool = self.files_of(&name).await?;
        describe::describe(&pool, &name).ok_or_else(|| missing(&name))
    }

    /// Calls `package.Service/Method`. The request is a JSON object; nothing stands for an empty one. The reply has all
    /// fields, also those at their defaults.
    ///
    /// # Errors
    /// The status of the call; [`Code::InvalidArgument`](crate::Code::InvalidArgument) if the JSON does not fit the
    /// request's message.
    pub async fn call(&mut self, method: &str, request: Request<&str>) -> Result<Response<String>, Status> {
        let name = SymbolName::new(method);
        let descriptor = find_method(&self.files_of(&name).await?, &name).ok_or_else(|| missing(&name))?;
        if descriptor.is_client_streaming() || descriptor.is_server_streaming() {
            let words = format!("{name} has a stream, which a call of longarm-rpc does not carry");
            return Err(Status::unimplemented(words).with_executed(Executed::No));
        }
        let message = from_json(descriptor.input(), request.get_ref())?;
        let service = descriptor.parent_service().full_name().to_owned();
        let method = Method::new(names::kept(&format!("/{service}/{}", descriptor.name())));
        let request = request.map(|_| Bytes::from(message.encode_to_vec()));
        let (reply, metadata) = exchange(&mut self.channel, Call { method, request }).await?.into_parts();
        let reply = DynamicMessage::decode(descriptor.output(), reply).map_err(|error| broken("reply", &error))?;
        Ok(Response::from_parts(to_json(&reply)?, metadata))
    }

    /// The files that define a symbol, from the server if they are not known yet.
    async fn files_of(&mut self, name: &SymbolName) -> Result<DescriptorPool, Status> {
        if let Some(pool) = self.known.get(name.dotted()) {
            return Ok(pool.clone());
        }
        let symbol = name.dotted().to_owned();
        let mut reflection = ReflectionClient::new(&mut self.channel);
        let reply = reflection.describe_symbol(DescribeSymbolRequest { symbol: symbol.clone() }).await?;
        let set = reply.into_inner().file_descriptor_set;
        let pool = DescriptorPool::decode(set).map_err(|error| broken("description of the service", &error))?;
        self.known.insert(symbol, pool.clone());
        Ok(pool)
    }
}

fn find_method(pool: &DescriptorPool, name: &SymbolName) -> Option<MethodDescriptor> {
    let mut methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    methods.find(|method| method.full_name() == name.dotted())
}

fn from_json(message: MessageDescriptor, text: &str) -> Result<DynamicMessage, Status> {
    let name = message.full_name().to_owned();
    let wrong = |error: serde_json::Error| {
        let words = format!("the request is no JSON for {name}: {error}");
        Status::invalid_argument(words).with_executed(Executed::No)
    };
    let mut json = serde_json::Deserializer::from_str(if text.trim().is_empty() { "{}" } else { text });
    let decoded = DynamicMessage::deserialize(message, &mut json).map_err(wrong)?;
    json.end().map_err(wrong)?;
    Ok(decoded)
}

fn to_json(message: &DynamicMessage) -> Result<String, Status> {
    let mut out = serde_json::Serializer::pretty(Vec::new());
    let done = message.serialize_with_options(&mut out, &SerializeOptions::new().skip_default_fields(false));
    done.map_err(|error| broken("reply", &error))?;
    Ok(String::from_utf8_lossy(&out.into_inner()).into_owned())
}

fn missing(name: &SymbolName) -> Status {
    Status::not_found(format!("the files of the server do not define {name}")).with_executed(Executed::No)
}

fn broken(thing: &str, error: &dyn std::fmt::Display) -> Status {
    Status::internal(format!("the {thing} cannot be decoded: {error}"))
}

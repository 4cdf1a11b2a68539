//! All connections of one process.

use core::time::Duration;

use wire::mad::MAD_LEN;

use crate::call::{ConnId, ConnectReply, ConnectRequest, Route, SidrReply, SidrRequest};
use crate::config::Config;
use crate::error::Error;
use crate::event::{Farewell, Output};
use crate::ids::Ids;

/// All connections of one process.
#[derive(Debug)]
pub struct Manager {
    ids: Ids,
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl Manager {
    pub fn new(config: Config) -> Manager {
        Manager { ids: Ids::new(config.number, config.seed) }
    }
    pub fn set_number(&mut self, number: u16) {
        self.ids.set_number(number);
    }
    pub fn receive(&mut self, _now: Duration, _route: &Route, _mad: &[u8; MAD_LEN]) {}
    pub fn connect(&mut self, _now: Duration, _request: &ConnectRequest<'_>) -> Result<ConnId, Error> {
        Err(Error::NoIds)
    }
    pub fn accept(&mut self, _now: Duration, _id: ConnId, _reply: &ConnectReply<'_>) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    pub fn confirm(&mut self, _now: Duration, _id: ConnId, _private_data: &[u8]) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    pub fn established(&mut self, _now: Duration, _id: ConnId) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    /// MRA now.
    pub fn delay(&mut self, _now: Duration, _id: ConnId, _service_timeout: u8, _private: &[u8]) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    /// MRA only when the REQ or REP comes again (what the Linux RDMA CM does for every REQ and REP).
    pub fn delay_repeats(
        &mut self,
        _now: Duration,
        _id: ConnId,
        _service_timeout: u8,
        _private: &[u8],
    ) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    pub fn reject(
        &mut self,
        _now: Duration,
        _id: ConnId,
        _reason: u16,
        _ari: &[u8],
        _private: &[u8],
    ) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    /// DREQ if established, DREP after a DisconnectRequest.
    pub fn disconnect(&mut self, _now: Duration, _id: ConnId, _private_data: &[u8]) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    pub fn sidr_request(&mut self, _now: Duration, _request: &SidrRequest<'_>) -> Result<ConnId, Error> {
        Err(Error::NoIds)
    }
    pub fn sidr_reply(&mut self, _now: Duration, _id: ConnId, _reply: &SidrReply<'_>) -> Result<(), Error> {
        Err(Error::UnknownId)
    }
    pub fn destroy(&mut self, _now: Duration, _id: ConnId) {}
    pub fn farewell(&self, _id: ConnId) -> Option<Farewell> {
        None
    }
    pub fn next_timeout(&self) -> Option<Duration> {
        None
    }
    pub fn expire(&mut self, _now: Duration) {}
    pub fn poll(&mut self) -> Option<Output> {
        None
    }
}

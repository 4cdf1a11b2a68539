//! GETs by calls that the server's device carries out, for tasks.

use std::time::{Duration, Instant};

use async_lock::Semaphore;
use longarm::error::{PostError, WorkError};
use longarm::{Buffer, Connection, RemoteKey};
use parking_lot::Mutex;
use remote::ReadError;

use crate::client::{LookedUp, MOST_UNDER_WAY, NoDeviceGets, looked_up, must_serve};
use crate::device_get::{DeviceCall, LONGEST_KEY, REPLY_BYTES};
use crate::tasks::pause::{by, pause};

/// The pause of a call that finds the queue full: calls whose tasks were dropped are still under way.
const PAUSE: Duration = Duration::from_micros(50);

/// A client, shared by tasks, of a table whose GETs the server's device carries out.
pub(super) struct TaskDevice {
    connection: Connection,
    key: RemoteKey,
    timeout: Duration,
    spare: Mutex<Vec<Buffer>>,
    room: Semaphore,
}

impl TaskDevice {
    /// Asks the server's device whether it serves the table that `key` leads to.
    pub(super) async fn open(
        connection: Connection,
        key: RemoteKey,
        outstanding: usize,
        timeout: Duration,
    ) -> Result<TaskDevice, NoDeviceGets> {
        let room = Semaphore::new(outstanding.clamp(1, MOST_UNDER_WAY));
        let device = TaskDevice { connection, key, timeout, spare: Mutex::new(Vec::new()), room };
        match device.call(DeviceCall::AskServed).await {
            Ok(reply) => must_serve(Ok(reply))?,
            Err(ReadError::Link(error)) => must_serve(Err(error))?,
            Err(error) => return Err(NoDeviceGets::Failed(error)),
        }
        Ok(device)
    }

    /// Looks a key up, and gives the outcome to `take`. A task that is dropped meanwhile leaves nothing behind.
    pub(super) async fn get<T>(&self, key: &[u8], take: impl FnOnce(LookedUp<'_>) -> T) -> Result<T, ReadError> {
        if key.len() > LONGEST_KEY {
            return Ok(take(LookedUp::AskServer));
        }
        let _room = self.room.acquire().await;
        let reply = self.call(DeviceCall::Get(key)).await?;
        let taken = take(looked_up(&reply));
        self.spare.lock().push(reply);
        Ok(taken)
    }

    async fn call(&self, call: DeviceCall<'_>) -> Result<Buffer, ReadError> {
        let (mut request, until) = (Vec::new(), Instant::now() + self.timeout);
        call.encode(&mut request);
        loop {
            let spare = self.spare.lock().pop();
            let buffer = match spare {
                Some(buffer) => buffer,
                None => self.connection.protection_domain().allocate(REPLY_BYTES)?,
            };
            let called = by(until, self.connection.call(&request, buffer, &self.key).start()).await;
            let failure = match called.ok_or(WorkError::TimedOut(self.timeout))? {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let is_full = matches!(failure.error(), WorkError::NotPosted(PostError::QueueFull { .. }));
            if !is_full || !pause(PAUSE, until).await {
                return Err(failure.into_error().into());
            }
        }
    }
}

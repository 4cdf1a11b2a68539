//! GETs by the way that fits: chosen once by the caller, or for each request by the client.

use std::time::Instant;

use futures_util::future::{join_all, try_join_all};

use crate::client::{ChoiceKind, ChosenWay, KvValue, Searcher};
use crate::error::KvError;
use crate::tasks::pause::yield_turn;
use crate::tasks::table::AsyncKvTable;

/// Keys of a multi-get whose futures exist at a time. Other tasks have a turn between them.
const TOGETHER: usize = 256;

impl AsyncKvTable {
    /// The value of a key; `None` if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<KvValue>, KvError> {
        let chosen = self.choose(ChoiceKind::Gets(1));
        let done = match (chosen.searcher, chosen.patience) {
            (Searcher::Client, _) => self.read(key).await,
            (Searcher::Server, None) => self.ask(key, self.core.deadline()).await,
            (Searcher::Server, Some(patience)) => {
                let asked = self.ask(key, Instant::now() + patience).await;
                self.learn(chosen);
                return if matches!(asked, Err(KvError::Server(_))) { self.read(key).await } else { asked };
            }
        };
        if done.is_ok() {
            self.learn(chosen);
        }
        done
    }

    /// The values of keys, in their order, several looked up at a time.
    ///
    /// # Errors
    /// The first one.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<KvValue>>, KvError> {
        let mut values = Vec::with_capacity(keys.len());
        for (number, some) in keys.chunks(TOGETHER).enumerate() {
            if number > 0 {
                yield_turn().await;
            }
            let some: Vec<&[u8]> = some.iter().map(AsRef::as_ref).collect();
            let chosen = self.choose(ChoiceKind::Gets(some.len()));
            values.extend(self.get_by(chosen, &some).await?);
        }
        Ok(values)
    }

    /// GETs keys by a way, all at a time.
    async fn get_by(&self, chosen: ChosenWay, keys: &[&[u8]]) -> Result<Vec<Option<KvValue>>, KvError> {
        let Some(patience) = chosen.patience else {
            let done = match chosen.searcher {
                Searcher::Client => try_join_all(keys.iter().map(|key| self.read(key))).await,
                Searcher::Server => {
                    let until = self.core.deadline();
                    try_join_all(keys.iter().map(|key| self.ask(key, until))).await
                }
            }?;
            self.learn(chosen);
            return Ok(done);
        };
        let until = Instant::now() + patience;
        let asked = join_all(keys.iter().map(|key| self.ask(key, until))).await;
        self.learn(chosen);
        let or_read = keys.iter().zip(asked).map(|(key, asked)| async move {
            if matches!(asked, Err(KvError::Server(_))) { self.read(key).await } else { asked }
        });
        try_join_all(or_read).await
    }

    /// The way of a request that begins now.
    pub(super) fn choose(&self, kind: ChoiceKind) -> ChosenWay {
        let mut state = self.core.state.lock();
        let has_session = state.is_open();
        state.choices.begin(self.core.options.get, kind, has_session)
    }

    /// Learns from a request that has ended, or was given up. One whose future was dropped teaches nothing.
    pub(super) fn learn(&self, chosen: ChosenWay) {
        self.core.state.lock().choices.end(chosen);
    }
}

//! A request's place among those in flight, and what its body takes in memory.

pub(super) mod shares;

use std::sync::{Arc, Mutex, PoisonError};

use memory_core::Result;
use tokio::sync::OwnedSemaphorePermit;

use self::shares::{Share, Shares};
use crate::caller::Caller;

/// Bytes that every body may have without being counted.
const FREE: usize = 64 << 10;

/// A request's place among those in flight, and among the streams that clients send. Keep it as long as work goes on
/// after the head of the answer.
#[derive(Clone, Debug)]
pub struct Place(Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    /// What its body takes, once that is counted.
    body: Mutex<Option<Share>>,
    _shares: [Option<Share>; 2],
    _permit: OwnedSemaphorePermit,
}

tokio::task_local! {
    static OWN: Place;
}

impl Place {
    /// For a request that needs no place.
    pub(super) const NONE: Self = Self(None);

    pub(super) fn new(permit: OwnedSemaphorePermit, shares: [Option<Share>; 2]) -> Self {
        Self(Some(Arc::new(Held { body: Mutex::default(), _shares: shares, _permit: permit })))
    }

    /// Runs `future` with this as its own place.
    pub(super) async fn scope<T>(self, future: impl Future<Output = T>) -> T {
        OWN.scope(self, future).await
    }

    /// The place of the request that this task answers, for work that goes on after the client has gone.
    pub(crate) fn own() -> Option<Self> {
        OWN.try_with(Self::clone).ok()
    }
}

/// Counts what a body takes in memory until its request is answered: the whole body, or for a stream the line that is
/// still incomplete.
pub(super) struct Tally {
    place: Place,
    bodies: Arc<Shares>,
    caller: Arc<Caller>,
    is_stream: bool,
    bytes: usize,
}

impl Tally {
    pub(super) fn new(place: Place, bodies: Arc<Shares>, caller: Arc<Caller>, is_stream: bool) -> Self {
        Self { place, bodies, caller, is_stream, bytes: 0 }
    }

    /// Counts the next part.
    ///
    /// # Errors
    /// As [`Shares::take`].
    pub(super) fn add(&mut self, part: &[u8]) -> Result<()> {
        let line = part.iter().rposition(|byte| self.is_stream && *byte == b'\n');
        self.bytes = match line {
            Some(end) => part.len() - end - 1,
            None => self.bytes.saturating_add(part.len()),
        };
        let Some(held) = &self.place.0 else { return Ok(()) };
        let mut share = held.body.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *share, self.bytes.saturating_sub(FREE)) {
            (None, 0) => {}
            (None, bytes) => *share = Some(self.bodies.take(&self.caller, bytes)?),
            (Some(share), bytes) => share.resize(bytes)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;
    use tokio::sync::Semaphore;

    use super::shares::SOON;
    use super::*;
    use crate::caller::Grant;

    #[test]
    fn of_a_stream_the_line_counts_that_is_not_whole_and_of_others_all() {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let place = Place::new(permit, [None, None]);
        let bodies = Shares::new("bytes", 2 * FREE, SOON);
        let caller = Caller::new("t-1".into(), Grant::default(), &memory::Policy::default(), Arc::default());
        let caller = Arc::new(caller);
        let tally =
            |is_stream| Tally::new(place.clone(), Arc::clone(&bodies), Arc::clone(&caller), is_stream);
        let (line, rest) = (vec![b'\n'; FREE], vec![b'x'; FREE]);
        let mut stream = tally(true);
        for part in [&line, &rest, &line, &rest, &rest] {
            stream.add(part).unwrap();
        }
        assert_eq!(stream.add(b"x").unwrap_err().kind(), ErrorKind::RateLimited);
        stream.add(b"x\nx").unwrap();
        let mut whole = tally(false);
        for part in [&line, &rest] {
            whole.add(part).unwrap();
        }
        assert_eq!(whole.add(b"\n").unwrap_err().kind(), ErrorKind::RateLimited);
    }
}

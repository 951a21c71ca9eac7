//! Resources shared by many tokens, of which each may take at most half.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::{Error, ErrorKind, Result, Retry};

use crate::caller::Caller;

/// When to retry for something that is soon free again.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// When to retry for something that is held for long.
pub const LATER: Duration = Duration::from_secs(10);

/// Places, or bytes.
#[derive(Debug)]
pub struct Shares {
    what: &'static str,
    most: usize,
    wait: Duration,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    own: BTreeMap<Arc<str>, usize>,
}

/// A token's part of [`Shares`], until dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    id: Arc<str>,
    many: usize,
}

impl Shares {
    /// `what` they are, in the plural; `wait` is the advised time until a retry.
    pub fn new(what: &'static str, most: usize, wait: Duration) -> Arc<Self> {
        Arc::new(Self { what, most, wait, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes this many for a caller.
    ///
    /// # Errors
    /// `rate_limited` if that exceeds its share, `unavailable` if none are left.
    pub fn take(self: &Arc<Self>, caller: &Caller, many: usize) -> Result<Share> {
        let mut share = Share { of: Arc::clone(self), id: Arc::clone(caller.shared_id()), many: 0 };
        share.resize(many)?;
        Ok(share)
    }
}

impl Share {
    /// Makes it so many.
    ///
    /// # Errors
    /// Those of [`Shares::take`]; the share is then unchanged.
    pub(crate) fn resize(&mut self, many: usize) -> Result<()> {
        let Shares { what, most, wait, .. } = &*self.of;
        let wait = Retry::After(*wait);
        let half = (most / 2).max(1);
        let mut taken = self.of.taken();
        let others = taken.own.get(&self.id).map_or(0, |own| own - self.many);
        let (own, all) = (others.saturating_add(many), (taken.all - self.many).saturating_add(many));
        if many > self.many && own > half {
            let text =
                format!("the token `{}` may have {half} {what}, its share; end some, or try later", self.id);
            return Err(Error::new(ErrorKind::RateLimited, text).with_retry(wait));
        }
        if many > self.many && all > *most {
            let text = format!("there may be {most} {what}, and no more are left; try later");
            return Err(Error::new(ErrorKind::Unavailable, text).with_retry(wait));
        }
        taken.all = all;
        if own == 0 {
            taken.own.remove(&self.id);
        } else {
            taken.own.insert(Arc::clone(&self.id), own);
        }
        self.many = many;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Less is never refused.
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Grant;

    fn caller(id: &str) -> Caller {
        Caller::new(id.into(), Grant::default(), &memory::Policy::default(), Arc::default())
    }

    #[test]
    fn a_token_has_half_of_the_places_and_the_last_one_is_refused_to_all() {
        let (ann, bob, eve) = (caller("t-1"), caller("t-2"), caller("t-3"));
        let shares = Shares::new("streams", 4, LATER);
        let refused = |of| {
            let error: Error = shares.take(of, 1).unwrap_err();
            assert_eq!(error.retry(), Retry::After(Duration::from_secs(10)));
            error.kind()
        };
        let mut kept = vec![shares.take(&ann, 1).unwrap(), shares.take(&ann, 1).unwrap()];
        assert_eq!(refused(&ann), ErrorKind::RateLimited);
        kept.extend([shares.take(&bob, 1).unwrap(), shares.take(&bob, 1).unwrap()]);
        assert_eq!(refused(&eve), ErrorKind::Unavailable);
        drop(kept.remove(0));
        shares.take(&ann, 1).unwrap();
        drop(kept);
        let taken = shares.taken();
        assert!(taken.all == 0 && taken.own.is_empty(), "who has no place is not kept");
    }

    #[test]
    fn what_grows_is_refused_whole_and_what_shrinks_is_free_again() {
        let (ann, bob) = (caller("t-1"), caller("t-2"));
        let bytes = Shares::new("bytes", 100, SOON);
        let mut own = bytes.take(&ann, 30).unwrap();
        own.resize(50).unwrap();
        assert_eq!(own.resize(51).unwrap_err().kind(), ErrorKind::RateLimited);
        let mut of_bob = bytes.take(&bob, 50).unwrap();
        assert_eq!(bytes.take(&caller("t-3"), 1).unwrap_err().kind(), ErrorKind::Unavailable);
        own.resize(10).unwrap();
        let third = bytes.take(&caller("t-3"), 40).unwrap();
        of_bob.resize(0).unwrap();
        drop((own, third));
        let taken = bytes.taken();
        assert!(taken.all == 0 && taken.own.is_empty());
    }
}

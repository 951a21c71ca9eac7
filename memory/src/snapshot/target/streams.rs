//! The sections of a snapshot's scope, as streams for a store.

use std::io::{BufRead, Seek};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use memory_core::{Record, Result, Stream, Timestamp};

use super::super::control::Control;
use super::super::format::scanner::{Item, Scanner};
use super::tombstones::ScopeTombstones;

/// The file, shared with the streams that the store reads from.
pub(in crate::snapshot) type File<R> = Arc<Mutex<Scanner<R>>>;

pub(in crate::snapshot) fn lock<R>(file: &File<R>) -> MutexGuard<'_, Scanner<R>> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The records of the next scope in the file, ending with the digest that verifies them.
pub(in crate::snapshot) struct Records<R> {
    file: File<R>,
    control: Control,
    ended: bool,
}

impl<R> Records<R> {
    pub(in crate::snapshot) fn of(file: &File<R>, control: &Control) -> Self {
        Self { file: Arc::clone(file), control: control.clone(), ended: false }
    }
}

impl<R: BufRead + Seek + Send + 'static> Stream for Records<R> {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = loop {
            if self.ended {
                break None;
            }
            let item = self.control.go_on().and_then(|()| lock(&self.file).next());
            match item {
                Ok(Item::Record(record)) => break Some(Ok(*record)),
                Ok(Item::Scope(_) | Item::Tombstones(_)) => {}
                Ok(_) => {
                    self.ended = true;
                }
                Err(error) => {
                    self.ended = true;
                    break Some(Err(error));
                }
            }
        };
        Poll::Ready(item)
    }
}

/// Records of a copy, without those forgotten after it was taken, followed by what has been written under their keys
/// since.
pub(in crate::snapshot) struct Beside<S> {
    pub(in crate::snapshot) records: S,
    pub(in crate::snapshot) buried: ScopeTombstones,
    pub(in crate::snapshot) taken: Timestamp,
    pub(in crate::snapshot) later: std::vec::IntoIter<Record>,
}

impl<S: Stream<Item = Result<Record>> + Unpin> Stream for Beside<S> {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.records).poll_next(context)) {
                Some(Ok(record)) if self.buried.leaves_out(&record.entry.key, self.taken) => {}
                Some(item) => return Poll::Ready(Some(item)),
                None => return Poll::Ready(self.later.next().map(Ok)),
            }
        }
    }
}

/// The dump of the next scope in the file, ending with the digest that verifies it.
pub(in crate::snapshot) struct Dump<R> {
    file: File<R>,
    control: Control,
    ended: bool,
}

impl<R> Dump<R> {
    pub(in crate::snapshot) fn of(file: &File<R>, control: &Control) -> Self {
        Self { file: Arc::clone(file), control: control.clone(), ended: false }
    }
}

impl<R: BufRead + Seek + Send + 'static> Stream for Dump<R> {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = loop {
            if self.ended {
                break None;
            }
            let item = self.control.go_on().and_then(|()| lock(&self.file).next());
            match item {
                Ok(Item::Sql(line)) => break Some(Ok(line)),
                Ok(Item::SqlEnd(_) | Item::ScopeEnd(_) | Item::ScopeSkipped(_) | Item::End) => {
                    self.ended = true;
                }
                Ok(
                    Item::Scope(_)
                    | Item::Tombstones(_)
                    | Item::Record(_)
                    | Item::EntriesEnd
                    | Item::SqlBegin,
                ) => {}
                Err(error) => {
                    self.ended = true;
                    break Some(Err(error));
                }
            }
        };
        Poll::Ready(item)
    }
}

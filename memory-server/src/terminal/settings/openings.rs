//! The stores that a program has opened, to be closed at its end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use memory::{Access, Memory};
use memory_core::Result;

/// Opened stores are registered here to be closed; clones share the list.
#[derive(Clone, Default)]
pub(crate) struct Openings {
    opened: Arc<Mutex<Vec<Memory>>>,
    /// For a shell: stores that later commands may reuse.
    kept: Option<Arc<Mutex<Vec<Kept>>>>,
}

/// What an opened store depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) store: String,
    pub(super) tenant: String,
    pub(super) embedder: Option<String>,
    pub(super) hosts: Vec<String>,
    /// The configuration, and when it was written.
    pub(super) config: Option<(PathBuf, Option<SystemTime>)>,
}

struct Kept {
    key: Key,
    access: Access,
    memory: Memory,
}

impl Openings {
    /// The same, but keeping stores for later commands.
    pub(crate) fn keeping(&self) -> Self {
        Self { opened: self.opened.clone(), kept: Some(Arc::default()) }
    }

    /// A store that was opened with this key, for this access or more.
    pub(super) fn kept(&self, key: &Key, access: Access) -> Option<Memory> {
        let kept = self.kept.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let serves = |kept: &&Kept| kept.key == *key && includes(kept.access, access);
        kept.iter().rfind(serves).map(|kept| kept.memory.clone())
    }

    /// Keeps a store for later commands, if there may be any.
    pub(super) fn keep(&self, key: Key, access: Access, memory: &Memory) {
        if let Some(kept) = &self.kept {
            let memory = memory.clone();
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(Kept { key, access, memory });
        }
    }

    /// Registers a store to be closed at the end of the program.
    pub(crate) fn closing(&self, memory: Memory) -> Memory {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(memory.clone());
        memory
    }

    /// Closes them.
    ///
    /// # Errors
    /// The first error of [`close`](memory_core::Provider::close); all are closed anyway.
    pub(crate) async fn close(&self) -> Result<()> {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        let mut closed = Ok(());
        for memory in opened {
            closed = closed.and(memory.close().await);
        }
        closed
    }
}

/// Whether a store opened for `kept` can serve `wanted`.
fn includes(kept: Access, wanted: Access) -> bool {
    kept == wanted || matches!((kept, wanted), (Access::Create, _) | (Access::Existing, Access::Read))
}

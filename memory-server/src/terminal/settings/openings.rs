//! The stores that a program opened, to be closed at its end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use memory::{Access, Memory};
use memory_core::Result;

/// Whoever opens a store has it closed here; clones share the list.
#[derive(Clone, Default)]
pub(crate) struct Openings {
    opened: Arc<Mutex<Vec<Memory>>>,
    /// For a shell: what the next command may use, too.
    kept: Option<Arc<Mutex<Vec<Kept>>>>,
}

/// What an opening depends on.
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
    /// The same, which keeps stores for later commands.
    pub(crate) fn keeping(&self) -> Self {
        Self { opened: self.opened.clone(), kept: Some(Arc::default()) }
    }

    /// A store that was opened so, for this access or more.
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

    /// Has a store closed at the end of the program.
    pub(crate) fn closing(&self, memory: Memory) -> Memory {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(memory.clone());
        memory
    }

    /// Closes them.
    ///
    /// # Errors
    /// The first error of [`close`](memory_core::Provider::close); all are closed nevertheless.
    pub(crate) async fn close(&self) -> Result<()> {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
        let mut closed = Ok(());
        for memory in opened {
            closed = closed.and(memory.close().await);
        }
        closed
    }
}

/// Whether what was opened for `kept` serves whoever asks for `wanted`.
fn includes(kept: Access, wanted: Access) -> bool {
    kept == wanted || matches!((kept, wanted), (Access::Create, _) | (Access::Existing, Access::Read))
}

//! What an `add` would do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use memory_core::checked::check_messages;
use memory_core::layer::{AddOptions, AddOutcome, AddStatus, FactId, Message};
use memory_core::{Backend, Result, Scope};

use crate::add::{is_kept, turns};
use crate::known::{Said, sort};
use crate::store::digest;
use crate::store::log::Log;

/// Answers what each of several `add`s would do, without storing anything: each sees what the earlier ones would have
/// stored. Vectors are not computed.
#[derive(Debug)]
pub struct AddPlan<'a> {
    backend: &'a dyn Backend,
    max_value_bytes: usize,
    /// The content of what would be stored, by digest; digests differ between scopes.
    stored: BTreeMap<Digest, Digest>,
}

/// The first bytes of a digest in hexadecimal, which are all of it.
type Digest = [u8; 32];

impl<'a> AddPlan<'a> {
    /// Plans for a store with values of at most this many bytes.
    #[must_use]
    pub fn new(backend: &'a dyn Backend, max_value_bytes: usize) -> Self {
        Self { backend, max_value_bytes, stored: BTreeMap::new() }
    }

    /// What [`add`](memory_core::MemoryLayer::add) would do.
    ///
    /// # Errors
    /// As `add`.
    pub async fn add(
        &mut self,
        scope: &Scope,
        messages: &[Message],
        options: &AddOptions,
    ) -> Result<AddOutcome> {
        check_messages(messages)?;
        let log = Log::new(self.backend, scope).within(self.max_value_bytes);
        let (mut known, mut different, mut ids) = (0, Vec::new(), Vec::new());
        let (mut said, mut digests, mut contents) = (Vec::new(), Vec::new(), Vec::new());
        for (index, message) in messages.iter().enumerate().filter(|(_, message)| is_kept(message)) {
            let (id, content) = (digest::of_message(scope, message), digest::of_content(scope, message));
            match self.stored.entry(bytes(&id)) {
                Slot::Occupied(slot) if *slot.get() == bytes(&content) => known += 1,
                Slot::Occupied(mut slot) if options.supersedes.iter().any(|fact| fact.as_str() == id) => {
                    slot.insert(bytes(&content));
                    ids.push(FactId::new(id)?);
                }
                Slot::Occupied(_) => different.push(FactId::new(id)?),
                Slot::Vacant(_) => {
                    said.push(Said { message, at: digests.len(), index });
                    digests.push(id);
                    contents.push(content);
                }
            }
        }
        let sorted = sort(&log, &said, &digests, &contents, options).await?;
        // What cannot be written is refused as it would be.
        turns(&log, &sorted.new, &sorted.digests, &contents, &BTreeMap::new(), options, &mut 0).await?;
        for (said, _) in &sorted.new {
            let (Some(id), Some(content)) = (sorted.digests.get(said.at), contents.get(said.at)) else {
                continue;
            };
            self.stored.insert(bytes(id), bytes(content));
            ids.push(FactId::new(id)?);
        }
        let mut outcome = sorted.outcome;
        outcome.known += known;
        outcome.different.extend(different);
        outcome.status = AddStatus::Done(ids);
        Ok(outcome)
    }
}

fn bytes(digest: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(digest.bytes()).for_each(|(byte, digit)| *byte = digit);
    bytes
}

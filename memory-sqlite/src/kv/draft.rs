//! A set that is prepared before its transaction.

use memory_core::ContentDigest;
use memory_core::entry::{Ttl, size_bytes};
use memory_core::json::Json;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{Embed, Entry, Key, NewEntry, SetOptions, Timestamp};

use super::entries::Content;
use super::row::encode_metadata;

/// A set, with everything computed that needs no transaction.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) key: Key,
    value: Json,
    pub(crate) options: SetOptions,
    metadata: Option<String>,
    pub(crate) size: u64,
}

impl Draft {
    pub(crate) fn new(key: Key, value: Json, options: SetOptions) -> Self {
        let size =
            size_bytes(&key, &value, &options.metadata, options.source.as_ref(), options.text.as_deref());
        let metadata = encode_metadata(&options.metadata);
        Self { key, value, options, metadata, size }
    }

    /// Approximate memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// Whether it asks for an embedding, if there is an embedder.
    pub(crate) fn embed(&self) -> Embed {
        self.options.embed
    }

    /// The text to embed.
    pub(crate) fn search_text(&self) -> String {
        match &self.options.text {
            Some(text) => text.clone(),
            None => self.value.search_text(MAX_TEXT_BYTES),
        }
    }

    pub(crate) fn content(&self) -> Content<'_> {
        Content {
            value: &self.value,
            metadata: self.metadata.as_deref(),
            source: self.options.source.as_ref().map(memory_core::Source::as_str),
            text: self.options.text.as_deref(),
            size: self.size,
        }
    }

    /// The digest of the entry once stored.
    pub(crate) fn digest(&self, expires_at: Option<Timestamp>) -> ContentDigest {
        let SetOptions { metadata, source, text, .. } = &self.options;
        ContentDigest::of(&self.value, metadata, source.as_ref(), text.as_deref(), expires_at)
    }

    /// Whether the entry already is what this set would store.
    pub(crate) fn is_stored(&self, entry: &Entry) -> bool {
        let lifetime = match self.options.ttl {
            Ttl::Keep => true,
            Ttl::Never => entry.expires_at.is_none(),
            Ttl::After(after) => {
                entry.expires_at.is_some() && entry.expires_at == entry.updated_at.checked_add(after)
            }
        };
        lifetime
            && entry.value == self.value
            && entry.metadata == self.options.metadata
            && entry.source == self.options.source
            && entry.text == self.options.text
    }
}

impl From<NewEntry> for Draft {
    fn from(item: NewEntry) -> Self {
        Self::new(item.key, item.value, item.options)
    }
}

//! A set, with everything computed that needs no database.

use memory_core::ContentDigest;
use memory_core::entry::size_bytes;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{Json, Key, NewEntry, ScopeDigest, SetOptions, Timestamp};

use crate::kv::row::encode_metadata;
use crate::kv::terms::IndexTerms;

/// The version of the analyzer that produced `marks`, so that a later one knows which rows are older.
pub(crate) fn lexicon() -> i16 {
    i16::try_from(memory_core::lexical::ANALYZER_VERSION).unwrap_or(i16::MAX)
}

/// A set, with everything computed that needs no database.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) key: Key,
    pub(crate) value: Json,
    pub(crate) options: SetOptions,
    pub(crate) metadata: Option<String>,
    pub(crate) size: i32,
    pub(crate) marks: IndexTerms,
}

impl Draft {
    pub(crate) fn new(digest: &ScopeDigest, key: Key, value: Json, options: SetOptions) -> Self {
        let size =
            size_bytes(&key, &value, &options.metadata, options.source.as_ref(), options.text.as_deref());
        let metadata = encode_metadata(&options.metadata);
        let derived;
        let text = match &options.text {
            Some(text) => text.as_str(),
            None => {
                derived = value.search_text(MAX_TEXT_BYTES);
                &derived
            }
        };
        let marks = IndexTerms::of(digest, text, &options.metadata, options.source.as_ref());
        Self { size: size_of(size), marks, key, value, options, metadata }
    }

    pub(crate) fn of(digest: &ScopeDigest, item: NewEntry) -> Self {
        Self::new(digest, item.key, item.value, item.options)
    }

    /// The text that is embedded.
    pub(crate) fn search_text(&self) -> String {
        match &self.options.text {
            Some(text) => text.clone(),
            None => self.value.search_text(MAX_TEXT_BYTES),
        }
    }

    /// The digest of the entry once stored.
    pub(crate) fn digest(&self, expires_at: Option<Timestamp>) -> ContentDigest {
        let SetOptions { metadata, source, text, .. } = &self.options;
        ContentDigest::of(&self.value, metadata, source.as_ref(), text.as_deref(), expires_at)
    }

    pub(crate) fn source(&self) -> Option<&str> {
        self.options.source.as_ref().map(memory_core::Source::as_str)
    }
}

/// A size as an `integer`: the parts of an entry are far below 2 GiB together.
pub(crate) fn size_of(bytes: u64) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

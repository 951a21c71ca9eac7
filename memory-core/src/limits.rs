//! Limits shared by all providers. A provider may advertise tighter ones.

/// Longest tenant, agent, user, run or scope id, in bytes.
pub const MAX_ID_BYTES: usize = 256;
/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1_024;
/// Default limit of one value, in bytes of JSON text.
pub const DEFAULT_MAX_VALUE_BYTES: usize = 1 << 20;
/// Longest explicit search text, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Most members of one entry's metadata.
pub const MAX_METADATA_MEMBERS: usize = 64;
/// Longest metadata member name, in bytes.
pub const MAX_METADATA_NAME_BYTES: usize = 128;
/// Longest metadata string, in bytes.
pub const MAX_METADATA_STRING_BYTES: usize = 4_096;
/// Longest source label, in bytes.
pub const MAX_SOURCE_BYTES: usize = 128;
/// Deepest filter tree.
pub const MAX_FILTER_DEPTH: usize = 16;
/// Most nodes of a filter tree, list members included.
pub const MAX_FILTER_NODES: usize = 1_024;
/// Default page of `list` and `scopes`.
pub const DEFAULT_PAGE: usize = 100;
/// Largest page of `list` and `scopes`.
pub const MAX_PAGE: usize = 1_000;
/// A page ends early, with a cursor, once its values and metadata reach this many bytes.
pub const MAX_PAGE_BYTES: usize = 8 << 20;
/// Longest vector.
pub const MAX_DIMENSIONS: usize = 16_384;
/// Longest name of an embedding model, and of its provider, in bytes.
pub const MAX_MODEL_NAME_BYTES: usize = 256;
/// Most vectors of one record of an export.
pub const MAX_RECORD_VECTORS: usize = 64;
/// Most keys of one `get_many`.
pub const MAX_GET_MANY: usize = 1_000;
/// Most entries of one `bulk_insert`.
pub const MAX_BULK_ITEMS: usize = 10_000;
/// Most bytes of one `bulk_insert`, counted as a quota counts them.
pub const MAX_BULK_BYTES: usize = 64 << 20;
/// Longest search query text, in bytes.
pub const MAX_QUERY_BYTES: usize = 64 << 10;
/// Default number of hits.
pub const DEFAULT_TOP_K: usize = 10;
/// Default largest number of hits.
pub const DEFAULT_MAX_TOP_K: usize = 1_000;
/// How many candidates are re-ranked: the best by similarity, ties by key.
pub const RANK_POOL: usize = 2_000;
/// How many candidates hybrid search takes from each side: the best by cosine and by words, ties by key.
pub const HYBRID_POOL: usize = 1_000;
/// Longest TTL, in milliseconds: 100 years of 365 days.
pub const MAX_TTL_MILLIS: u64 = 100 * 365 * 24 * 3_600 * 1_000;

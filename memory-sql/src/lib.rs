//! What the SQL facets of the stores share, whatever the engine: transactions that stay open between calls, the
//! validator's verdicts, the reading of dumps, and the errors that agents see.
//!
//! A store implements [`Engine`] and keeps its own connections, statements and files. Nothing here does I/O or needs a
//! runtime.

mod arguments;
mod cache;
mod dump;
mod engine;
pub mod errors;
mod scope;
mod transactions;
mod verdicts;

pub use arguments::{has_texts, texts_to_embed, with_embeddings};
pub use cache::WeightedCache;
pub use dump::{
    Counts, DumpLine, DumpReader, Header, MOST_SKIPPED, Part, Table, VERSION, decode_line, encode_line,
    is_about_object, longest_line, quote_identifier,
};
pub use engine::{Begun, End, Engine, Turn, check_savepoints};
pub use scope::check_tenant;
pub use transactions::{Ended, Interrupt, Transaction, Transactions, WriteLock};
pub use verdicts::{Verdicts, refused};

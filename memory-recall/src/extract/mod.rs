//! Facts extracted from a conversation by an [`Extractor`], such as a language model.
//!
//! They exist alongside the turns that support them and never replace them. [`ExtractionQueue`] knows which turns have
//! not been examined yet, and stores what is extracted from them; `docs/spec/recall.md` numbers the behaviours.

mod check;
mod commit;
mod extractor;
mod model;
mod queue;
mod step;

pub use crate::store::progress::Spent;
pub use check::checked;
pub use extractor::{Drawn, DrawnFact, Extractor, KnownFact, SourceTurn};
pub use model::{
    MAX_DRAWN_FACTS, MAX_FACT_CHARACTERS, MAX_REPLY_BYTES, ModelExtractor, PROMPT_VERSION, parse_facts_reply,
};
pub use queue::{ExtractOptions, ExtractStatus, ExtractionQueue, SetAside};
pub use step::{Extracted, Step};

//! What the resolver answers.

use serde::{Deserialize, Serialize};

use super::speech::Mood;

/// Rows that a deferral offers.
pub const OFFERED: usize = 3;

/// What a request refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// This row, certainly.
    Bind(Binding),
    /// A row that does not exist yet: with this id, or with one that the writer creates.
    New {
        /// The id, if the request names one.
        id: Option<String>,
    },
    /// The row has ended already. Nothing to do; recorded.
    NoOp {
        /// The row.
        id: String,
    },
    /// It cannot be decided, or this writer must not do it.
    Defer(Deferral),
}

/// A row that is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The row.
    pub id: String,
    /// How it was found.
    pub by: BoundBy,
    /// The probability that it is meant; 1 if it is named.
    pub score: f64,
    /// The likeliest rows where words decided, this one first; at most 3.
    pub candidates: Vec<Scored>,
}

/// How a row was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// The note names its id.
    Id,
    /// The note contains one of its confirmed aliases.
    Alias,
    /// A new row would have exactly its title.
    Title,
    /// The words of the note, above the threshold.
    Words,
}

/// A row, and how likely it is among the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// The row.
    pub id: String,
    /// Its share of the probability.
    pub score: f64,
}

/// Why nothing was bound, and what may be meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Deferral {
    /// Why.
    pub reason: DeferReason,
    /// The likeliest rows: the first [`OFFERED`] are offered, and one confirmation binds one of them. Others that the words
    /// fit may follow: once one of them has ended, nothing is bound.
    pub candidates: Vec<Scored>,
}

/// Why nothing was bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeferReason {
    /// No row has the named id.
    UnknownId(String),
    /// More than one row is named.
    SeveralIds,
    /// A row is named only as something else: "unrelated to …".
    NamedAside,
    /// A token looks like an id but is a different one.
    LookAlike,
    /// The id came from the interpreter, and is not in the note.
    IdNotInNote,
    /// The row was opened, or opened again, after the note.
    OpenedLater,
    /// The row has ended, and the request would change it.
    Ended,
    /// The note states no end.
    NotStated(Mood),
    /// The note does not state an end plainly: the text there may change the meaning.
    NotPlain(Place),
    /// The note ends everything at once.
    Sweeping,
    /// The note names another row: a duplicate, or what supersedes it.
    NamesAnother,
    /// A row that the note could have meant has ended since; what is left is not bound by elimination.
    CandidateEnded,
    /// The writer may not end this row.
    Unauthorised,
    /// The words of the note do not tell the rows apart, or fit none.
    Uncertain,
    /// As `Uncertain`, and the note contains a plain word that is the id of a row.
    PlainWord,
}

/// Where in a note there is text that may change what it says about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Before the statement.
    Before,
    /// After it, in the same sentence.
    After,
    /// In another sentence.
    Beside,
}

impl Resolution {
    pub(super) const fn defer(reason: DeferReason, candidates: Vec<Scored>) -> Self {
        Self::Defer(Deferral { reason, candidates })
    }
}

impl std::fmt::Display for BoundBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Id => "the note names its id",
            Self::Alias => "the note has one of its names",
            Self::Title => "it has this very title",
            Self::Words => "the words of the note fit it",
        })
    }
}

impl std::fmt::Display for DeferReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownId(id) => write!(f, "no row has the id {id}"),
            Self::SeveralIds => f.write_str("it names more than one row"),
            Self::NamedAside => f.write_str("it names a row only in passing"),
            Self::LookAlike => f.write_str("a word looks like an id and is another"),
            Self::IdNotInNote => f.write_str("the id is not in the note"),
            Self::OpenedLater => f.write_str("the row was opened after this was observed"),
            Self::Ended => f.write_str("the row has ended"),
            Self::NotStated(mood) => write!(f, "it states no end, but {}", mood.words()),
            Self::NotPlain(place) => write!(
                f,
                "it does not state plainly that the row has ended: {} may turn it, and `ID is resolved` alone says it",
                match place {
                    Place::Before => "what stands before that",
                    Place::After => "what stands after that",
                    Place::Beside => "another sentence",
                }
            ),
            Self::Sweeping => f.write_str("it would end everything at once"),
            Self::NamesAnother => f.write_str("it names another row, as a duplicate or a successor"),
            Self::CandidateEnded => f.write_str("a row that it could have meant has ended since"),
            Self::Unauthorised => f.write_str("its writer may not end this row"),
            Self::Uncertain => f.write_str("its words do not tell which row is meant"),
            Self::PlainWord => f.write_str(
                "its words do not tell which row is meant; an id that is an ordinary word counts after its kind only, as in \
                 `issue ID is resolved`",
            ),
        }
    }
}

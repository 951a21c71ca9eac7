//! One entry of the table: a behaviour, what it needs, and the sentences it proves.

use std::fmt;

use memory_core::Capabilities;
use serde::Serialize;

use crate::check::CaseResult;
use crate::cx::Cx;
use crate::harness::executor::BoxFuture;

/// Makes [`Need`] of lines `Name: condition on the capabilities;`.
macro_rules! needs {
    ($capabilities:ident; $($(#[$attribute:meta])* $need:ident: $is_met:expr;)+) => {
        /// What a case needs of a provider. If it is not advertised, the case proves the refusal instead.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Need {
            $(#[doc = concat!("`", stringify!($is_met), "`")] $(#[$attribute])* $need,)+
        }

        impl Need {
            /// Every need.
            pub const ALL: &[Self] = &[$(Self::$need),+];

            /// Whether it is advertised.
            #[must_use]
            pub fn is_met(self, $capabilities: &Capabilities) -> bool {
                match self {
                    $(Self::$need => $is_met,)+
                }
            }
        }
    };
}

needs! {
    capabilities;
    Kv: capabilities.kv;
    Lexical: capabilities.lexical_search;
    Vector: capabilities.vector_search;
    Cas: capabilities.compare_and_set;
    Drift: !capabilities.drift.is_empty();
    Quotas: capabilities.quotas;
    Stats: capabilities.stats;
    AtomicImport: capabilities.atomic_import;
    Tenants: capabilities.tenants;
    #[serde(rename = "moment")]
    ReadSnapshot: capabilities.read_snapshot;
    Eviction: capabilities.eviction;
    RunFence: capabilities.run_fence;
    Erase: capabilities.erase;
    Sql: capabilities.sql;
    SqlTransactions: capabilities.sql_transactions;
    SqlEntries: capabilities.sql_entries;
    SqlVectors: capabilities.sql_vectors;
    SharedSchemas: capabilities.shared_schemas;
    HostTables: capabilities.host_tables;
    Layer: capabilities.memory_layer;
    LayerEvents: capabilities.layer_events;
    LayerForget: capabilities.layer_forget;
    LayerVerbatim: capabilities.layer_verbatim;
    LayerMetadata: capabilities.layer_metadata;
    LayerThreshold: capabilities.layer_threshold;
    LayerIdempotent: capabilities.layer_idempotent;
    LayerSupersede: capabilities.layer_supersede;
    LayerConfirm: capabilities.layer_confirm;
    LayerExpiry: capabilities.layer_expiry;
    LayerSessions: capabilities.layer_sessions;
}

impl Need {
    /// Whether it is about the SQL facet.
    #[must_use]
    pub const fn is_sql(self) -> bool {
        matches!(
            self,
            Self::Sql
                | Self::SqlTransactions
                | Self::SqlEntries
                | Self::SqlVectors
                | Self::SharedSchemas
                | Self::HostTables
        )
    }

    /// Whether it is about the conversational layer.
    #[must_use]
    pub const fn is_layer(self) -> bool {
        matches!(
            self,
            Self::Layer
                | Self::LayerEvents
                | Self::LayerForget
                | Self::LayerVerbatim
                | Self::LayerMetadata
                | Self::LayerThreshold
                | Self::LayerIdempotent
                | Self::LayerSupersede
                | Self::LayerConfirm
                | Self::LayerExpiry
                | Self::LayerSessions
        )
    }

    /// Whether it is required for a level. Vectors, the drift guard, operators' capabilities, SQL and the
    /// conversational layer are optional at every level.
    #[must_use]
    pub(crate) const fn is_required(self) -> bool {
        !matches!(
            self,
            Self::Vector
                | Self::Drift
                | Self::AtomicImport
                | Self::Tenants
                | Self::ReadSnapshot
                | Self::Eviction
                | Self::RunFence
                | Self::Erase
        ) && !self.is_sql()
            && !self.is_layer()
    }
}

/// What passing all cases of a kind guarantees to a runtime; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// Stored entries can be read back, in their own scope, until they expire.
    Store,
    /// Entries are found by words or by meaning.
    Find,
    /// Concurrent writers and tight limits do no harm.
    Share,
}

impl Level {
    /// Every level, lowest first.
    pub const ALL: [Self; 3] = [Self::Store, Self::Find, Self::Share];

    /// `store`, `find` or `share`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Find => "find",
            Self::Share => "share",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The body of a case.
pub(crate) type CaseFn = for<'a> fn(&'a Cx) -> BoxFuture<'a, CaseResult>;

/// One behaviour that a provider must show.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// `area.subject.property`, stable: reports and lists of expected failures use it.
    pub id: &'static str,
    /// The capabilities that must be advertised.
    pub needs: &'static [Need],
    /// The sentences of [`Case::page`] that it proves.
    pub proves: &'static [&'static str],
    /// How often it runs, each time in fresh scopes of the same provider.
    pub repeat: u32,
    pub(crate) run: CaseFn,
}

impl Case {
    /// A case that runs once.
    pub(crate) const fn new(
        id: &'static str,
        needs: &'static [Need],
        proves: &'static [&'static str],
        run: CaseFn,
    ) -> Self {
        Self { id, needs, proves, repeat: 1, run }
    }

    pub(crate) const fn repeated(mut self, repeat: u32) -> Self {
        self.repeat = repeat;
        self
    }

    /// The first part of the id (`kv`).
    #[must_use]
    pub fn area(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }

    /// Whether it is about the SQL facet.
    #[must_use]
    pub fn is_sql(&self) -> bool {
        self.needs.iter().any(|need| need.is_sql())
    }

    /// Whether it is about the conversational layer.
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.needs.iter().any(|need| need.is_layer())
    }

    /// The page of the repository with its sentences.
    #[must_use]
    pub fn page(&self) -> &'static str {
        if self.area() == "forget" {
            "docs/spec/forget.md"
        } else if matches!(self.area(), "gc" | "run") {
            "docs/spec/lifecycle.md"
        } else if self.area() == "gov" {
            "docs/spec/governed.md"
        } else if self.area() == "graph" {
            "docs/spec/hierarchical.md"
        } else if self.is_sql() {
            "docs/spec/sql.md"
        } else if self.is_layer() {
            "docs/spec/layer.md"
        } else if self.area() == "drift" {
            "docs/spec/drift.md"
        } else {
            "docs/spec/backend.md"
        }
    }

    /// The level it belongs to.
    #[must_use]
    pub fn level(&self) -> Level {
        let needs = |need| self.needs.contains(&need);
        let about = |prefix: &str| self.is_sql() && self.proves.iter().any(|id| id.starts_with(prefix));
        if matches!(self.area(), "con" | "gov" | "graph")
            || needs(Need::Cas)
            || needs(Need::Drift)
            || needs(Need::Quotas)
            || needs(Need::Stats)
            || needs(Need::SqlTransactions)
            || about("QTA-")
            || about("TIM-")
        {
            Level::Share
        } else if needs(Need::Lexical) || needs(Need::Vector) || needs(Need::SqlVectors) {
            Level::Find
        } else {
            Level::Store
        }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("id", &self.id)
            .field("needs", &self.needs)
            .field("proves", &self.proves)
            .field("repeat", &self.repeat)
            .finish_non_exhaustive()
    }
}

/// A row of a table: `case!("id", [Need, …], ["SENTENCE-1", …], |cx, scope: Scope| { … })`, with `* n` after the id for a
/// case that runs n times. The closure takes the context, and whatever [`Fresh`](crate::cx::Fresh) things the case starts
/// with; its body may use `?` and the macros of [`check`](crate::check).
macro_rules! case {
    ($id:literal $(* $repeat:literal)?, [$($need:ident),*], [$($proves:literal),+],
        |$cx:ident $(, $name:ident: $fresh:ty)*| $body:block) => {
        $crate::case::Case::new($id, &[$($crate::case::Need::$need),*], &[$($proves),+], |$cx| {
            Box::pin(async move {
                $(#[allow(elided_lifetimes_in_paths, reason = "rows are short")]
                let $name = <$fresh as $crate::cx::Fresh<'_>>::fresh($cx)?;)*
                $body
                $crate::check::CaseResult::Ok(())
            })
        })$(.repeated($repeat))?
    };
}

pub(crate) use case;

//! One mutant, and the macro for tables of mutants.

use std::fmt;

use super::defect::Defect;
use crate::case::Need;
use crate::reference::{LayerKind, ReferenceHarness};

/// One plausible mistake.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Mutant {
    /// Stable name (`ttl.boundary-inclusive`).
    pub id: &'static str,
    /// The defect, in words.
    pub what: &'static str,
    /// The sentences it breaks; cases that cite them run first.
    pub breaks: &'static [&'static str],
    /// What a wrapped provider must serve; empty for mutants of the reference provider.
    pub needs: &'static [Need],
    pub(super) defect: Defect,
}

impl Mutant {
    /// Whether it wraps the provider under test instead of the reference provider.
    #[must_use]
    pub fn is_sql(&self) -> bool {
        self.needs.iter().any(|need| need.is_sql())
    }

    /// Whether it is about the conversational layer.
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.needs.iter().any(|need| need.is_layer())
    }

    /// The reference provider with this defect.
    pub(crate) fn ground(&self) -> Ground {
        if !self.is_layer() {
            Ground::Entries
        } else if self.needs.contains(&Need::LayerEvents) {
            Ground::Layer(LayerKind::Pending)
        } else {
            Ground::Layer(LayerKind::Sync)
        }
    }
}

/// A mutant, and the first case that caught it, with the reason.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MutantOutcome {
    /// The mutant.
    pub mutant: Mutant,
    /// The id of the case, and why it failed; `None` if the mutant passed every case.
    pub caught: Option<(&'static str, String)>,
}

/// The kind of reference provider a mutant needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Keys and values, with vectors.
    Entries,
    /// The conversational layer.
    Layer(LayerKind),
}

impl Ground {
    pub(crate) const ALL: [Self; 3] =
        [Self::Entries, Self::Layer(LayerKind::Sync), Self::Layer(LayerKind::Pending)];

    /// The reference provider as it is there.
    pub(crate) fn harness(self) -> ReferenceHarness {
        match self {
            Self::Entries => ReferenceHarness::with_vectors(),
            Self::Layer(kind) => ReferenceHarness::layer(kind),
        }
    }
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutant")
            .field("id", &self.id)
            .field("what", &self.what)
            .field("breaks", &self.breaks)
            .finish_non_exhaustive()
    }
}

/// Makes `pub(super) fn mutants() -> Vec<Mutant>` of lines
/// `"id": ["SENTENCE-1", …], "what it does" => kind(…);`, with `needs [Sql]` after the sentences for one that
/// stands around the provider under test. The kind is a constructor of [`Defect`]. Where it takes an `async fn`
/// (`around`, `both`, `around_ahead`), the table boxes its future. What is done to one kind of request, reply or error is
/// written as an arm: `ask(Request::Get { options, .. } => …)`, `instead(Request::Health {} => …)`,
/// `answer(Reply::Set(outcome) => …)`, `refuse(ErrorKind::Timeout => ErrorKind::Unavailable)`.
macro_rules! mutants {
    (@change $matched:ident, $pattern:pat_param $(if $guard:expr)? => $change:expr) => {
        |$matched| {
            if let $pattern = $matched $(&& $guard)? {
                $change;
            }
        }
    };
    (@defect ask($pattern:pat_param $(if $guard:expr)? => $change:expr)) => {
        $crate::mutants::defect::Defect::ask(
            $crate::mutants::mutant::mutants!(@change request, $pattern $(if $guard)? => $change))
    };
    (@defect ask_ahead($pattern:pat_param $(if $guard:expr)? => $change:expr)) => {
        $crate::mutants::defect::Defect::ask_ahead(
            $crate::mutants::mutant::mutants!(@change request, $pattern $(if $guard)? => $change))
    };
    (@defect answer($pattern:pat_param $(if $guard:expr)? => $change:expr)) => {
        $crate::mutants::defect::Defect::answer(
            $crate::mutants::mutant::mutants!(@change reply, $pattern $(if $guard)? => $change))
    };
    (@defect instead($pattern:pat_param $(if $guard:expr)? => $reply:expr)) => {
        $crate::mutants::defect::Defect::instead(|request| match request {
            $pattern $(if $guard)? => Some($reply),
            _ => None,
        })
    };
    (@defect instead_ahead($pattern:pat_param $(if $guard:expr)? => $reply:expr)) => {
        $crate::mutants::defect::Defect::instead_ahead(|request| match request {
            $pattern $(if $guard)? => Some($reply),
            _ => None,
        })
    };
    (@defect refuse($kind:pat_param => $other:expr)) => {
        $crate::mutants::defect::Defect::refuse(|_, error| match error.kind() {
            $kind => memory_core::Error::new($other, error.message().to_owned()),
            _ => error,
        })
    };
    (@defect around($f:expr)) => {
        $crate::mutants::defect::Defect::around(|memory, request, next| Box::pin($f(memory, request, next)))
    };
    (@defect around_ahead($f:expr)) => {
        $crate::mutants::defect::Defect::around_ahead(|memory, request, next| Box::pin($f(memory, request, next)))
    };
    (@defect both($f:expr, $g:expr)) => {
        $crate::mutants::defect::Defect::both($f, |memory, request, next| Box::pin($g(memory, request, next)))
    };
    (@defect $kind:ident($($f:expr),+)) => { $crate::mutants::defect::Defect::$kind($($f),+) };
    ($($id:literal : [$($breaks:literal),+ $(,)?] $(needs [$($need:ident),+])?, $what:literal
        => $kind:ident($($defect:tt)+);)+) => {
        pub(super) fn mutants() -> Vec<$crate::mutants::mutant::Mutant> {
            const MUTANTS: &[$crate::mutants::mutant::Mutant] = &[$($crate::mutants::mutant::Mutant {
                id: $id,
                what: $what,
                breaks: &[$($breaks),+],
                needs: &[$($($crate::case::Need::$need),+)?],
                defect: $crate::mutants::mutant::mutants!(@defect $kind($($defect)+)),
            },)+];
            MUTANTS.to_vec()
        }
    };
}

pub(super) use mutants;

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

    /// The unmodified reference provider.
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

/// Makes `pub(super) const MUTANTS: &[Mutant]` from rows `"id": ["SENTENCE-1", …] needs [Sql], "what it does" =>
/// kind(…);`. `needs` is for mutants that wrap the provider under test.
///
/// The kind is a constructor of [`Defect`], or one of those below. They run in an `async` block and may use the names
/// at the head of the table for the mutant's memory, the request, and the wrapped provider. The `_ahead` variants come
/// before `Checked`.
///
/// | kind | does |
/// |---|---|
/// | `ask(Request::Get { options, .. } if … => change)` | changes such a request, or returns early |
/// | `instead(Request::Health {} => reply)` | answers such a request itself |
/// | `over(Request::Get { scope, key, .. } => reply)` | the same, with the request's parts moved |
/// | `stop(condition => error)` | refuses the request |
/// | `forgive(Request::Get { key, .. } if …, ErrorKind::NotFound => reply)` | answers where such a request fails so; the reply is made before |
/// | `answer(Reply::Set(outcome) if … => change)` | changes such a reply, or returns an error instead |
/// | `around(expression)`, `around(function)` | replaces the whole call |
/// | `both(advertises, function)` | the same, and advertises something else |
/// | `refuse(ErrorKind::Timeout => ErrorKind::Unavailable)` | changes the kind of an error |
macro_rules! mutants {
    (@call [$memory:ident $request:ident $next:ident] $reply:expr) => {
        |$memory, $request, $next| {
            $crate::mutants::defect::boxed(async move {
                #[allow(unused_mut, reason = "few change it")]
                let mut $request = $request;
                let _ = (&$memory, &$request, &$next);
                $reply
            })
        }
    };
    (@around [$memory:ident $request:ident $next:ident] ask($pattern:pat_param $(if $guard:expr)? => $change:expr)) => {
        mutants!(@call [$memory $request $next] {
            if let $pattern = &mut $request $(&& $guard)? {
                $change;
            }
            $next.run($request).await
        })
    };
    (@around [$memory:ident $request:ident $next:ident] instead($pattern:pat_param $(if $guard:expr)? => $reply:expr)) => {
        mutants!(@call [$memory $request $next] {
            if let $pattern = &$request $(&& $guard)? {
                return $reply;
            }
            $next.run($request).await
        })
    };
    (@around [$memory:ident $request:ident $next:ident] over($pattern:pat_param => $reply:expr)) => {
        mutants!(@call [$memory $request $next] {
            let $pattern = $request else { return $next.run($request).await };
            $reply
        })
    };
    (@around [$memory:ident $request:ident $next:ident] answer($pattern:pat_param $(if $guard:expr)? => $change:expr)) => {
        mutants!(@call [$memory $request $next] {
            let mut reply = $next.run($request).await?;
            if let $pattern = &mut reply $(&& $guard)? {
                $change;
            }
            Ok(reply)
        })
    };
    (@around [$memory:ident $request:ident $next:ident] stop($condition:expr => $error:expr)) => {
        mutants!(@call [$memory $request $next] {
            if $condition {
                return Err($error);
            }
            $next.run($request).await
        })
    };
    (@around [$memory:ident $request:ident $next:ident]
        forgive($pattern:pat_param $(if $guard:expr)?, $kind:pat_param => $reply:expr)) => {
        mutants!(@call [$memory $request $next] {
            let forgiven = match &$request {
                $pattern $(if $guard)? => Some($reply),
                _ => None,
            };
            match ($next.run($request).await, forgiven) {
                (Err(error), Some(reply)) if matches!(error.kind(), $kind) => Ok(reply),
                (reply, _) => reply,
            }
        })
    };
    (@around $names:tt around($function:ident)) => {
        |memory, request, next| Box::pin($function(memory, request, next))
    };
    (@around $names:tt around($reply:expr)) => { mutants!(@call $names $reply) };
    (@defect $names:tt refuse($kind:pat_param => $other:expr)) => {
        $crate::mutants::defect::Defect::refuse(|_, error| match error.kind() {
            $kind => memory_core::Error::new($other, error.message().to_owned()),
            _ => error,
        })
    };
    (@defect $names:tt both($advertises:expr, $function:ident)) => {
        $crate::mutants::defect::Defect::both($advertises, mutants!(@around $names around($function)))
    };
    (@defect $names:tt ask($pattern:pat_param $(if $guard:expr)? => $does:expr)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names ask($pattern $(if $guard)? => $does)))
    };
    (@defect $names:tt ask_ahead($pattern:pat_param $(if $guard:expr)? => $does:expr)) => {
        $crate::mutants::defect::Defect::around_ahead(mutants!(@around $names ask($pattern $(if $guard)? => $does)))
    };
    (@defect $names:tt instead($pattern:pat_param $(if $guard:expr)? => $does:expr)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names instead($pattern $(if $guard)? => $does)))
    };
    (@defect $names:tt instead_ahead($pattern:pat_param $(if $guard:expr)? => $does:expr)) => {
        $crate::mutants::defect::Defect::around_ahead(mutants!(@around $names instead($pattern $(if $guard)? => $does)))
    };
    (@defect $names:tt answer($pattern:pat_param $(if $guard:expr)? => $does:expr)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names answer($pattern $(if $guard)? => $does)))
    };
    (@defect $names:tt stop($($rest:tt)+)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names stop($($rest)+)))
    };
    (@defect $names:tt forgive($($rest:tt)+)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names forgive($($rest)+)))
    };
    (@defect $names:tt over($pattern:pat_param => $reply:expr)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names over($pattern => $reply)))
    };
    (@defect $names:tt over_ahead($pattern:pat_param => $reply:expr)) => {
        $crate::mutants::defect::Defect::around_ahead(mutants!(@around $names over($pattern => $reply)))
    };
    (@defect $names:tt around($($reply:tt)+)) => {
        $crate::mutants::defect::Defect::around(mutants!(@around $names around($($reply)+)))
    };
    (@defect $names:tt around_ahead($($reply:tt)+)) => {
        $crate::mutants::defect::Defect::around_ahead(mutants!(@around $names around($($reply)+)))
    };
    (@defect $names:tt $kind:ident($($f:expr),+)) => { $crate::mutants::defect::Defect::$kind($($f),+) };
    (|$memory:ident, $request:ident, $next:ident|
        $($id:literal : [$($breaks:literal),+ $(,)?] $(needs [$($need:ident),+])?, $what:literal
            => $kind:ident($($defect:tt)+);)+) => {
        pub(super) const MUTANTS: &[$crate::mutants::mutant::Mutant] = &[$($crate::mutants::mutant::Mutant {
            id: $id,
            what: $what,
            breaks: &[$($breaks),+],
            needs: &[$($($crate::case::Need::$need),+)?],
            defect: mutants!(@defect [$memory $request $next] $kind($($defect)+)),
        }),+];
    };
}

pub(super) use mutants;

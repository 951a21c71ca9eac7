//! Which stages decide.

/// The stages that may refuse: all of them, unless a test tries one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The gate refuses.
    pub gate: bool,
    /// The grammar refuses.
    pub grammar: bool,
    /// The walk refuses.
    pub walk: bool,
}

impl Stages {
    /// Every stage.
    pub const ALL: Self = Self { gate: true, grammar: true, walk: true };
}

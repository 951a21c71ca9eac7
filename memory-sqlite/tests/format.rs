//! The released file format is pinned: a file of every earlier release opens and says what it said.

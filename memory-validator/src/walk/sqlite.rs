//! The walk over a tree of SQLite's own grammar.

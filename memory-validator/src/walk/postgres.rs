//! The walk over a tree of PostgreSQL's own grammar.

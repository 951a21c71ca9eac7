//! The walk over a tree of the portable grammar.

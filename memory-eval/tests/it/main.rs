//! Retrieval, measured through the product.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

mod locomo;

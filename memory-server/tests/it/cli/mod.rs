//! Commands, one by one.

mod demo;
mod import;
mod layer;
mod lists;
mod operator;
mod out_files;
mod output;
mod refusals;
mod search;
mod sql;
mod values;

//! Commands, one by one.

mod demo;
mod extract;
mod governed;
mod graph;
#[cfg(feature = "ladybug")]
mod graph_engine;
mod graph_folder;
mod import;
mod json;
mod language_model;
mod layer;
mod lists;
mod missing;
mod operator;
mod out_files;
mod output;
mod pages;
mod read_only;
mod refusals;
mod search;
#[cfg(unix)]
mod sessions;
mod shell;
mod sql;
mod terminal;
mod values;

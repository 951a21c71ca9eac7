//! The input of a call.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use memory_core::{Error, json};

use super::path::FilePath;
use super::refused::{Done, Refused};
use crate::tool::{ToolOp, cut, whole};

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verb {
    View,
    Create,
    StrReplace,
    Insert,
    Delete,
    Rename,
}

impl Verb {
    /// Its name in the audit log.
    pub(super) fn audited(self) -> &'static str {
        match self {
            Self::View => "files.view",
            Self::Create => "files.create",
            Self::StrReplace => "files.str_replace",
            Self::Insert => "files.insert",
            Self::Delete => "files.delete",
            Self::Rename => "files.rename",
        }
    }

    /// The Memory tool's operations that do the same to entries.
    pub(super) fn needs(self) -> &'static [ToolOp] {
        match self {
            Self::View => &[ToolOp::Get, ToolOp::List],
            Self::Create => &[ToolOp::Set],
            Self::StrReplace | Self::Insert => &[ToolOp::Get, ToolOp::Set],
            Self::Delete => &[ToolOp::Delete],
            Self::Rename => &[ToolOp::Get, ToolOp::Set, ToolOp::Delete],
        }
    }
}

/// A call as it is sent. `null` counts as left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// What to do.
    pub(super) command: Verb,
    /// The file or folder, as /memories/notes.md. All but rename.
    pub(super) path: Option<String>,
    /// view: only the lines from the first number to the second, counted from 1; -1: to the end.
    #[serde(default, deserialize_with = "lines")]
    view_range: Option<Vec<i64>>,
    /// create: the content.
    file_text: Option<String>,
    /// str_replace: the text to replace, which must occur exactly once.
    old_str: Option<String>,
    /// str_replace: what takes its place.
    new_str: Option<String>,
    /// insert: the line after which the text goes; 0: before the first.
    #[serde(default, deserialize_with = "whole")]
    insert_line: Option<i64>,
    /// insert: the text.
    insert_text: Option<String>,
    /// rename: the file or folder.
    pub(super) old_path: Option<String>,
    /// rename: its new path, where nothing may be yet.
    new_path: Option<String>,
}

/// Accepts line numbers as [`whole`] does.
fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<i64>>, D::Error> {
    #[derive(Deserialize)]
    struct Line(#[serde(deserialize_with = "whole")] Option<i64>);
    let missing = || D::Error::custom("expected a whole number");
    let lines = Option::<Vec<Line>>::deserialize(deserializer)?;
    lines.map(|lines| lines.into_iter().map(|Line(line)| line.ok_or_else(missing)).collect()).transpose()
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Command {
    View { path: FilePath, range: Option<Vec<i64>> },
    Create { path: FilePath, text: String },
    Replace { path: FilePath, old: String, new: String },
    Insert { path: FilePath, line: i64, text: String },
    Delete { path: FilePath },
    Rename { from: FilePath, to: FilePath },
}

impl Input {
    pub(super) fn parse(text: &str, max_bytes: usize) -> Done<Self> {
        if text.len() > max_bytes {
            return Err(Error::too_large("input", text.len(), max_bytes, "bytes").into());
        }
        json::from_str(text).map_err(|error| {
            let error = cut(&error.to_string());
            Refused::invalid(format!("Error: Invalid input: {error}. Send `command` and its parameters"))
        })
    }

    pub(super) fn command(self) -> Done<Command> {
        let verb = self.command;
        let path = |path: Option<String>, name| FilePath::parse(&present(path, name, verb)?);
        let new = |path: Option<String>, name| FilePath::parse_new(&present(path, name, verb)?);
        Ok(match verb {
            Verb::View => Command::View { path: path(self.path, "path")?, range: self.view_range },
            Verb::Create => Command::Create {
                path: new(self.path, "path")?,
                text: present(self.file_text, "file_text", verb)?,
            },
            Verb::StrReplace => Command::Replace {
                path: path(self.path, "path")?,
                old: present(self.old_str, "old_str", verb)?,
                new: present(self.new_str, "new_str", verb)?,
            },
            Verb::Insert => Command::Insert {
                path: path(self.path, "path")?,
                line: present(self.insert_line, "insert_line", verb)?,
                text: present(self.insert_text, "insert_text", verb)?,
            },
            Verb::Delete => Command::Delete { path: path(self.path, "path")? },
            Verb::Rename => Command::Rename {
                from: path(self.old_path, "old_path")?,
                to: new(self.new_path, "new_path")?,
            },
        })
    }
}

fn present<T>(value: Option<T>, name: &str, verb: Verb) -> Done<T> {
    value.ok_or_else(|| {
        let command = verb.audited().trim_start_matches("files.");
        Refused::invalid(format!("Error: `{name}` is missing, which `{command}` needs"))
    })
}

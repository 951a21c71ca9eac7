//! Errors that name file and line, and quote no value: a value may be a URL with a password.

use std::path::Path;

use memory_core::{Error, Retry};

/// Turns a parser's error into ours.
pub(super) fn explain(error: &toml::de::Error, text: &str, origin: &Path) -> Error {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let place = match line {
        Some(line) => format!("{}, line {line}", origin.display()),
        None => origin.display().to_string(),
    };
    let described = Error::invalid(format!("{place}: {}", without_values(error.message())))
        .with_detail("file", origin.display().to_string());
    match line {
        Some(line) => described.with_detail("line", line),
        None => described,
    }
}

/// Names the file in an error of a check.
pub(super) fn in_file(error: Error, origin: &Path) -> Error {
    Error::new(error.kind(), format!("{}: {error}", origin.display()))
        .with_retry(Retry::Never)
        .with_detail("file", origin.display().to_string())
        .with_source(error)
}

/// serde quotes the text it met (`invalid type: string "…", expected …`); ours must not.
fn without_values(message: &str) -> String {
    match (message.find("string \""), message.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => {
            let head = message.get(..start).unwrap_or_default();
            let tail = message.get(end + 1..).unwrap_or_default();
            format!("{head}string{tail}")
        }
        _ => message.to_owned(),
    }
}

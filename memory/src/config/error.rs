//! Errors that name file and line, and never quote a value, which may be a URL with a password.

use std::path::Path;

use memory_core::{Error, Retry};

/// Converts a parser's error.
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

/// Adds the file name to an error of a check.
pub(super) fn in_file(error: Error, origin: &Path) -> Error {
    Error::new(error.kind(), format!("{}: {error}", origin.display()))
        .with_retry(Retry::Never)
        .with_detail("file", origin.display().to_string())
        .with_source(error)
}

/// serde's messages quote the text (`invalid type: string "…", expected …`, ``unknown variant `…`, expected …``); ours
/// must not. Names of unknown fields stay: they are not values.
pub(crate) fn without_values(message: &str) -> String {
    for (before, quote, after) in
        [("string ", "\"", "\", expected"), ("unknown variant ", "`", "`, expected")]
    {
        let opening = format!("{before}{quote}");
        if let (Some(start), Some(end)) = (message.find(&opening), message.rfind(after))
            && start < end
        {
            let head = message.get(..start).unwrap_or_default();
            let tail = message.get(end + quote.len()..).unwrap_or_default();
            return format!("{head}{}{tail}", before.trim_end());
        }
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_removed_from_serdes_messages() {
        for (message, kept) in [
            (r#"invalid type: string "hunter2", expected u64"#, "invalid type: string, expected u64"),
            (
                r#"invalid type: string "a", expected "hunter2", expected u64"#,
                "invalid type: string, expected u64",
            ),
            (
                "unknown variant `hunter2`, expected `agent` or `run`",
                "unknown variant, expected `agent` or `run`",
            ),
            ("unknown field `max_row`, expected `max_rows`", "unknown field `max_row`, expected `max_rows`"),
        ] {
            assert_eq!(without_values(message), kept);
        }
    }
}

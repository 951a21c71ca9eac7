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

/// serde quotes the text it met (`invalid type: string "…", expected …`, ``unknown variant `…`, expected …``); ours
/// must not. Names of unknown fields stay: they are no values.
fn without_values(message: &str) -> String {
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
    fn a_value_is_left_out_whatever_serde_says_of_it() {
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

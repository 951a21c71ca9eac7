//! Errors that name file and line but never quote a value, since it may be a URL with a password.

use std::path::Path;

use memory_core::{Error, Retry};

use super::sections::file::ConfigFile;

/// Converts a parser's error.
pub(super) fn explain(error: &toml::de::Error, text: &str, origin: &Path) -> Error {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let place = match line {
        Some(line) => format!("{}, line {line}", origin.display()),
        None => origin.display().to_string(),
    };
    let message = without_values(enumerated(error, text).as_ref().unwrap_or(error).message());
    let field = error.span().and_then(|span| field_before(text.get(..span.start)?));
    let message = field.map_or(message.clone(), |field| format!("`{field}`: {message}"));
    let described =
        Error::invalid(format!("{place}: {message}")).with_detail("file", origin.display().to_string());
    match line {
        Some(line) => described.with_detail("line", line),
        None => described,
    }
}

/// If an enumeration is given a list or a number, the error for an unknown word instead, because that lists the known
/// ones.
fn enumerated(error: &toml::de::Error, text: &str) -> Option<toml::de::Error> {
    let span = error.span().filter(|_| error.message() == "wanted string or table")?;
    let text = format!("{}\"\"{}", text.get(..span.start)?, text.get(span.end..)?);
    toml::from_str::<ConfigFile>(&text).err()
}

/// The field whose value starts where this text ends, if both are on one line.
fn field_before(text: &str) -> Option<&str> {
    let name = text.rsplit(['\n', ',', '{']).next()?.trim_end().strip_suffix('=')?.trim();
    Some(name).filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Prefixes the error of a check with the file's name.
pub(super) fn in_file(error: Error, origin: &Path) -> Error {
    Error::new(error.kind(), format!("{}: {error}", origin.display()))
        .with_retry(Retry::Never)
        .with_detail("file", origin.display().to_string())
        .with_source(error)
}

/// serde's messages quote the text (`invalid type: string "…", expected …`, ``unknown variant `…`, expected …``), and
/// ours must not. Names of unknown fields stay, since they are not values.
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
    fn a_value_of_the_wrong_kind_is_named_by_its_field() {
        for (text, told) in [
            (
                "[default]\nshared_state = [\"read\"]\n",
                "m.toml, line 2: `shared_state`: unknown variant, expected one of `read`, `note`",
            ),
            ("[default]\nmax_rows = \"x\"\n", "m.toml, line 2: `max_rows`: invalid type: string, expected"),
            ("[default]\nmax_row = 1\n", "m.toml, line 2: unknown field `max_row`"),
        ] {
            let error = toml::from_str::<ConfigFile>(text).unwrap_err();
            let error = explain(&error, text, Path::new("m.toml"));
            assert!(error.message().starts_with(told), "{}", error.message());
        }
    }

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

//! VAL: values that come back changed.

use memory_core::json::JsonKind;
use memory_core::{Json, Metadata, Next, Reply, Request, Result, Scalar, SetOptions};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{change_values, kv};

mutants! {
    |memory, request, next|
    "value.through-floats": ["VAL-1"], "long integers are rounded to doubles"
        => ask(|request| change_values(request, |value| {
            numbers(value, |number| match (number.parse::<i128>(), number.parse::<f64>()) {
                (Ok(_), Ok(float)) => format!("{float:.0}"),
                _ => number.to_owned(),
            })
        }));
    "value.numbers-respelled": ["VAL-1"], "1.50 comes back as 1.5"
        => ask(|request| change_values(request, |value| {
            numbers(value, |number| match number.parse::<f64>() {
                Ok(float) if number.parse::<i128>().is_err() && float.is_finite() => format!("{float}"),
                _ => number.to_owned(),
            })
        }));
    "value.members-sorted": ["VAL-1"], "member order and duplicates are lost"
        => ask(|request| change_values(request, |value| {
            if value.kind() != JsonKind::Object {
                return value.clone();
            }
            let text = String::from_utf8(value.canonical_bytes()).unwrap_or_default();
            Json::parse(text).unwrap_or_else(|_| value.clone())
        }));
    "value.white-space-lost": ["VAL-1"], "white space between tokens is lost"
        => ask(|request| change_values(request, |value| {
            rebuilt(
                value,
                |is_string, piece| {
                    if is_string { piece.to_owned() } else { piece.split_ascii_whitespace().collect() }
                },
            )
        }));
    "value.escapes-decoded": ["VAL-1"], "`\\u0061` comes back as `a`"
        => ask(|request| change_values(request, |value| {
            rebuilt(value, |is_string, piece| match serde_json::from_str::<String>(piece) {
                Ok(text) if is_string => Json::string(&text).as_str().to_owned(),
                _ => piece.to_owned(),
            })
        }));
    "value.null-deletes": ["SET-1", "UPD-6"], "setting null deletes" => around(null_deletes);
    "value.empty-not-stored": ["SET-1", "INC-3"], "an empty string is not stored" => around(empty_not_stored);
    "value.limit-one-less": ["VAL-3"], "a value of exactly the maximal size is refused" => around({
        let limit = next.provider().capabilities().max_value_bytes;
        if let Request::Set { value, .. } = &request
            && value.len_bytes() >= limit
        {
            return Err(memory_core::Error::too_large("value", value.len_bytes(), limit - 1, "bytes"));
        }
        next.run(request).await
    });
    "value.too-large-is-cut": ["VAL-3"], "a value over the limit is stored as null" => around_ahead({
        let limit = next.provider().capabilities().max_value_bytes;
        if let Request::Set { value, .. } = &mut request
            && value.len_bytes() > limit
        {
            *value = Json::null();
        }
        next.run(request).await
    });
    "metadata.integers-are-floats": ["VAL-4"], "metadata integers are rounded to doubles" => ask(metadata_floats);
    "metadata.numbers-are-text": ["VAL-4"], "metadata numbers come back as text"
        => ask(|request| change_scalars(request, |value| {
            Some(match value {
                Scalar::Int(int) => Scalar::Text(int.to_string()),
                Scalar::Float(float) => Scalar::Text(float.to_string()),
                other => other.clone(),
            })
        }));
    "metadata.booleans-are-numbers": ["VAL-4"], "metadata booleans come back as 0 and 1"
        => ask(|request| change_scalars(request, |value| {
            Some(match value {
                Scalar::Bool(bit) => Scalar::Int(i64::from(*bit)),
                other => other.clone(),
            })
        }));
    "metadata.empty-text-lost": ["VAL-4"], "empty metadata strings are left out"
        => ask(|request| change_scalars(request, |value| match value {
            Scalar::Text(text) if text.is_empty() => None,
            other => Some(other.clone()),
        }));
    "metadata.too-many-are-cut": ["VAL-4"], "members over the limit are silently dropped"
        => ask_ahead(|request| change_options(request, |options| {
            options.metadata = options
                .metadata
                .iter()
                .take(memory_core::limits::MAX_METADATA_MEMBERS)
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect();
        }));
    "source.lower-cased": ["VAL-5"], "source labels are lower-cased"
        => ask(|request| change_options(request, |options| {
            options.source = options
                .source
                .as_ref()
                .and_then(|source| memory_core::Source::new(source.as_str().to_lowercase()).ok());
        }));
    "source.absent-is-named": ["VAL-5"], "an absent source comes back as `unknown`"
        => ask(|request| change_options(request, |options| {
            if options.source.is_none() {
                options.source = memory_core::Source::new("unknown").ok();
            }
        }));
    "text.nul-is-space": ["VAL-6"], "a NUL in the explicit text silently becomes a space"
        => ask_ahead(|request| change_options(request, |options| {
            options.text = options.text.as_ref().map(|text| text.replace('\0', " "));
        }));
    "text.too-long-is-cut": ["VAL-6"], "an explicit text over its limit is silently cut"
        => ask_ahead(|request| change_options(request, |options| {
            if let Some(text) = &mut options.text {
                let limit = memory_core::limits::MAX_TEXT_BYTES.min(text.len());
                text.truncate((0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0));
            }
        }));
    "text.trimmed": ["VAL-6"], "the explicit text is trimmed"
        => ask(|request| change_options(request, |options| {
            options.text = options.text.as_ref().map(|text| text.trim().to_owned());
        }));
    "text.empty-is-absent": ["VAL-6"], "an empty explicit text comes back as absent"
        => ask(|request| change_options(request, |options| options.text = options.text.take().filter(|text| !text.is_empty())));
}

/// The pieces of a JSON text: strings with their quotes, and everything between.
fn pieces(text: &str) -> Vec<(bool, String)> {
    let mut pieces = vec![(false, String::new())];
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        let starts = !in_string && c == '"';
        if starts {
            pieces.push((true, String::new()));
            in_string = true;
        }
        if let Some((_, piece)) = pieces.last_mut() {
            piece.push(c);
        }
        if in_string && !starts {
            if !escaped && c == '"' {
                in_string = false;
                pieces.push((false, String::new()));
            }
            escaped = !escaped && c == '\\';
        }
    }
    pieces
}

/// Rebuilds a value from its pieces; the original if the result is not JSON.
fn rebuilt(value: &Json, change: impl Fn(bool, &str) -> String) -> Json {
    let text: String =
        pieces(value.as_str()).iter().map(|(is_string, piece)| change(*is_string, piece)).collect();
    Json::parse(text).unwrap_or_else(|_| value.clone())
}

/// Applies `change` to every run of number characters outside strings.
fn numbers(value: &Json, change: fn(&str) -> String) -> Json {
    rebuilt(value, |is_string, piece| {
        if is_string {
            return piece.to_owned();
        }
        let (mut out, mut number) = (String::new(), String::new());
        for c in piece.chars().chain(['\n']) {
            if c.is_ascii_digit()
                || matches!(c, '-' | '+' | '.' | 'e' | 'E') && (c != 'e' || !number.is_empty())
            {
                number.push(c);
                continue;
            }
            if !number.is_empty() {
                out.push_str(&change(&std::mem::take(&mut number)));
            }
            out.push(c);
        }
        out.pop();
        out
    })
}

async fn null_deletes(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let gone = match &request {
        Request::Set { scope, key, value, .. } if value.kind() == JsonKind::Null => {
            Some((scope.clone(), key.clone()))
        }
        _ => None,
    };
    let reply = next.run(request).await?;
    if let Some((scope, key)) = gone {
        kv(&next)?.delete(&scope, &key, memory_core::DeleteOptions::default()).await?;
    }
    Ok(reply)
}

async fn empty_not_stored(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let gone = match &request {
        Request::Set { scope, key, value, .. } if value.as_str() == "\"\"" => {
            Some((scope.clone(), key.clone()))
        }
        _ => None,
    };
    let reply = next.run(request).await?;
    if let Some((scope, key)) = gone {
        kv(&next)?.delete(&scope, &key, memory_core::DeleteOptions::default()).await?;
    }
    Ok(reply)
}

fn change_options(request: &mut Request, change: fn(&mut SetOptions)) {
    match request {
        Request::Set { options, .. } => change(options),
        Request::BulkInsert { items, .. } => items.iter_mut().for_each(|item| change(&mut item.options)),
        _ => {}
    }
}

fn change_scalars(request: &mut Request, change: fn(&Scalar) -> Option<Scalar>) {
    let change_all = |metadata: &mut Metadata| {
        *metadata =
            metadata.iter().filter_map(|(name, value)| Some((name.to_owned(), change(value)?))).collect();
    };
    match request {
        Request::Set { options, .. } => change_all(&mut options.metadata),
        Request::BulkInsert { items, .. } => {
            items.iter_mut().for_each(|item| change_all(&mut item.options.metadata));
        }
        _ => {}
    }
}

#[allow(clippy::cast_precision_loss, reason = "the loss is the mutant")]
fn metadata_floats(request: &mut Request) {
    change_scalars(request, |value| {
        Some(match value {
            Scalar::Int(int) => Scalar::Float(*int as f64),
            other => other.clone(),
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_strings_and_literals() {
        let value =
            Json::parse(r#"{"1":[9007199254740993, "9007199254740993\"", true], "e":1.50e0}"#).unwrap();
        let bent = numbers(&value, |_| "7".to_owned());
        assert_eq!(bent.as_str(), r#"{"1":[7, "9007199254740993\"", true], "e":7}"#);
    }
}

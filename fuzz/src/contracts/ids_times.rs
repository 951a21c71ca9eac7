//! Names and times: exactly what the rules allow, with a JSON round trip.

use std::fmt::{Debug, Display};
use std::time::Duration;

use memory_core::limits::{MAX_ID_BYTES, MAX_KEY_BYTES, MAX_SOURCE_BYTES};
use memory_core::{Expect, Key, Metadata, Quota, ScopeId, ScopeKind, Source, TenantId, Timestamp, Ttl};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Tries one text as every kind of name and time.
pub fn run(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    names(text);
    times(text);
    drop(text.parse::<ScopeKind>().map(|kind| assert_eq!(kind.as_str(), text)));
    if let Some(ttl) = json::<Ttl>(data)
        && ttl.check().is_ok()
    {
        survives(&ttl);
        let now = Timestamp::from_millis(1_700_000_000_000).expect("a time");
        let stored = Some(Timestamp::MAX);
        let expiry = ttl.expiry(now, stored).expect("within the range");
        assert!(expiry.is_none_or(|at| at > now));
        drop(ttl.expiry(Timestamp::MAX, stored));
    }
    if let Some(expect) = json::<Expect>(data) {
        survives(&expect);
    }
    if let Some(quota) = json::<Quota>(data) {
        survives(&quota);
    }
    if let Some(metadata) = json::<Metadata>(data)
        && metadata.check().is_ok()
    {
        survives(&metadata);
        assert!(metadata.size_bytes() <= data.len() * 8);
    }
}

fn json<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    serde_json::from_slice(data).ok()
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).expect("writes");
    assert_eq!(serde_json::from_str::<T>(&text).expect("reads what it wrote"), *value);
}

fn names(text: &str) {
    let clean = !text.chars().any(char::is_control) && text.trim() == text && !text.is_empty();
    let id = clean && text.len() <= MAX_ID_BYTES && text != "*";
    name(text, id, TenantId::new(text));
    name(text, id, ScopeId::new(text));
    name(text, clean && text.len() <= MAX_SOURCE_BYTES, Source::new(text));
    name(text, (1..=MAX_KEY_BYTES).contains(&text.len()) && !text.contains('\0'), Key::new(text));
}

fn name<T>(text: &str, allowed: bool, name: memory_core::Result<T>)
where
    T: Display + Debug + PartialEq + Serialize + DeserializeOwned + Into<String>,
{
    assert_eq!(name.is_ok(), allowed, "{text:?}");
    let written = serde_json::to_string(text).expect("writes");
    assert_eq!(serde_json::from_str::<T>(&written).is_ok(), allowed);
    match name {
        Ok(name) => {
            assert_eq!(name.to_string(), text);
            survives(&name);
            assert_eq!(name.into(), text);
        }
        // An error may be shown to someone else, so it does not repeat the input.
        Err(error) => assert!(text.len() < 24 || !error.to_string().contains(text)),
    }
}

fn times(text: &str) {
    let parsed = text.parse::<Timestamp>();
    let written = serde_json::to_string(text).expect("writes");
    assert_eq!(serde_json::from_str::<Timestamp>(&written).ok(), parsed.as_ref().ok().copied());
    let counted = text.parse::<i64>().ok().map(Timestamp::from_millis);
    if let Some(counted) = &counted {
        let clamped = Timestamp::from_millis_clamped(text.parse().expect("a number"));
        assert!(counted.as_ref().map_or(true, |time| *time == clamped));
        assert!((Timestamp::EPOCH..=Timestamp::MAX).contains(&clamped));
    }
    for time in [parsed.ok(), counted.and_then(Result::ok)].into_iter().flatten() {
        assert!((Timestamp::EPOCH..=Timestamp::MAX).contains(&time));
        assert_eq!(time.to_string().parse::<Timestamp>().expect("reads what it wrote"), time);
        assert_eq!(Timestamp::from_millis(time.as_millis()).expect("in range"), time);
        survives(&time);
        for step in [Duration::from_micros(1_999), Duration::from_secs(86_400), Duration::MAX] {
            let Some(later) = time.checked_add(step) else { continue };
            assert_eq!(later.saturating_since(time).as_millis(), step.as_millis());
            assert!(time.saturating_since(later).is_zero());
        }
    }
}

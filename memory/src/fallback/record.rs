//! A journaled write, in a form that does not depend on when it is replayed.

use std::time::Duration;

use memory_core::{
    Embed, Entry, Expect, Json, Key, Metadata, NewEntry, Request, Scope, SetOptions, Source, Timestamp, Ttl,
};
use serde::{Deserialize, Serialize};

/// A write and its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) at: Timestamp,
    pub(super) change: Change,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    Put(Vec<Item>),
    Delete(Key),
}

/// One entry of a write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Item {
    key: Key,
    value: Json,
    metadata: Metadata,
    source: Option<Source>,
    text: Option<String>,
    life: Life,
    embed: Embed,
}

/// A lifetime that does not restart on replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Life {
    Keep,
    Never,
    Until(Timestamp),
}

impl Life {
    fn of(ttl: Ttl, now: Timestamp) -> Self {
        match ttl {
            Ttl::Keep => Self::Keep,
            Ttl::Never => Self::Never,
            Ttl::After(lifetime) => Self::Until(now.checked_add(lifetime).unwrap_or(Timestamp::MAX)),
        }
    }

    /// The rest of it, if any.
    fn left(self, now: Timestamp) -> Option<Ttl> {
        match self {
            Self::Keep => Some(Ttl::Keep),
            Self::Never => Some(Ttl::Never),
            Self::Until(end) => Some(end.saturating_since(now))
                .filter(|left| *left >= Duration::from_millis(1))
                .map(Ttl::After),
        }
    }
}

impl Item {
    fn of(key: &Key, value: &Json, options: &SetOptions, now: Timestamp) -> Self {
        Self {
            key: key.clone(),
            value: value.clone(),
            metadata: options.metadata.clone(),
            source: options.source.clone(),
            text: options.text.clone(),
            life: Life::of(options.ttl, now),
            embed: options.embed,
        }
    }

    /// The write again, with a precondition; `None` if its entry has expired.
    fn again(&self, expect: Expect, now: Timestamp) -> Option<NewEntry> {
        let ttl = self.life.left(now)?;
        let mut options = SetOptions::default()
            .with_metadata(self.metadata.clone())
            .with_ttl(ttl)
            .with_expect(expect)
            .with_embed(self.embed);
        options.source.clone_from(&self.source);
        options.text.clone_from(&self.text);
        Some(NewEntry { key: self.key.clone(), value: self.value.clone(), options })
    }
}

impl Record {
    /// `None` if it is not journaled.
    pub(super) fn of(request: &Request, now: Timestamp) -> Option<Self> {
        let change = match request {
            Request::Set { key, value, options, .. } => Change::Put(vec![Item::of(key, value, options, now)]),
            Request::BulkInsert { items, .. } => {
                let item = |item: &NewEntry| Item::of(&item.key, &item.value, &item.options, now);
                Change::Put(items.iter().map(item).collect())
            }
            Request::Delete { key, .. } => Change::Delete(key.clone()),
            _ => return None,
        };
        Some(Self { at: now, change })
    }

    pub(super) fn op(&self) -> &'static str {
        match &self.change {
            Change::Put(items) if items.len() == 1 => "set",
            Change::Put(_) => "bulk_insert",
            Change::Delete(_) => "delete",
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        let (items, deleted) = match &self.change {
            Change::Put(items) => (items.as_slice(), None),
            Change::Delete(key) => ([].as_slice(), Some(key)),
        };
        items.iter().map(|item| &item.key).chain(deleted)
    }

    /// The write without one key; `None` if nothing is left.
    pub(super) fn without(self, key: &Key) -> Option<Self> {
        let change = match self.change {
            Change::Put(mut items) => {
                items.retain(|item| item.key != *key);
                if items.is_empty() { None } else { Some(Change::Put(items)) }
            }
            Change::Delete(deleted) => (deleted != *key).then_some(Change::Delete(deleted)),
        };
        change.map(|change| Self { at: self.at, change })
    }

    /// The calls that repeat the write if each key is as expected: all entries at once, then deletes of those that have
    /// expired since. Quotas are omitted: they were checked when the write was acknowledged.
    pub(super) fn calls(&self, scope: &Scope, expects: &[Expect], now: Timestamp) -> Vec<Request> {
        let delete = |key: &Key, expect: Expect| Request::Delete {
            scope: scope.clone(),
            key: key.clone(),
            options: memory_core::DeleteOptions::expecting(expect),
        };
        // Nothing to delete.
        let is_there = |expect: &Expect| *expect != Expect::Absent;
        match &self.change {
            Change::Delete(key) => {
                let expect = expects.first().copied().unwrap_or_default();
                if is_there(&expect) { vec![delete(key, expect)] } else { Vec::new() }
            }
            Change::Put(items) => {
                let expects = expects.iter().copied().chain(std::iter::repeat(Expect::Any));
                let (mut live, mut calls) = (Vec::new(), Vec::new());
                for (item, expect) in items.iter().zip(expects) {
                    match item.again(expect, now) {
                        Some(entry) => live.push(entry),
                        None if is_there(&expect) => calls.push(delete(&item.key, expect)),
                        None => {}
                    }
                }
                match (live.pop(), live.is_empty()) {
                    (None, _) => {}
                    (Some(NewEntry { key, value, options }), true) => {
                        calls.insert(0, Request::Set { scope: scope.clone(), key, value, options });
                    }
                    (Some(last), false) => {
                        live.push(last);
                        let options = memory_core::BulkOptions::default();
                        calls.insert(0, Request::BulkInsert { scope: scope.clone(), items: live, options });
                    }
                }
                calls
            }
        }
    }

    /// Preconditions for replaying the write over the primary's entries, in key order.
    pub(super) fn expects(entries: &[Option<Entry>]) -> Vec<Expect> {
        let expect = |entry: &Option<Entry>| match entry {
            Some(entry) => Expect::Version(entry.version),
            None => Expect::Absent,
        };
        entries.iter().map(expect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn set(key: &str, ttl: Ttl) -> Request {
        Request::Set {
            scope: Scope::agent("t", "a").unwrap(),
            key: Key::new(key).unwrap(),
            value: Json::parse(r#"{"n": 9007199254740993, "m": 1.50}"#).unwrap(),
            options: SetOptions::default().with_ttl(ttl).with_metadata(Metadata::new().with("a", 1)),
        }
    }

    #[test]
    fn a_write_survives_the_journal_unchanged() {
        let scope = Scope::agent("t", "a").unwrap();
        let record = Record::of(&set("k", Ttl::Never), at(5)).unwrap();
        let text = serde_json::to_string(&record).unwrap();
        let record: Record = serde_json::from_str(&text).unwrap();
        let calls = record.calls(&scope, &[Expect::Version(7)], at(9));
        let [Request::Set { value, options, .. }] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!(value.as_str(), r#"{"n": 9007199254740993, "m": 1.50}"#);
        assert_eq!((options.ttl, options.expect), (Ttl::Never, Expect::Version(7)));
        assert_eq!(options.metadata, Metadata::new().with("a", 1));
    }

    #[test]
    fn a_lifetime_continues_while_queued_and_ends_as_a_delete() {
        let scope = Scope::agent("t", "a").unwrap();
        let record = Record::of(&set("k", Ttl::After(Duration::from_millis(100))), at(1_000)).unwrap();
        let calls = record.calls(&scope, &[Expect::Absent], at(1_060));
        let [Request::Set { options, .. }] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!(options.ttl, Ttl::After(Duration::from_millis(40)));
        let calls = record.calls(&scope, &[Expect::Version(3)], at(1_100));
        assert!(matches!(calls.as_slice(), [Request::Delete { .. }]), "{calls:?}");
        assert!(record.calls(&scope, &[Expect::Absent], at(1_100)).is_empty());
    }
}

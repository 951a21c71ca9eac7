//! What is known about digests. Those of forgotten content share entries, because they stay forever and count against a
//! quota.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::backend::NewEntry;
use memory_core::{Entry, Expect, Key, Result, Ttl};
use serde::{Deserialize, Serialize};

use super::keys;
use super::log::{Log, item};
use super::record::{self, Known};

/// Most digests on a page. Further ones go to the pages whose prefix is one digit longer.
const MOST: usize = 512;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    digests: BTreeSet<String>,
    /// Whether it was ever full: then there are longer prefixes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    full: bool,
}

/// A page as read; without a version it does not exist.
#[derive(Debug, Default)]
struct SeenPage {
    version: Option<u64>,
    page: Page,
    changed: bool,
}

/// Whether an entry is such a page.
pub(crate) fn check(entry: &Entry) -> Result<()> {
    record::read::<Page>(entry).map(drop)
}

impl Log<'_> {
    /// What is known of digests, with what a write to each has to expect.
    pub(crate) async fn known(&self, digests: &[&str]) -> Result<Vec<Option<(Expect, Known)>>> {
        if digests.is_empty() {
            return Ok(Vec::new());
        }
        let of_digests = digests.iter().map(|digest| keys::id(digest));
        let keys: Vec<Key> = std::iter::once(keys::forgotten("")).chain(of_digests).collect::<Result<_>>()?;
        let mut entries = self.entries(&keys).await?.into_iter();
        let first = entries.next().flatten();
        let entries: Vec<Option<Entry>> = entries.collect();
        let missing: Vec<&str> = digests
            .iter()
            .zip(&entries)
            .filter(|(_, entry)| entry.is_none())
            .map(|(digest, _)| *digest)
            .collect();
        let forgotten = Forgotten::behind(self, first, &missing).await?;
        let read = |(digest, entry): (&&str, Option<Entry>)| match entry {
            Some(entry) => Ok(Some((Expect::Version(entry.version), record::read(&entry)?))),
            None => Ok(forgotten.holds(digest).then(|| (Expect::Absent, Known::default()))),
        };
        digests.iter().zip(entries).map(read).collect()
    }
}

/// The pages that may hold some digests, by prefix.
#[derive(Debug)]
pub(crate) struct Forgotten(BTreeMap<String, SeenPage>);

impl Forgotten {
    pub(crate) async fn of(log: &Log<'_>, digests: &[&str]) -> Result<Self> {
        let first = log.entries(&[keys::forgotten("")?]).await?.pop().flatten();
        Self::behind(log, first, digests).await
    }

    /// Like [`Forgotten::of`], given the first page.
    async fn behind(log: &Log<'_>, first: Option<Entry>, digests: &[&str]) -> Result<Self> {
        let mut pages = BTreeMap::new();
        let mut read = vec![(String::new(), first)];
        while !read.is_empty() {
            let mut longer = BTreeSet::new();
            for (prefix, entry) in read {
                let seen = match entry {
                    Some(entry) => SeenPage {
                        version: Some(entry.version),
                        page: record::read(&entry)?,
                        ..SeenPage::default()
                    },
                    None => SeenPage::default(),
                };
                if seen.page.full {
                    let below = digests.iter().filter(|digest| digest.starts_with(&prefix));
                    longer.extend(below.filter_map(|digest| digest.get(..=prefix.len())));
                }
                pages.insert(prefix, seen);
            }
            let keys = longer.iter().map(|prefix| keys::forgotten(prefix)).collect::<Result<Vec<_>>>()?;
            read = longer.into_iter().map(str::to_owned).zip(log.entries(&keys).await?).collect();
        }
        Ok(Self(pages))
    }

    fn holds(&self, digest: &str) -> bool {
        prefixes(digest)
            .any(|prefix| self.0.get(prefix).is_some_and(|seen| seen.page.digests.contains(digest)))
    }

    pub(crate) fn add(&mut self, digest: &str) {
        if self.holds(digest) {
            return;
        }
        for prefix in prefixes(digest) {
            let seen = self.0.entry(prefix.to_owned()).or_default();
            if !seen.page.full {
                seen.page.digests.insert(digest.to_owned());
                (seen.page.full, seen.changed) = (seen.page.digests.len() >= MOST, true);
                return;
            }
        }
    }

    pub(crate) fn remove(&mut self, digest: &str) {
        for prefix in prefixes(digest) {
            if let Some(seen) = self.0.get_mut(prefix) {
                seen.changed |= seen.page.digests.remove(digest);
            }
        }
    }

    /// The writes of what changed.
    pub(crate) fn writes(self) -> Result<Vec<NewEntry>> {
        let changed = self.0.into_iter().filter(|(_, seen)| seen.changed);
        changed
            .map(|(prefix, seen)| {
                let expect = seen.version.map_or(Expect::Absent, Expect::Version);
                item(keys::forgotten(&prefix)?, record::written(&seen.page)?, expect, Ttl::Never)
            })
            .collect()
    }
}

/// A digest's prefixes, the shortest first.
fn prefixes(digest: &str) -> impl Iterator<Item = &str> {
    (0..=digest.len()).filter_map(|end| digest.get(..end))
}

//! Files as entries of a scope: one entry per file, with the path as its key and the text as its value.

use std::time::Duration;

use memory_core::json::JsonKind;
use memory_core::limits::{MAX_BULK_BYTES, MAX_BULK_ITEMS, MAX_PAGE};
use memory_core::{
    Backend as _, BulkOptions, Clock as _, DeleteOptions, Entry, Error, ErrorKind, Expect, GetOptions, Json,
    Key, ListQuery, NewEntry, Quota, Scope, SetOptions, Ttl,
};

use super::path::FilePath;
use super::refused::{Done, Refused};
use crate::drift::Guarded;
use crate::system::SystemClock;

/// Most files in a listing.
const MAX_LISTED: usize = 10_000;
/// How often an edit starts over because somebody else wrote the file.
const ATTEMPTS: usize = 16;

/// The files of a scope, guarded by what the run has seen.
pub(super) struct Files<'a> {
    pub(super) scope: Scope,
    pub(super) guarded: Guarded<'a>,
    pub(super) quota: Quota,
}

/// A folder's files: path below it and size in bytes.
pub(super) struct Listed {
    pub(super) files: Vec<(String, u64)>,
    /// Whether there are more.
    pub(super) more: bool,
}

impl Files<'_> {
    /// The file's entry; the run does not count as having seen it.
    pub(super) async fn entry(&self, path: &FilePath, options: GetOptions) -> Done<Option<Entry>> {
        Ok(self.guarded.backend().get(&self.scope, path.key(), options).await?)
    }

    /// The sizes of the files below a folder.
    pub(super) async fn list(&self, folder: &FilePath) -> Done<Listed> {
        let prefix = folder.prefix();
        let mut listed = Listed { files: Vec::new(), more: false };
        let mut query = ListQuery::prefix(prefix.as_str()).with_limit(MAX_PAGE);
        loop {
            let page = self.guarded.backend().list(&self.scope, query.clone()).await?;
            for entry in page.entries {
                if listed.files.len() == MAX_LISTED {
                    listed.more = true;
                    return Ok(listed);
                }
                let name = entry.key.as_str().strip_prefix(&prefix).unwrap_or_default();
                let bytes = text_of(&entry.value).map_or(entry.value.len_bytes(), |text| text.len());
                listed.files.push((name.to_owned(), bytes as u64));
            }
            if page.next.is_none() {
                return Ok(listed);
            }
            query.cursor = page.next;
        }
    }

    /// Whether anything is below the path.
    pub(super) async fn is_folder(&self, path: &FilePath) -> Done<bool> {
        let query = ListQuery::prefix(path.prefix()).with_limit(1);
        let page = self.guarded.backend().list(&self.scope, query).await?;
        Ok(path.is_root() || !page.entries.is_empty())
    }

    /// Refuses a path below a file.
    async fn in_folders(&self, path: &FilePath) -> Done<()> {
        let folders = path.folders();
        if folders.is_empty() {
            return Ok(());
        }
        let found = self.guarded.backend().get_many(&self.scope, &folders, GetOptions::uncounted()).await?;
        match folders.iter().zip(found).find(|(_, entry)| entry.is_some()) {
            Some((file, _)) => {
                Err(Refused::invalid(format!("Error: The path {} is a file, not a directory", file.as_str())))
            }
            None => Ok(()),
        }
    }

    /// Writes a file that does not exist yet.
    pub(super) async fn create(&self, path: &FilePath, text: &str) -> Done<()> {
        let exists = || Refused::exists(format!("Error: File {path} already exists"));
        if self.is_folder(path).await? {
            return Err(exists());
        }
        self.in_folders(path).await?;
        let options = SetOptions::default().with_expect(Expect::Absent).with_quota(self.quota);
        match self.guarded.set(&self.scope, path.key(), Json::string(text), options).await {
            Ok(outcome) if outcome.created => Ok(()),
            Ok(_) => Err(exists()),
            Err(error) if error.kind() == ErrorKind::Conflict => Err(exists()),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes a file's text. If somebody else writes it meanwhile, the change is applied to their version; but if
    /// `by_line` is set, the change names lines of the text that the run saw, so it is refused.
    pub(super) async fn edit(
        &self,
        path: &FilePath,
        by_line: bool,
        missing: &str,
        change: impl Fn(&str) -> Done<(String, String)>,
    ) -> Done<String> {
        for _ in 0..ATTEMPTS {
            let Some(entry) = self.entry(path, GetOptions::uncounted()).await? else {
                return Err(Refused::missing(missing.to_owned()));
            };
            if by_line && self.guarded.saw_another(&self.scope, path.key(), Some(&entry)) {
                return Err(Refused::exists(format!(
                    "Error: The file {path} has changed since you saw it, so its lines may have moved; view it again"
                )));
            }
            let (text, answer) = change(&text_in(path, &entry)?)?;
            let (value, options) = (Json::string(&text), self.kept(&entry));
            let options = options.with_expect(Expect::Version(entry.version)).with_quota(self.quota);
            match self.guarded.set(&self.scope, path.key(), value, options).await {
                Ok(_) => return Ok(answer),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(path.as_str()))
    }

    /// Removes a file, or a folder with everything in it. Returns whether there was one.
    pub(super) async fn delete(&self, path: &FilePath) -> Done<bool> {
        let mut keys = vec![path.key().clone()];
        let mut query = ListQuery::prefix(path.prefix()).with_limit(MAX_PAGE);
        loop {
            let page = self.guarded.backend().list(&self.scope, query.clone()).await?;
            keys.extend(page.entries.into_iter().map(|entry| entry.key));
            if page.next.is_none() {
                break;
            }
            query.cursor = page.next;
        }
        let mut deleted = 0;
        for key in &keys {
            match self.guarded.delete(&self.scope, key, DeleteOptions::default()).await {
                Ok(outcome) => deleted += usize::from(outcome.deleted),
                Err(error) if deleted == 0 => return Err(error.into()),
                Err(error) => {
                    let (text, kind) = (error.message(), error.kind());
                    let message = format!("{text} ({deleted} files of {path} were deleted before)");
                    return Err(Error::new(kind, message).with_source(error).into());
                }
            }
        }
        Ok(deleted > 0)
    }

    /// Moves a file, or a folder with everything in it. First all new entries are written, or none; then each old one
    /// is removed as it was copied. One that somebody else wrote meanwhile is copied again.
    pub(super) async fn rename(&self, from: &FilePath, to: &FilePath) -> Done<()> {
        let exists = || Refused::exists(format!("Error: The destination {to} already exists"));
        if self.entry(to, GetOptions::uncounted()).await?.is_some() || self.is_folder(to).await? {
            return Err(exists());
        }
        if to.as_str().starts_with(&from.prefix()) {
            return Err(Refused::invalid(format!("Error: The destination {to} is inside {from}")));
        }
        let moves = self.moves(from, to).await?;
        if moves.is_empty() {
            return Err(Refused::missing(format!("Error: The path {from} does not exist")));
        }
        self.in_folders(to).await?;
        let items = moves.iter().map(|(entry, key)| {
            let mut item = NewEntry::new(key.clone(), entry.value.clone());
            item.options = self.kept(entry).with_ttl(rest(entry)).with_expect(Expect::Absent);
            item
        });
        let options = BulkOptions::default().with_quota(self.quota);
        let outcomes = match self.guarded.bulk_insert(&self.scope, items.collect(), options).await {
            Ok(outcomes) => outcomes,
            Err(error) if error.kind() == ErrorKind::Conflict => return Err(exists()),
            Err(error) => return Err(error.into()),
        };
        for ((entry, key), outcome) in moves.into_iter().zip(outcomes) {
            self.leave(entry, &key, outcome.version).await?;
        }
        Ok(())
    }

    /// The entries at or below a path, each with its new key.
    async fn moves(&self, from: &FilePath, to: &FilePath) -> Done<Vec<(Entry, Key)>> {
        let mut entries = Vec::from_iter(self.entry(from, GetOptions::uncounted()).await?);
        let mut query = ListQuery::prefix(from.prefix()).with_limit(MAX_PAGE);
        let mut bytes = 0;
        loop {
            let page = self.guarded.backend().list(&self.scope, query.clone()).await?;
            bytes += page.entries.iter().map(Entry::size_bytes).sum::<u64>();
            entries.extend(page.entries);
            if entries.len() > MAX_BULK_ITEMS || bytes > MAX_BULK_BYTES as u64 {
                return Err(Refused::invalid(format!(
                    "Error: The directory {from} is too large to be renamed at once; rename its directories one by one"
                )));
            }
            if page.next.is_none() {
                break;
            }
            query.cursor = page.next;
        }
        let moved = |entry: Entry| {
            let rest = entry.key.as_str().strip_prefix(from.as_str()).unwrap_or_default();
            let key = Key::new(format!("{}{rest}", to.as_str()))?;
            Ok((entry, key))
        };
        entries.into_iter().map(moved).collect()
    }

    /// Removes an entry that was copied to `key` as `version`, first copying what somebody else has written to it
    /// since.
    async fn leave(&self, mut entry: Entry, key: &Key, mut version: u64) -> Done<()> {
        for _ in 0..ATTEMPTS {
            let options = DeleteOptions::expecting(Expect::Version(entry.version));
            match self.guarded.delete(&self.scope, &entry.key, options).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
            let now = self.guarded.backend().get(&self.scope, &entry.key, GetOptions::uncounted()).await?;
            let Some(now) = now else { return Ok(()) };
            let options = self.kept(&now).with_expect(Expect::Version(version)).with_quota(self.quota);
            version = self.guarded.set(&self.scope, key, now.value.clone(), options).await?.version;
            entry = now;
        }
        Err(busy(entry.key.as_str()))
    }

    /// The parts of an entry other than its value and expiry.
    fn kept(&self, entry: &Entry) -> SetOptions {
        let mut options = SetOptions::default().with_metadata(entry.metadata.clone());
        (options.source, options.text) = (entry.source.clone(), entry.text.clone());
        options
    }
}

/// The remaining lifetime of an entry.
fn rest(entry: &Entry) -> Ttl {
    let Some(expires_at) = entry.expires_at else { return Ttl::Keep };
    let millis = expires_at.as_millis().saturating_sub(SystemClock.now().as_millis());
    Ttl::After(Duration::from_millis(u64::try_from(millis).unwrap_or(0).max(1)))
}

fn busy(path: &str) -> Refused {
    let message = format!("the file {path} kept changing; view it and try again");
    Error::unavailable(message).into()
}

/// The text of a value; `None` if it is not a text.
fn text_of(value: &Json) -> Option<String> {
    (value.kind() == JsonKind::String).then(|| value.deserialize().ok()).flatten()
}

/// The text of a file.
pub(super) fn text_in(path: &FilePath, entry: &Entry) -> Done<String> {
    text_of(&entry.value).ok_or_else(|| {
        Refused::invalid(format!("Error: The entry {path} is no text, so it cannot be read as a file"))
    })
}

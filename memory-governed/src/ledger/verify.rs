//! Proves that no event was changed, removed or cut off.

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{COLUMNS, Event, Ledger, SourceRef, read_event};
use crate::store::{FORGOTTEN, Session, int};

/// Events read at once.
const PAGE: u64 = 500;

/// The end of the ledger at some time. Kept elsewhere, it proves later that nothing before it was cut off or replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The last event; 0 if there is none.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

/// What [`Ledger::verify`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// Events checked.
    pub events: u64,
    /// How many of them had their words erased.
    pub erased: u64,
    /// The end of the ledger now: keep it.
    pub anchor: Anchor,
}

impl Ledger {
    /// The end of the ledger, to be kept elsewhere.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn anchor(&self) -> Result<Anchor> {
        head(&self.0.plain()).await
    }

    /// Checks every event against its hash and the previous one, erasable parts against their digests (or against a
    /// tombstone if missing), and the ledger against an earlier anchor.
    ///
    /// # Errors
    /// `corrupt` with `details.seq` for the first event that does not fit; the store's errors.
    pub async fn verify(&self, anchor: Option<&Anchor>) -> Result<Verified> {
        verify(&self.0.plain(), anchor).await
    }
}

/// As [`Ledger::verify`], in a transaction that is open.
pub(super) async fn verify(session: &Session<'_>, anchor: Option<&Anchor>) -> Result<Verified> {
    let mut verified = Verified { events: 0, erased: 0, anchor: Anchor::default() };
    loop {
        let sql = format!(
            "SELECT {COLUMNS}, r.salt, r.raw_input, r.reference_text, r.target_salt, r.content_salt, \
                 (SELECT count(*) FROM tombstones t WHERE t.event_seq = e.seq) AS graves \
                 FROM events_memory e LEFT JOIN events_raw r ON r.event_id = e.event_id WHERE e.seq > ? ORDER BY e.seq LIMIT ?"
        );
        let page = session.query(&sql, &[int(verified.anchor.seq), int(PAGE)]).await?;
        if page.is_empty() {
            break;
        }
        for mut cells in page {
            let event = read_event(&mut cells)?;
            let behind = Behind {
                salt: cells.maybe_text()?,
                raw: cells.maybe_text()?,
                reference: cells.maybe_text()?,
                target_salt: cells.maybe_text()?,
                content_salt: cells.maybe_text()?,
                has_tombstone: cells.count()? > 0,
            };
            check(&event, &verified.anchor, &behind)?;
            if let Some(anchor) = anchor.filter(|anchor| anchor.seq == event.seq && anchor.hash != event.hash)
            {
                return Err(broken(anchor.seq, "the event is not the one that the anchor names"));
            }
            verified.events += 1;
            verified.erased += u64::from(behind.salt.is_none());
            verified.anchor = Anchor { seq: event.seq, hash: event.hash };
        }
    }
    match anchor {
        Some(anchor) if anchor.seq > verified.anchor.seq => {
            Err(broken(anchor.seq, "the ledger ends before the event that the anchor names"))
        }
        _ => Ok(verified),
    }
}

/// The erasable parts of an event; a part without its salt was erased.
struct Behind {
    salt: Option<String>,
    raw: Option<String>,
    reference: Option<String>,
    target_salt: Option<String>,
    content_salt: Option<String>,
    has_tombstone: bool,
}

fn check(event: &Event, before: &Anchor, behind: &Behind) -> Result<()> {
    if event.seq != before.seq + 1 {
        return Err(broken(before.seq + 1, "an event is missing"));
    }
    if event.prev_hash != before.hash || event.hashed()? != event.hash {
        return Err(broken(event.seq, "an event was changed"));
    }
    let evidence = SourceRef { aliases: Vec::new(), ..event.source_ref.clone() };
    let words = match &behind.salt {
        Some(salt) => {
            let raw = behind.raw.as_deref().unwrap_or_default();
            event.digest_of_words(salt, raw, behind.reference.as_deref())? == event.raw_digest
        }
        None => behind.raw.is_none() && behind.reference.is_none() && evidence == SourceRef::default(),
    };
    let target = match &behind.target_salt {
        Some(salt) => event.digest_of_target(salt) == event.target_digest,
        None => event.target_id.starts_with(FORGOTTEN),
    };
    let content = match &behind.content_salt {
        Some(salt) => event.digest_of_content(salt)? == event.content_digest,
        None => event.payload.is_empty() && event.source_ref.aliases.is_empty(),
    };
    if !(words && target && content) {
        return Err(broken(event.seq, "the words of an event were changed"));
    }
    let is_whole = behind.salt.is_some() && behind.target_salt.is_some() && behind.content_salt.is_some();
    if !is_whole && !behind.has_tombstone {
        return Err(broken(
            event.seq,
            "words of an event are missing, and no tombstone says who had them forgotten",
        ));
    }
    Ok(())
}

fn broken(seq: u64, what: &'static str) -> Error {
    Error::corrupt(what).with_detail("seq", seq)
}

/// The last event.
pub(crate) async fn head(session: &Session<'_>) -> Result<Anchor> {
    let found = session.one("SELECT seq, hash FROM events_memory ORDER BY seq DESC LIMIT 1", &[]).await?;
    found.map_or_else(
        || Ok(Anchor::default()),
        |mut cells| Ok(Anchor { seq: cells.count()?, hash: cells.text()? }),
    )
}

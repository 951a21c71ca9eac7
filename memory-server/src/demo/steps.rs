//! The steps of the tour. Each checks its claim before printing it.

use std::time::Duration;

use memory::Memory;
use memory::system::SystemClock;
use memory_core::{
    Backend, BackendExt as _, Clock as _, Error, ErrorKind, Expect, Filter, GetOptions, Json, Key, Metadata,
    Reducer, Result, Scope, SearchQuery, SetOptions, Ttl, UpdateOptions,
};

use super::checks::{TENANT, USER, expect, wrong};
use crate::import::{self, Format, Item, OnDifferent, Source, Store};
use crate::terminal::excerpt;

/// Another tenant, with a user of the same name.
const OTHER_TENANT: &str = "demo-other";

/// A conversation, one message per line.
const CONVERSATION: &str = include_str!("conversation.jsonl");
/// The question, and the turn that answers it.
const QUESTION: &str = "who has the hazelnut allergy";
const ANSWER: &str = "jsonl/trip/spring/00000005";

const TASKS: i64 = 8;
const INCREMENTS: i64 = 50;

/// The steps, as [`Tour::take`] knows them.
pub(crate) const STEPS: [&str; 10] = [
    "import a conversation, twice",
    "store a value and read it back",
    "let an entry expire",
    "count from many tasks at once",
    "compare and set",
    "change part of a value",
    "search by words",
    "keep two tenants apart",
    "share a database between two agents",
    "close and open again",
];

/// The tour's store.
pub(crate) struct Tour {
    url: String,
    memory: Option<Memory>,
    scope: Scope,
    other: Scope,
}

impl Tour {
    /// Opens the store and drops the data of an earlier tour.
    pub(crate) async fn open(url: String) -> Result<Self> {
        let memory = memory::open(&url).await?;
        let tour = Self {
            url,
            memory: Some(memory),
            scope: Scope::user(TENANT, USER)?,
            other: Scope::user(OTHER_TENANT, USER)?,
        };
        for scope in [&tour.scope, &tour.other] {
            tour.backend()?.drop_scope(scope).await?;
        }
        Ok(tour)
    }

    fn memory(&self) -> Result<&Memory> {
        self.memory.as_ref().ok_or_else(|| wrong("the store is closed"))
    }

    fn backend(&self) -> Result<&dyn Backend> {
        self.memory()?.backend().ok_or_else(|| wrong("the store has no key/value facet"))
    }

    /// Runs one step; returns what happened, as text.
    pub(crate) async fn take(&mut self, step: usize) -> Result<Vec<String>> {
        match step {
            0 => self.import().await,
            1 => self.store().await,
            2 => self.expire().await,
            3 => self.count().await,
            4 => self.compare_and_set().await,
            5 => self.update().await,
            6 => self.search().await,
            7 => self.isolate().await,
            8 => Box::pin(super::primes::show(self.memory()?)).await,
            _ => self.reopen().await,
        }
    }

    async fn import_into(&self, scope: &Scope) -> Result<import::Totals> {
        let Source::Turns(mut reader) =
            import::reader(Format::Jsonl, Box::new(CONVERSATION.as_bytes()), "trip")
        else {
            return Err(wrong("messages are read as conversations"));
        };
        let mut store = Store::new(self.backend()?, &self.memory()?.capabilities(), OnDifferent::Fail);
        while let Some(item) = reader.next_item().map_err(|error| wrong(error.to_string()))? {
            match item {
                Item::Turn(turn) => {
                    let place = turn.place.clone();
                    store.push(scope.clone(), "trip", place, turn.into_entry(Format::Jsonl.name())?).await?;
                }
                Item::Broken(place, why) => return Err(wrong(format!("{place}: {why}"))),
                Item::Entry(..) | Item::PassedOver => {}
            }
        }
        store.finish().await?;
        Ok(store.total())
    }

    async fn import(&self) -> Result<Vec<String>> {
        let turns = CONVERSATION.lines().count() as u64;
        let first = self.import_into(&self.scope).await?;
        expect(first.created == turns, "every turn is new")?;
        let again = self.import_into(&self.scope).await?;
        expect(again.created == 0 && again.unchanged == turns, "importing again changes nothing")?;
        let may = Filter::Eq(memory_core::Field::Metadata("session".into()), "may".into());
        let query = memory_core::ListQuery::prefix("jsonl/trip/").with_filter(may);
        let listed = self.backend()?.list(&self.scope, query).await?.entries.len();
        expect(listed == 5, "five turns carry the session `may`")?;
        Ok(vec![
            format!("first time: {} new, {} unchanged", first.created, first.unchanged),
            format!("second time: {} new, {} unchanged", again.created, again.unchanged),
            format!("a filter on metadata.session finds the {listed} turns of May"),
        ])
    }

    async fn store(&self) -> Result<Vec<String>> {
        let text = r#"{"seat":"window", "balance":9007199254740993, "price":1.50}"#;
        let key = Key::new("profile/mira")?;
        let options = SetOptions::default().with_metadata(Metadata::new().with("kind", "profile"));
        let outcome = self.backend()?.set(&self.scope, &key, Json::parse(text)?, options).await?;
        let read = self.backend()?.get(&self.scope, &key, GetOptions::default()).await?;
        let entry = read.ok_or_else(|| wrong("what was set is not there"))?;
        expect(entry.value.as_str() == text, "the value comes back byte for byte")?;
        expect(entry.version == outcome.version, "the version read is the one written")?;
        Ok(vec![
            format!("{key} = {}", entry.value),
            format!(
                "version {}; the order of members, 2^53 + 1 and the spelling 1.50 came back as they were",
                entry.version
            ),
        ])
    }

    async fn expire(&self) -> Result<Vec<String>> {
        let backend = self.backend()?;
        let key = Key::new("code/door")?;
        let lifetime = Duration::from_millis(250);
        let options = SetOptions::default().with_ttl(Ttl::After(lifetime));
        let outcome = backend.set(&self.scope, &key, Json::string("4471"), options).await?;
        let expires = outcome.expires_at.ok_or_else(|| wrong("the entry has no expiry"))?;
        let before = backend.value(&self.scope, &key).await?;
        // On a very slow machine, the lifetime may end before the read.
        expect(before.is_some() || SystemClock.now() >= expires, "the entry is there before its expiry")?;
        while SystemClock.now() < expires {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        expect(backend.value(&self.scope, &key).await?.is_none(), "the entry is gone at its expiry")?;
        Ok(vec![format!(
            "{key} lived {} ms on the real clock: read before, absent after",
            lifetime.as_millis()
        )])
    }

    async fn count(&self) -> Result<Vec<String>> {
        let key = Key::new("counter/visits")?;
        let mut tasks = Vec::new();
        for _ in 0..TASKS {
            let (memory, scope, key) = (self.memory()?.clone(), self.scope.clone(), key.clone());
            tasks.push(tokio::spawn(async move {
                let backend = memory.backend().ok_or_else(|| wrong("the store has no key/value facet"))?;
                for _ in 0..INCREMENTS {
                    backend.increment(&scope, &key, 1, UpdateOptions::default()).await?;
                }
                Ok::<(), Error>(())
            }));
        }
        for task in tasks {
            task.await.map_err(|error| wrong(error.to_string()))??;
        }
        let sum = self.backend()?.value(&self.scope, &key).await?.and_then(|value| value.as_i64_exact());
        expect(sum == Some(TASKS * INCREMENTS), "no increment is lost")?;
        Ok(vec![format!("{TASKS} tasks each added 1, {INCREMENTS} times: {}", TASKS * INCREMENTS)])
    }

    async fn compare_and_set(&self) -> Result<Vec<String>> {
        let backend = self.backend()?;
        let key = Key::new("plan/dinner")?;
        let seen = backend.put(&self.scope, &key, Json::string("undecided")).await?.version;
        let guarded = || SetOptions::default().with_expect(Expect::Version(seen));
        let won = backend.set(&self.scope, &key, Json::string("artichokes"), guarded()).await?;
        match backend.set(&self.scope, &key, Json::string("pizza"), guarded()).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let value = backend.value(&self.scope, &key).await?;
                expect(value == Some(Json::string("artichokes")), "the loser changed nothing")?;
                Ok(vec![
                    format!("two writers saw version {seen}; the first wrote version {}", won.version),
                    format!("the second was refused ({}): {error}", error.kind()),
                ])
            }
            Err(error) => Err(error),
            Ok(_) => Err(wrong("the second writer overwrote the first")),
        }
    }

    async fn update(&self) -> Result<Vec<String>> {
        let backend = self.backend()?;
        let profile = Key::new("profile/mira")?;
        let merge = Reducer::Merge(Json::parse(r#"{"seat":"aisle"}"#)?);
        let merged = backend.update(&self.scope, &profile, merge, UpdateOptions::default()).await?;
        let wanted = r#"{"seat":"aisle", "balance":9007199254740993, "price":1.50}"#;
        expect(merged.value.as_str() == wanted, "merging leaves every other byte alone")?;
        let recent = Key::new("recent/places")?;
        let mut last = None;
        for place in ["Vienna", "Venice", "Murano", "Burano"] {
            let push = Reducer::BoundedList { item: Json::string(place), limit: 3 };
            last = Some(backend.update(&self.scope, &recent, push, UpdateOptions::default()).await?);
        }
        let kept = last.ok_or_else(|| wrong("push stored nothing"))?.value;
        let wanted = Json::parse(r#"["Venice","Murano","Burano"]"#)?;
        expect(memory_core::json::semantic_eq(&kept, &wanted), "the list keeps its newest three")?;
        Ok(vec![format!("merge: {}", merged.value), format!("push, keeping three: {kept}")])
    }

    async fn search(&self) -> Result<Vec<String>> {
        let query = SearchQuery::new(QUESTION).with_prefix("jsonl/").with_top_k(3);
        let results = self.backend()?.search(&self.scope, query).await?;
        let best = results.hits.first().map(|hit| hit.entry.key.as_str());
        let found = results.hits.iter().any(|hit| hit.entry.key.as_str() == ANSWER);
        expect(best.is_some() && found, "the turn that answers is among the best three")?;
        let mut did = vec![format!("\"{QUESTION}\"")];
        did.extend(
            results
                .hits
                .iter()
                .map(|hit| format!("{:.3}  {}", hit.score, excerpt(&hit.entry.search_text(), 90))),
        );
        Ok(did)
    }

    async fn isolate(&self) -> Result<Vec<String>> {
        let backend = self.backend()?;
        let key = Key::new("profile/mira")?;
        expect(backend.value(&self.other, &key).await?.is_none(), "another tenant's user sees no entry")?;
        let ask = || SearchQuery::new(QUESTION);
        let none = backend.search(&self.other, ask()).await?.hits.len();
        expect(none == 0, "another tenant's user finds nothing")?;
        let scores = |results: &memory_core::SearchResults| -> Vec<(Key, u64)> {
            results.hits.iter().map(|hit| (hit.entry.key.clone(), hit.score.to_bits())).collect()
        };
        let before = scores(&backend.search(&self.scope, ask()).await?);
        self.import_into(&self.other).await?;
        let after = scores(&backend.search(&self.scope, ask()).await?);
        expect(before == after, "another tenant's entries leave the scores alone")?;
        Ok(vec![
            format!("{}: reads nothing of {}, finds nothing", self.other, self.scope),
            format!("its own import left the scores of {} unchanged to the last bit", self.scope),
        ])
    }

    /// Closes the store; a later step fails.
    pub(crate) async fn close(&mut self) -> Result<()> {
        match self.memory.take() {
            Some(memory) => memory.close().await,
            None => Ok(()),
        }
    }

    async fn reopen(&mut self) -> Result<Vec<String>> {
        let before = self.backend()?.stats(&self.scope).await?;
        self.close().await?;
        self.memory = Some(memory::open(&self.url).await?);
        let after = self.backend()?.stats(&self.scope).await?;
        expect(before.entries == after.entries && before.bytes == after.bytes, "everything is there again")?;
        let dinner = self.backend()?.value(&self.scope, &Key::new("plan/dinner")?).await?;
        expect(dinner == Some(Json::string("artichokes")), "the value is the one that was written")?;
        Ok(vec![format!("{} entries, {} bytes, before and after", after.entries, after.bytes)])
    }
}

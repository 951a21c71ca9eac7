//! `import`.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use memory::Access;
use memory::system::SystemClock;
use memory_core::limits::MAX_PAGE;
use memory_core::{
    Clock as _, Entry, ErrorKind, GetOptions, ImportOptions, Key, NameDigest, OnExisting, Provider as _,
    Record, Scope, Taken, Tombstone, TombstonesOf,
};
use serde::Serialize;

use crate::import::{
    self, ConversationRecords, Format, Found, Input, Item, LangGraph, LangGraphRows, Moved, OnDifferent,
    Place, Problems, RecordReader, Records, ScopeTemplate, Store, Totals, Turns,
};
use crate::terminal::{
    Context, Counter, CredentialArgs, Exit, Failure, NAMED, Opened, Out, Progress, Stop, counted, note,
    printable,
};

/// Records per call: few, so that a broken one is reported while the file is still being read.
const RECORDS: usize = 500;
/// About how many bytes of values per call.
const RECORDS_BYTES: usize = 8 << 20;

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Files, folders (their .jsonl, .md and conversations.json files and those of the folders in them, 16 levels deep) or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files [default: detected]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The scope of each turn, as in `user:{conversation}`; {conversation}, {session} and {format} are
    /// replaced [default: the chosen scope; for LoCoMo user:{conversation}]
    #[arg(long, value_name = "TEMPLATE")]
    scope_template: Option<String>,
    /// The conversation's name, for formats that have none [default: the file's name]
    #[arg(long, value_name = "NAME")]
    conversation: Option<String>,
    /// What to do with a turn or a key that is stored with other content [default: skip; for turns with exit code 7]
    #[arg(long, value_enum)]
    on_different: Option<OnDifferent>,
    /// Store also what was forgotten before
    #[arg(long)]
    again: bool,
    /// Store turns as entries under keys of their own, for `get`, `list` and `search`, and not for `recall`
    #[arg(long)]
    entries: bool,
    /// Store nothing, and say what would be stored
    #[arg(long)]
    dry_run: bool,
}

/// What an import did.
#[derive(Default, Serialize)]
struct Report {
    dry_run: bool,
    files: usize,
    formats: BTreeSet<&'static str>,
    #[serde(flatten)]
    totals: Totals,
    /// Records that had expired.
    expired: u64,
    /// Turns that were forgotten before, and records whose subject was forgotten after their last update.
    forgotten: u64,
    /// Parts of the input that are not turns: bookkeeping, empty messages, tool output.
    passed_over: u64,
    problems: Problems,
    /// The first reason why an entry has no vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedder_failure: Option<String>,
    scopes: Vec<ScopeReport>,
    interrupted: bool,
    seconds: f64,
}

#[derive(Serialize)]
struct ScopeReport {
    scope: Scope,
    #[serde(flatten)]
    totals: Totals,
}

/// An import in progress.
struct Import<'a> {
    args: &'a ImportArgs,
    opened: &'a Opened,
    template: Option<ScopeTemplate>,
    store: Store<'a>,
    /// Where turns go; `None`: into the store, as entries.
    turns: Option<Turns<'a>>,
    report: Report,
    progress: Progress,
    read: Counter,
    stop: Stop,
}

pub(crate) async fn run(context: &Context, args: ImportArgs, out: &mut Out) -> Result<Exit, Failure> {
    let started = Instant::now();
    let endings: &[&str] = match args.format {
        None => &["jsonl", import::EXPORT, "md"],
        Some(Format::Markdown) => &["md"],
        Some(_) => &["jsonl", import::EXPORT],
    };
    let import::Inputs { files: inputs, too_deep } =
        import::inputs(&args.files, endings).map_err(|(path, error)| {
            let path = path.display().to_string();
            Failure::File(format!("{} cannot be read", printable(&path, "")), error)
        })?;
    if inputs.is_empty() {
        return Err(Failure::invalid(format!(
            "there is no file with the ending {} in these folders, {} levels deep; name the files",
            endings.join(" or "),
            import::MAX_DEPTH
        )));
    }
    if inputs.iter().any(|input| input.path.is_none()) {
        context.stdin()?;
    }
    let template = args.scope_template.as_deref().map(ScopeTemplate::parse).transpose()?;
    let opened = match args.dry_run {
        true => context.open_unmade(Access::Read).await?,
        false => context.open(Access::Create).await?,
    };
    let capabilities = opened.memory.capabilities();
    let store =
        Store::new(opened.backend("bulk_insert")?, &capabilities, args.on_different()).dry(args.dry_run);
    let turns = match opened.memory.layer().filter(|_| capabilities.layer_idempotent && !args.entries) {
        None => None,
        Some(layer) => {
            let run = opened.run(&CredentialArgs::default())?;
            let turns = Turns::new(layer, opened.backend("add")?, run, args.on_different(), args.again);
            Some(turns.dry(args.dry_run))
        }
    };
    let progress = Progress::new(context.is_quiet());
    progress.set_length(inputs.iter().map(|input| input.bytes).sum());
    let (read, stop) = (Counter::default(), context.stop());
    let report = Report { dry_run: args.dry_run, files: inputs.len(), ..Report::default() };
    let mut import =
        Import { args: &args, opened: &opened, template, store, turns, report, progress, read, stop };
    for folder in too_deep {
        let why = format!("it lies more than {} levels deep and was not read; name it", import::MAX_DEPTH);
        import.store.problems.add(&folder.display().to_string(), Place::Part("folder".to_owned()), why);
    }
    let several = inputs.len() > 1;
    for input in &inputs {
        import.file(input, several).await?;
        if import.stop.is_asked() {
            break;
        }
    }
    import.store.finish().await?;
    if let Some(turns) = &mut import.turns {
        turns.finish().await?;
    }
    import.progress.finish();
    let mut report = import.finish();
    report.seconds = started.elapsed().as_secs_f64();
    out.tell(&report, |out| print(&report, out))?;
    // Of an export, which holds entries that may have changed since, that is what one expects.
    let unasked =
        args.on_different.is_none() && !args.dry_run && !report.formats.contains(Format::Records.name());
    Ok(match &report {
        Report { interrupted: true, .. } => Exit::Interrupted,
        Report { problems, .. } if problems.count > 0 => Exit::Partial,
        Report { totals, .. } if totals.kept > 0 && unasked => Exit::Partial,
        _ => Exit::Ok,
    })
}

impl ImportArgs {
    fn on_different(&self) -> OnDifferent {
        self.on_different.unwrap_or(OnDifferent::Skip)
    }
}

impl Import<'_> {
    /// Imports one file. One unreadable file of several does not stop the others.
    async fn file(&mut self, input: &Input, several: bool) -> Result<(), Failure> {
        match self.read_file(input).await {
            Err(Failure::File(what, error)) if several => {
                self.problem(input, Place::Part("file".to_owned()), &format!("{what}: {error}"));
                Ok(())
            }
            Err(Failure::Error(error)) if several && error.kind() == memory_core::ErrorKind::Corrupt => {
                self.problem(input, Place::Part("file".to_owned()), error.message());
                Ok(())
            }
            result => result,
        }
    }

    async fn read_file(&mut self, input: &Input) -> Result<(), Failure> {
        let failed = |error| Failure::File(format!("{} cannot be read", printable(&input.shown, "")), error);
        let source: Box<dyn Read + Send> = match &input.path {
            Some(path) => Box::new(std::fs::File::open(path).map_err(failed)?),
            None => Box::new(std::io::stdin()),
        };
        let import::Opened { input: mut source, format: format_found } =
            import::detect(self.read.count(source)).map_err(failed)?;
        // Whatever it is called, no format is read from it.
        if let Err(why) = format_found
            && why.is_certain()
        {
            return Err(import::undetected(&printable(&input.shown, ""), why).into());
        }
        let format = match self.args.format {
            Some(format) => format,
            None if input.path.as_deref().is_some_and(import::is_markdown) => Format::Markdown,
            None => format_found.map_err(|why| import::undetected(&printable(&input.shown, ""), why))?,
        };
        self.report.formats.insert(format.name());
        let name = self.args.conversation.as_deref().unwrap_or(&input.name);
        if format == Format::Langgraph {
            if !source.fill_buf().map_err(failed)?.starts_with(import::SQLITE) {
                return self.records(input, &mut LangGraphRows::new(source)).await;
            }
            let path = input.path.as_deref().ok_or_else(|| {
                Failure::invalid("a SQLite file cannot be read from standard input; name the file")
            })?;
            return self.records(input, &mut LangGraph::open(path)?).await;
        }
        match import::reader(format, source, name) {
            import::Source::Turns(mut reader) => {
                let mut moved = Vec::new();
                while let Some(item) = reader.next_item().map_err(failed)? {
                    self.item(input, format, item, &mut moved).await?;
                    if self.stop.is_asked() {
                        return Ok(());
                    }
                }
                match &mut self.turns {
                    Some(turns) => Ok(turns.move_in(&input.shown, &moved).await?),
                    None => Ok(()),
                }
            }
            import::Source::Records(source) => {
                let mut records = Records::open(source).map_err(failed)??;
                self.records(input, &mut records).await
            }
        }
    }

    /// Takes an item; a turn that comes with what became of it waits in `moved` for the others of its file.
    async fn item(
        &mut self,
        input: &Input,
        format: Format,
        item: Item,
        moved: &mut Vec<Moved>,
    ) -> Result<(), Failure> {
        match item {
            Item::Broken(place, why) => self.problem(input, place, &why),
            Item::PassedOver => self.report.passed_over += 1,
            Item::Entry(place, entry) => match self.fixed_scope() {
                Ok(scope) => self.store.push(scope, &input.shown, place, *entry).await?,
                Err(error) => self.problem(input, place, error.message()),
            },
            // Stored without it, it would be something else that was said.
            Item::Turn(turn) if turn.text.contains('\0') && self.turns.is_some() => {
                self.problem(
                    input,
                    turn.place,
                    "it has a NUL character, which a conversation does not store; remove it",
                );
            }
            Item::Turn(turn) if turn.expires_at.is_some_and(|at| at <= SystemClock.now()) => {
                self.report.expired += 1;
            }
            Item::Turn(turn) => {
                let ttl = import::left(turn.expires_at, SystemClock.now());
                let (place, ended) = (turn.place.clone(), turn.ended.clone());
                let id = turn.position.last().cloned().filter(|_| format == Format::Mem0);
                match (self.scope_of(format, &turn), &mut self.turns) {
                    (Err(error), _) => self.problem(input, place, error.message()),
                    (Ok(scope), Some(turns)) => match import::message(*turn, format) {
                        Some(message) => match id.filter(|_| !self.args.dry_run) {
                            Some(id) => {
                                moved.push(Moved { scope, place, id, message, ttl, ended, is_known: false });
                            }
                            None => turns.push(scope, &input.shown, place, message).await?,
                        },
                        None => self.report.passed_over += 1,
                    },
                    (Ok(scope), None) => match turn.into_entry(format.name()) {
                        Ok(mut entry) => {
                            entry.options.ttl = ttl;
                            self.store.push(scope, &input.shown, place, entry).await?;
                        }
                        Err(error) => self.problem(input, place, error.message()),
                    },
                }
            }
        }
        self.show();
        Ok(())
    }

    /// The scope of a turn.
    fn scope_of(&self, format: Format, turn: &import::Turn) -> memory_core::Result<Scope> {
        let settings = &self.opened.settings;
        match &self.template {
            Some(template) => template.scope(&settings.tenant, format, turn),
            None if format == Format::Locomo && !settings.scope_is_chosen() => {
                Scope::user(settings.tenant.as_str(), &turn.conversation)
            }
            None => Ok(settings.scope.clone()),
        }
    }

    /// The scope of what is no turn.
    fn fixed_scope(&self) -> memory_core::Result<Scope> {
        match &self.template {
            Some(template) => template.fixed(&self.opened.settings.tenant),
            None => Ok(self.opened.settings.scope.clone()),
        }
    }

    async fn records(&mut self, input: &Input, records: &mut dyn RecordReader) -> Result<(), Failure> {
        let scope = self.fixed_scope()?;
        let backend = self.opened.backend("import_scope")?;
        let tombstones = self.tombstones(&scope).await?;
        let erased = tombstones.clone().unwrap_or_default();
        let mut conversation =
            ConversationRecords::new(backend, &scope, records.scope(), tombstones, SystemClock.now());
        let failed = |error| Failure::File(format!("{} cannot be read", printable(&input.shown, "")), error);
        let (mut batch, mut bytes) = (Vec::with_capacity(RECORDS), 0);
        while let Some(found) = records.next_record().map_err(failed)? {
            match found {
                Found::Record(place, record) => {
                    let taken = conversation.take(&input.shown, place, *record, self.turns.as_ref()).await?;
                    bytes += taken.iter().map(|(_, record)| record.entry.value.len_bytes()).sum::<usize>();
                    batch.extend(taken);
                }
                Found::Broken(place, why) => self.problem(input, place, &why),
            }
            if batch.len() >= RECORDS || bytes >= RECORDS_BYTES {
                bytes = 0;
                self.store_records(input, &scope, std::mem::take(&mut batch), &erased).await?;
            }
            self.show();
            if self.stop.is_asked() {
                break;
            }
        }
        self.store_records(input, &scope, batch, &erased).await?;
        conversation.left();
        self.report.expired += conversation.expired;
        self.report.forgotten += conversation.forgotten;
        self.report.passed_over += conversation.passed_over;
        self.store.problems.extend(std::mem::take(&mut conversation.problems));
        match &mut self.turns {
            Some(turns) if self.args.dry_run => {
                for moved in conversation.into_turns(turns).await?.into_iter().filter(|moved| !moved.is_known)
                {
                    turns.push(moved.scope, &input.shown, moved.place, moved.message).await?;
                }
            }
            Some(turns) if !self.stop.is_asked() => {
                let moved = conversation.into_turns(turns).await?;
                turns.move_in(&input.shown, &moved).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What was forgotten with a whole scope or tenant; `None`: this caller is not told.
    async fn tombstones(&self, scope: &Scope) -> Result<Option<Vec<Tombstone>>, Failure> {
        if !self.opened.memory.capabilities().erase {
            return Ok(Some(Vec::new()));
        }
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let of = TombstonesOf::Scope(scope.clone());
            let page = match self.opened.memory.tombstones(&of, after.as_ref(), MAX_PAGE).await {
                Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::ScopeDenied) => {
                    return Ok(None);
                }
                page => page?,
            };
            after = page.last().map(|tombstone| tombstone.id);
            let is_last = page.len() < MAX_PAGE;
            all.extend(page);
            if is_last {
                return Ok(Some(all));
            }
        }
    }

    async fn store_records(
        &mut self,
        input: &Input,
        scope: &Scope,
        batch: Vec<(Place, Record)>,
        erased: &[Tombstone],
    ) -> Result<(), Failure> {
        if batch.is_empty() {
            return Ok(());
        }
        let backend = self.opened.backend("import_scope")?;
        let (places, records): (Vec<Place>, Vec<Record>) = batch.into_iter().unzip();
        let stored = import::stored_records(backend, scope, &records).await?;
        let unchanged = stored.iter().filter(|stored| **stored).count() as u64;
        self.store.count(scope, &Totals { unchanged, ..Totals::default() });
        let batch = places.into_iter().zip(records).zip(stored);
        let (places, records): (Vec<Place>, Vec<Record>) =
            batch.filter(|(_, stored)| !stored).map(|(item, _)| item).unzip();
        if self.args.dry_run {
            let now = SystemClock.now();
            let live = records.iter().filter(|record| !record.entry.is_expired(now));
            let live: Vec<&Entry> = live.map(|record| &record.entry).collect();
            self.report.expired += (records.len() - live.len()) as u64;
            let digest = NameDigest::of_scope(scope);
            let is_erased = |entry: &Entry| {
                let covers = |key: NameDigest| key == NameDigest::of_key(&digest, &entry.key);
                let mut of_it = erased.iter().filter(|tombstone| tombstone.id.key.is_none_or(covers));
                !self.args.again && of_it.any(|tombstone| tombstone.is_after(entry.updated_at))
            };
            let left = live.iter().filter(|entry| !is_erased(entry));
            let keys: Vec<Key> = left.map(|entry| entry.key.clone()).collect();
            self.report.forgotten += (live.len() - keys.len()) as u64;
            let there = backend.get_many(scope, &keys, GetOptions::uncounted()).await?;
            let different = there.iter().flatten().count() as u64;
            let created = keys.len() as u64 - different;
            let replaces = self.args.on_different() == OnDifferent::Replace;
            let (replaced, kept) = if replaces { (different, 0) } else { (0, different) };
            self.store.count(scope, &Totals { created, replaced, kept, ..Totals::default() });
            return Ok(());
        }
        let options = ImportOptions::default().with_on_existing(match self.args.on_different() {
            OnDifferent::Skip => OnExisting::Skip,
            OnDifferent::Replace => OnExisting::Replace,
            OnDifferent::Fail => OnExisting::Fail,
        });
        // An export does not say when it was written, so tombstones are compared with each record's own time.
        let judged = self.opened.memory.capabilities().erase && !self.args.again;
        let options = if judged { options.with_taken(Taken::Undated) } else { options };
        let outcome = import::store_records(backend, scope, records, options).await.map_err(|error| {
            let index = error.details().get("index").and_then(serde_json::Value::as_u64);
            let place = index.and_then(|index| places.get(usize::try_from(index).ok()?));
            match place {
                Some(place) => memory_core::Error::new(
                    error.kind(),
                    format!(
                        "{}, {place}: {error}; the records before it are stored",
                        printable(&input.shown, "")
                    ),
                )
                .with_source(error),
                None => error,
            }
        })?;
        let replaces = self.args.on_different() == OnDifferent::Replace;
        self.report.expired += outcome.expired;
        self.report.forgotten += outcome.forgotten;
        self.store.count(
            scope,
            &Totals {
                created: outcome.created,
                replaced: outcome.replaced,
                // Already counted, except for a key that occurs twice.
                unchanged: if replaces { outcome.skipped } else { 0 },
                kept: if replaces { 0 } else { outcome.skipped },
                // Records bring their vectors along; nothing is embedded.
                without_vector: 0,
            },
        );
        Ok(())
    }

    fn problem(&mut self, input: &Input, place: Place, why: &str) {
        self.store.problems.add(&input.shown, place, why);
    }

    fn show(&mut self) {
        let (store, turns) = (&self.store, &self.turns);
        let done = || {
            let mut totals = store.total();
            turns.iter().flat_map(|turns| turns.totals.values()).for_each(|more| totals.add(more));
            let broken = store.problems.count + turns.as_ref().map_or(0, |turns| turns.problems.count);
            format!(
                "{} new, {} there already, {broken} broken",
                totals.created,
                totals.decided() - totals.created
            )
        };
        self.progress.update(self.read.get(), done);
    }

    fn finish(self) -> Report {
        let (mut report, mut store) = (self.report, self.store);
        if let Some(turns) = self.turns {
            turns.totals.iter().for_each(|(scope, totals)| store.count(scope, totals));
            report.forgotten += turns.forgotten;
            store.problems.extend(turns.problems);
        }
        report.totals = store.total();
        report.interrupted = self.stop.is_asked();
        report.scopes =
            store.totals.into_iter().map(|(scope, totals)| ScopeReport { scope, totals }).collect();
        report.problems = store.problems;
        report.embedder_failure = store.embedder_failure;
        report
    }
}

fn print(report: &Report, out: &mut Out) -> Result<(), Failure> {
    for problem in &report.problems.first {
        let told = format!("{}, {}: {}", problem.file, problem.place, problem.why);
        note(&printable(&told, ""));
    }
    let shown = report.problems.first.len() as u64;
    if report.problems.count > shown {
        note(&format!("and {} more", report.problems.count - shown));
    }
    if report.scopes.len() > 1 {
        let row = |scope: &ScopeReport| {
            let Totals { created, replaced, unchanged, kept, .. } = &scope.totals;
            [created.to_string(), (replaced + unchanged + kept).to_string(), scope.scope.to_string()]
        };
        let rows: Vec<[String; 3]> = report.scopes.iter().take(NAMED).map(row).collect();
        out.table(["NEW", "THERE", "SCOPE"], &rows)?;
        if report.scopes.len() > NAMED {
            out.line(format!("and {} more", counted(report.scopes.len() - NAMED, "scope")))?;
        }
    }
    let totals = &report.totals;
    out.line(format!(
        "{}{} new, {} unchanged, {} replaced, {} kept as they were, {} broken, {} passed over, in {:.2} s",
        match (report.interrupted, report.dry_run) {
            (true, _) => "interrupted, run it again to go on: ",
            (false, true) => "nothing was stored; it would be: ",
            (false, false) => "",
        },
        totals.created,
        totals.unchanged,
        totals.replaced,
        totals.kept,
        report.problems.count,
        report.passed_over,
        report.seconds
    ))?;
    if report.expired > 0 {
        out.line(format!("{} had expired and were left out", report.expired))?;
    }
    if report.forgotten > 0 {
        out.line(format!(
            "{} were forgotten before and were left out; --again stores them",
            report.forgotten
        ))?;
    }
    if let Some(why) = &report.embedder_failure {
        out.line(format!(
            "{} were stored without a vector ({why}); `memory reembed` computes them",
            totals.without_vector
        ))?;
    }
    if totals.kept > 0 {
        out.line(
            "kept: something else is stored from the same place; --on-different replace overwrites it, \
             --conversation NAME keeps two files apart",
        )?;
    }
    Ok(())
}

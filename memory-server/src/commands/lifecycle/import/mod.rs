//! `import`.

mod records;

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use memory::Access;
use memory::system::SystemClock;
use memory_core::{Clock as _, OnExisting, Provider as _, Scope};
use serde::Serialize;

use crate::import::{
    self, Format, Input, Item, LangGraph, LangGraphRows, Moved, OnDifferent, Place, Problem, Problems,
    Records, ScopeTemplate, Store, Totals, Turns,
};
use crate::terminal::{
    Context, Counter, CredentialArgs, Exit, Failure, NAMED, Opened, Out, Progress, Stop, counted, note,
    printable,
};

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Files, folders (their .jsonl, .md, conversations.json and conversations-NNN.json files and those of the folders in them, 16 levels deep) or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files [default: detected]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// The scope of each turn, as in `user:{conversation}`; {conversation}, {session} and {format} are
    /// replaced [default: the chosen scope; for LoCoMo user:{conversation}]
    #[arg(long, value_name = "TEMPLATE")]
    scope_template: Option<String>,
    /// The conversation's name, for formats that have none; for Markdown a folder of files [default: the file's name]
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
    unread: import::Unread,
    formats: BTreeSet<&'static str>,
    #[serde(flatten)]
    totals: Totals,
    /// Records that had expired.
    expired: u64,
    /// Turns that were forgotten earlier, and records whose subject was forgotten after their last update.
    forgotten: u64,
    /// Parts of the input that are not turns: bookkeeping, empty messages, tool output.
    passed_over: u64,
    problems: Problems,
    /// The first cases where different content was kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_first: Vec<Problem>,
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
    let import::Inputs { files: inputs, too_deep, unread } =
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
            Some(if args.dry_run { turns.dry(capabilities.max_value_bytes) } else { turns })
        }
    };
    let progress = Progress::new(context.is_quiet());
    progress.set_length(inputs.iter().map(|input| input.bytes).sum());
    let (read, stop) = (Counter::default(), context.stop());
    let report = Report { dry_run: args.dry_run, files: inputs.len(), unread, ..Report::default() };
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
    // An export may be older than the store, so differing entries are expected there.
    let unasked = args.on_different.is_none() && !report.formats.contains(Format::Records.name());
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

    fn on_existing(&self) -> OnExisting {
        match self.on_different() {
            OnDifferent::Skip => OnExisting::Skip,
            OnDifferent::Replace => OnExisting::Replace,
            OnDifferent::Fail => OnExisting::Fail,
        }
    }
}

impl Import<'_> {
    /// Imports one file. If there are several, an unreadable one does not stop the others.
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
        // Whatever it is called, no format fits it.
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
        let name = match &self.args.conversation {
            // Markdown files have a path each.
            Some(folder) if format == Format::Markdown && input.path.is_some() => {
                format!("{folder}/{}", input.name)
            }
            Some(conversation) => conversation.clone(),
            None => input.name.clone(),
        };
        let name = match format {
            Format::Markdown => format!("{name}.{}", input.ending),
            _ => name,
        };
        if format == Format::Langgraph {
            if !source.fill_buf().map_err(failed)?.starts_with(import::SQLITE) {
                return self.records(input, &mut LangGraphRows::new(source)).await;
            }
            let path = input.path.as_deref().ok_or_else(|| {
                Failure::invalid("a SQLite file cannot be read from standard input; name the file")
            })?;
            return self.records(input, &mut LangGraph::open(path)?).await;
        }
        match import::reader(format, source, &name) {
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

    /// Takes an item. A turn that records what became of it waits in `moved` for the others of its file.
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
            // Without the NUL, it would be a different text.
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
                        Some(message) => match id {
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

    /// The scope of anything but turns.
    fn fixed_scope(&self) -> memory_core::Result<Scope> {
        match &self.template {
            Some(template) => template.fixed(&self.opened.settings.tenant),
            None => Ok(self.opened.settings.scope.clone()),
        }
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
            store.kept.extend(turns.kept);
        }
        report.totals = store.total();
        report.interrupted = self.stop.is_asked();
        report.scopes =
            store.totals.into_iter().map(|(scope, totals)| ScopeReport { scope, totals }).collect();
        report.problems = store.problems;
        // Whoever asked to skip them knows.
        if self.args.on_different.is_none() {
            report.kept_first = store.kept.first;
        }
        report.embedder_failure = store.embedder_failure;
        report
    }
}

fn print(report: &Report, out: &mut Out) -> Result<(), Failure> {
    let tell = |problem: &Problem, what: &str| {
        let told = format!("{}, {}: {what}{}", problem.file, problem.place, problem.why);
        note(&printable(&told, ""));
    };
    report.kept_first.iter().for_each(|kept| tell(kept, "not stored: "));
    report.problems.first.iter().for_each(|problem| tell(problem, ""));
    let shown = report.problems.first.len() as u64;
    if report.problems.count > shown {
        note(&format!("and {} more", report.problems.count - shown));
    }
    if let [first, ..] = &*report.unread.first {
        let more = match report.unread.count - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        note(&printable(
            &format!("not read, by its ending or as a link: {first}{more}; name what is to be imported"),
            "",
        ));
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

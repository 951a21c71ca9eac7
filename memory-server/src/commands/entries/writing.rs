//! `set`, `delete`, `incr` and `update`.

use std::path::PathBuf;

use clap::Args;
use memory::Access;
use memory::conversations::check_writable;
use memory_core::{
    DeleteOptions, Embedding, Error, Expect, Json, Key, Reducer, Result as CoreResult, Scalar, SetOptions,
    Source, Ttl, UpdateOptions,
};

use crate::terminal::{Context, Exit, Failure, Out, printable, read_text, values};

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    /// The key
    key: String,
    /// The value: JSON, unless --text is given; `-` reads it from standard input
    #[arg(required_unless_present = "file", conflicts_with = "file", allow_hyphen_values = true)]
    value: Option<String>,
    /// Read the value from a file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The value is plain text, to be stored as a JSON string
    #[arg(long)]
    text: bool,
    /// Time to live: 10m, 30d, `never`, or `keep` for the present one
    #[arg(long, value_name = "TTL", value_parser = values::ttl, default_value = "keep")]
    ttl: Ttl,
    /// Metadata to filter by; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::member)]
    metadata: Vec<(String, Scalar)>,
    /// A short label for the source
    #[arg(long, value_name = "LABEL")]
    source: Option<String>,
    /// The text to index for search, in place of the value's own
    #[arg(long, value_name = "TEXT")]
    index_text: Option<String>,
    #[command(flatten)]
    expect: ExpectArgs,
    /// Only if the key does not exist
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,
}

/// The precondition of every write.
#[derive(Args, Clone, Copy, Debug)]
struct ExpectArgs {
    /// Only if the entry has this version
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

impl ExpectArgs {
    fn expect(self) -> Expect {
        self.if_version.map_or(Expect::Any, Expect::Version)
    }
}

pub(crate) async fn set(context: &Context, args: SetArgs, out: &mut Out) -> Result<Exit, Failure> {
    let key = own_key(&args.key)?;
    let text = match (args.value, args.file) {
        (_, Some(file)) => {
            let opened = std::fs::File::open(&file);
            read_text(&format!("the file {}", file.display()), opened)?
        }
        (Some(value), None) if value == "-" => read_text("standard input", Ok(context.stdin()?))?,
        (Some(value), None) => value,
        (None, None) => return Err(Failure::invalid("give a value, or `-`, or --file")),
    };
    let value = if args.text { Json::string(&text) } else { values::json(text)? };
    let mut options = SetOptions::default()
        .with_ttl(args.ttl)
        .with_metadata(values::metadata(&args.metadata)?)
        .with_expect(if args.if_absent { Expect::Absent } else { args.expect.expect() });
    options.source = args.source.map(Source::new).transpose()?;
    options.text = args.index_text;
    let opened = context.open(Access::Create).await?;
    let outcome = opened.backend("set")?.set(opened.scope(), &key, value, options).await?;
    out.tell(&outcome, |out| {
        let what = match (outcome.written, outcome.created) {
            (false, _) => "stored already",
            (true, true) => "created",
            (true, false) => "replaced",
        };
        let expiry = outcome.expires_at.map_or_else(String::new, |at| format!(", until {at}"));
        tell(&outcome.embedding);
        let key = printable(key.as_str(), "");
        out.line(format!("{what}: {key} version {}{expiry}", outcome.version))
    })?;
    Ok(Exit::Ok)
}

/// A key that may be written.
fn own_key(key: &str) -> CoreResult<Key> {
    let key = Key::new(key)?;
    check_writable(&key).map(|()| key)
}

/// Warns if an entry was stored without a vector.
fn tell(embedding: &Embedding) {
    if let Embedding::Failed(reason) = embedding {
        crate::terminal::note(&format!("stored without a vector: {reason}; `memory reembed` tries again"));
    }
}

#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// The key
    key: String,
    #[command(flatten)]
    expect: ExpectArgs,
}

pub(crate) async fn delete(context: &Context, args: &DeleteArgs, out: &mut Out) -> Result<Exit, Failure> {
    let key = own_key(&args.key)?;
    let opened = context.open(Access::Existing).await?;
    let options = DeleteOptions::expecting(args.expect.expect());
    let outcome = opened.backend("delete")?.delete(opened.scope(), &key, options).await?;
    // A fallback does not know what the store holds; the delete is kept for the store.
    let kept = memory::fallback::fell_back().is_some();
    out.tell(&outcome, |out| {
        let key = printable(key.as_str(), "");
        let what = match (outcome.deleted, kept) {
            (true, _) => "deleted",
            (false, true) => "will be deleted once the store is back",
            (false, false) => "was not there",
        };
        out.line(format!("{what}: {key}"))
    })?;
    Ok(if outcome.deleted || kept { Exit::Ok } else { Exit::Nothing })
}

#[derive(Args, Debug)]
pub(crate) struct IncrArgs {
    /// The key
    key: String,
    /// The amount to add; may be negative
    #[arg(default_value_t = 1, allow_negative_numbers = true, value_parser = values::delta)]
    delta: i64,
    /// Time to live: 10m, 30d, `never`, or `keep` for the present one
    #[arg(long, value_name = "TTL", value_parser = values::ttl, default_value = "keep")]
    ttl: Ttl,
}

pub(crate) async fn incr(context: &Context, args: &IncrArgs, out: &mut Out) -> Result<Exit, Failure> {
    let key = own_key(&args.key)?;
    let opened = context.open(Access::Create).await?;
    let options = UpdateOptions::default().with_ttl(args.ttl);
    let outcome = opened.backend("increment")?.increment(opened.scope(), &key, args.delta, options).await?;
    out.tell(&outcome, |out| out.line(outcome.value.to_string()))?;
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct UpdateArgs {
    /// The key
    key: String,
    #[command(flatten)]
    reducer: ReducerArgs,
    /// How many elements --push keeps (the newest): 1 to 10,000
    #[arg(long, value_name = "N", requires = "push", default_value_t = 100)]
    limit: usize,
    /// Time to live: 10m, 30d, `never`, or `keep` for the present one
    #[arg(long, value_name = "TTL", value_parser = values::ttl, default_value = "keep")]
    ttl: Ttl,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct ReducerArgs {
    /// Merge an object into the stored one, member by member
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    merge: Option<String>,
    /// Append to the stored list, unless it contains an equal element
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    append: Option<String>,
    /// Append to the stored list, and drop its oldest elements down to --limit
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    push: Option<String>,
}

impl ReducerArgs {
    fn reducer(self, limit: usize) -> CoreResult<Reducer> {
        match self {
            Self { merge: Some(patch), .. } => Ok(Reducer::Merge(values::json(patch)?)),
            Self { append: Some(item), .. } => Ok(Reducer::AppendDedupe(values::json(item)?)),
            Self { push: Some(item), .. } => Ok(Reducer::BoundedList { item: values::json(item)?, limit }),
            _ => Err(Error::invalid("give one of --merge, --append and --push")),
        }
    }
}

pub(crate) async fn update(context: &Context, args: UpdateArgs, out: &mut Out) -> Result<Exit, Failure> {
    let key = own_key(&args.key)?;
    let reducer = args.reducer.reducer(args.limit)?;
    let opened = context.open(Access::Create).await?;
    let options = UpdateOptions::default().with_ttl(args.ttl);
    let outcome = opened.backend("update")?.update(opened.scope(), &key, reducer, options).await?;
    out.tell(&outcome, |out| {
        tell(&outcome.embedding);
        out.raw_line(outcome.value.as_str())
    })?;
    Ok(Exit::Ok)
}

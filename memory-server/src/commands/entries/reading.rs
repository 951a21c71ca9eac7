//! `get` and `list`.

use clap::Args;
use memory::Access;
use memory::conversations::list_entries;
use memory_core::{Cursor, Entry, GetOptions, Key, ListQuery, Page};

use super::shown;
use crate::terminal::values::filter;
use crate::terminal::{Context, Exit, Failure, Out, PageArgs, note};

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The key
    key: String,
    /// Print a text without its JSON quotes and escapes
    #[arg(long, conflicts_with = "full")]
    text: bool,
    /// Print the whole entry: metadata, version, times
    #[arg(long)]
    full: bool,
    /// Do not count this as an access
    #[arg(long)]
    peek: bool,
}

pub(crate) async fn get(context: &Context, args: &GetArgs, out: &mut Out) -> Result<Exit, Failure> {
    let key = Key::new(&args.key)?;
    let opened = context.open(Access::Read).await?;
    let options = if args.peek { GetOptions::uncounted() } else { GetOptions::default() };
    let entry = opened.backend("get")?.get(opened.scope(), &key, options).await?;
    if out.is_json() {
        out.document(&entry)?;
        return Ok(if entry.is_some() { Exit::Ok } else { Exit::Nothing });
    }
    let Some(entry) = entry else {
        note(&format!("memory: nothing is stored under this key in {}", opened.scope()));
        return Ok(Exit::Nothing);
    };
    if args.full {
        shown::all_of(out, &entry)?;
    } else if args.text {
        let text: String = entry.value.deserialize().map_err(|_| {
            Failure::from(memory_core::Error::wrong_type(format!(
                "the value is a JSON {}, not a text; leave out --text",
                entry.value.kind()
            )))
        })?;
        out.raw_line(&text)?;
    } else {
        out.raw_line(entry.value.as_str())?;
    }
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Keys that begin with exactly this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Entries that match, as JSON: {"eq":["metadata.speaker","Ada"]}
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn list(context: &Context, args: ListArgs, out: &mut Out) -> Result<Exit, Failure> {
    let filter = filter(args.filter.as_deref())?;
    let opened = context.open(Access::Read).await?;
    let backend = opened.backend("list")?;
    let read = async |cursor: Option<String>, limit| {
        let cursor = cursor.map(Cursor::from_text);
        let mut query = ListQuery::prefix(args.prefix.as_str()).with_limit(limit).with_cursor(cursor);
        query.filter.clone_from(&filter);
        list_entries(backend, opened.scope(), query).await
    };
    args.page.print(out, read, parts, shown::table).await
}

fn parts(page: &Page) -> (&[Entry], Option<&str>) {
    (&page.entries, page.next.as_ref().map(Cursor::as_str))
}

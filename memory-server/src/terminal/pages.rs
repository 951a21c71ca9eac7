//! Lists that arrive page by page.

use std::collections::HashSet;

use clap::Args;
use memory_core::{Error, Result as CoreResult};
use serde::Serialize;

use super::{Exit, Failure, Out, note};

#[derive(Args, Debug)]
pub(crate) struct PageArgs {
    /// How many per page: 1 to 1,000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// The cursor that the previous page printed
    #[arg(long, conflicts_with = "all")]
    cursor: Option<String>,
    /// Print every page; with --json one item per line
    #[arg(long)]
    all: bool,
}

impl PageArgs {
    /// Whether the first page was asked for.
    pub(crate) fn is_first(&self) -> bool {
        self.cursor.is_none()
    }

    /// Prints the requested page, or all pages. `read` gets the cursor and the limit; `parts` returns a page's items
    /// and the next cursor.
    pub(crate) async fn print<P: Serialize, I: Serialize>(
        self,
        out: &mut Out,
        mut read: impl AsyncFnMut(Option<String>, usize) -> CoreResult<P>,
        parts: impl Fn(&P) -> (&[I], Option<&str>),
        table: impl Fn(&mut Out, &[I]) -> Result<(), Failure>,
    ) -> Result<Exit, Failure> {
        let (mut cursor, mut began) = (self.cursor, HashSet::new());
        loop {
            let page = read(cursor.clone(), self.limit).await?;
            let (items, next) = parts(&page);
            let first = items.first().and_then(|item| serde_json::to_string(item).ok());
            if next.is_some()
                && (next == cursor.as_deref() || first.is_some_and(|first| !began.insert(first)))
            {
                return Err(Error::corrupt(
                    "the store lists again what it has listed, and says that more follows: its paging cannot be trusted",
                )
                .into());
            }
            match (out.is_json(), self.all) {
                (true, true) => items.iter().try_for_each(|item| out.document(item))?,
                (true, false) => out.document(&page)?,
                (false, _) => {
                    out.continues = self.all && cursor.is_some();
                    let printed = table(out, items);
                    out.continues = false;
                    printed?;
                }
            }
            out.flush()?;
            match next {
                Some(next) if self.all => cursor = Some(next.to_owned()),
                Some(next) if !out.is_json() => {
                    note(&format!("more: --cursor {next}"));
                    return Ok(Exit::Ok);
                }
                _ => return Ok(Exit::Ok),
            }
        }
    }
}

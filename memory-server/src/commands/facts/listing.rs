//! `recall` and `facts`.

use clap::Args;
use memory_core::layer::{Fact, FactsQuery, RecallQuery, ScoreKind};

use crate::terminal::{Context, CredentialArgs, Exit, Failure, Out, PageArgs, excerpt, printable};

#[derive(Args, Debug)]
pub(crate) struct RecallArgs {
    /// What to look for, in plain words
    #[arg(required = true)]
    query: Vec<String>,
    /// The number of facts at most
    #[arg(long, short = 'k', value_name = "N", default_value_t = 10)]
    top_k: usize,
    /// Leave out facts with a lower score: 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    threshold: Option<f64>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

pub(crate) async fn recall(context: &Context, args: RecallArgs, out: &mut Out) -> Result<Exit, Failure> {
    let mut query = RecallQuery::new(args.query.join(" ")).with_top_k(args.top_k);
    query.threshold = args.threshold;
    let opened = context.open_facts().await?;
    let layer = opened.layer("recall")?;
    let run = opened.run(&args.credentials)?;
    let facts = layer.recall(&run, opened.scope(), query).await?;
    if out.is_json() {
        out.document(&serde_json::json!({ "facts": facts }))?;
        return Ok(Exit::Ok);
    }
    if facts.is_empty() {
        out.line("nothing found")?;
    }
    for fact in &facts {
        let score = fact.score.map_or_else(|| "    -".to_owned(), |score| format!("{score:.3}"));
        let score = out.bold(&score);
        out.styled(&format!("{score}  {}", printable(&excerpt(&fact.memory, usize::MAX), "")))?;
        let kind = match fact.score_kind {
            ScoreKind::Cosine => "cosine",
            ScoreKind::Similarity => "similarity",
            ScoreKind::Rank => "rank: orders only this answer",
            _ => "no score",
        };
        out.line(format!("       {}  ({kind})", fact.id))?;
    }
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct FactsArgs {
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
}

pub(crate) async fn facts(context: &Context, args: FactsArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open_facts().await?;
    let layer = opened.layer("facts")?;
    let run = opened.run(&args.credentials)?;
    let read = async |cursor, limit| {
        let mut query = FactsQuery::default();
        (query.cursor, query.limit) = (cursor, limit);
        layer.facts(&run, opened.scope(), query).await
    };
    args.page.print(out, read, |page| (&*page.facts, page.next.as_deref()), table).await
}

fn table(out: &mut Out, facts: &[Fact]) -> Result<(), Failure> {
    let rows: Vec<[String; 3]> = facts
        .iter()
        .map(|fact| {
            let created = fact.created_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
            [fact.id.to_string(), created, excerpt(&fact.memory, out.shown())]
        })
        .collect();
    out.table(["ID", "CREATED", "FACT"], &rows)
}

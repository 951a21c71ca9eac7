//! `recall` and `facts`.

use clap::Args;
use memory::Access;
use memory::conversations::merged;
use memory_core::layer::{
    ContextBlock, Fact, FactId, FactsQuery, MAX_CONTEXT_TOKENS, RecallQuery, ScoreKind, approximate_tokens,
};
use memory_core::{Scope, Timestamp};
use serde::Serialize;

use crate::terminal::{
    Context, CredentialArgs, Elsewhere, Exit, Failure, Out, PageArgs, counted, excerpt, has_facts, note,
    printable, scope_name, values,
};

/// How many facts go into a block of text, unless --top-k says.
const CONTEXT_FACTS: usize = 50;

#[derive(Args, Debug)]
pub(crate) struct RecallArgs {
    /// What to look for, in plain words
    #[arg(required = true)]
    query: Vec<String>,
    /// The number of facts at most [default: 10, with --max-tokens 50]
    #[arg(long, short = 'k', value_name = "N")]
    top_k: Option<usize>,
    /// Leave out facts with a lower score: 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    threshold: Option<f64>,
    /// Print a block of text for a prompt instead, of at most so many tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Show what held at this time, as 2026-01-31T09:30:00Z; a message without a time counts from when it was stored
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    as_of: Option<Timestamp>,
    /// Only what nobody said or confirmed since this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    unconfirmed_since: Option<Timestamp>,
    /// Show what each score is made of
    #[arg(long)]
    explain: bool,
    /// Look into every scope of the tenant
    #[arg(long)]
    all_scopes: bool,
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// A fact, and its scope if several were searched.
#[derive(Serialize)]
struct Found {
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(flatten)]
    fact: Fact,
}

#[derive(Serialize)]
struct Recalled {
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<ContextBlock>,
    facts: Vec<Found>,
    /// Where nothing was found.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    elsewhere: Option<Elsewhere>,
}

pub(crate) async fn recall(context: &Context, args: RecallArgs, out: &mut Out) -> Result<Exit, Failure> {
    let top_k = args.top_k.unwrap_or(if args.max_tokens.is_some() { CONTEXT_FACTS } else { 10 });
    let mut query = RecallQuery::new(args.query.join(" ")).with_top_k(top_k).with_explain(args.explain);
    (query.threshold, query.as_of) = (args.threshold, args.as_of);
    query.unconfirmed_since = args.unconfirmed_since;
    if args.max_tokens.is_some_and(|tokens| tokens == 0 || tokens > MAX_CONTEXT_TOKENS) {
        return Err(Failure::invalid(format!("--max-tokens is 1 to {MAX_CONTEXT_TOKENS}")));
    }
    let opened = context.open(Access::Read).await?;
    let layer = opened.layer("recall")?;
    let run = opened.run(&args.credentials)?;
    let scopes: Vec<Scope> =
        if args.all_scopes { opened.all_scopes().await? } else { vec![opened.scope().clone()] };
    let mut recalled = Vec::new();
    for scope in &scopes {
        recalled.push((scope, layer.recall(&run, scope, query.clone()).await?));
    }
    let found = merged(recalled, top_k);
    let is_limited = args.threshold.is_some() || args.as_of.is_some() || args.unconfirmed_since.is_some();
    let mut elsewhere = None;
    if found.is_empty() {
        let mut is_here = false;
        for scope in scopes.iter().filter(|_| is_limited) {
            is_here = has_facts(layer, &run, scope).await;
            if is_here {
                break;
            }
        }
        elsewhere = Some(match is_here {
            true => Elsewhere::new(&scopes, true),
            false => opened.elsewhere(&scopes, Some((layer, &run))).await,
        });
    }
    let block = args.max_tokens.map(|tokens| {
        let facts: Vec<Fact> = found.iter().map(|(_, fact)| fact.clone()).collect();
        ContextBlock::of(&facts, tokens, &approximate_tokens)
    });
    let name = |scope: &Scope| args.all_scopes.then(|| scope_name(scope));
    let facts: Vec<Found> =
        found.into_iter().map(|(scope, fact)| Found { scope: name(scope), fact }).collect();
    if out.is_json() {
        out.document(&Recalled { context: block, facts, elsewhere })?;
        return Ok(Exit::Ok);
    }
    match (elsewhere, block) {
        (Some(elsewhere), _) => elsewhere.tell(out)?,
        (None, Some(block)) => {
            print_block(out, &block)?;
            if args.explain {
                out.line("")?;
                facts.iter().try_for_each(|found| print(out, found))?;
            }
        }
        (None, None) => facts.iter().try_for_each(|found| print(out, found))?,
    }
    Ok(Exit::Ok)
}

fn print_block(out: &mut Out, block: &ContextBlock) -> Result<(), Failure> {
    out.line(block.text.trim_end())?;
    out.line("")?;
    for source in &block.sources {
        let ids: Vec<&str> = source.ids.iter().map(FactId::as_str).collect();
        out.line(format!("[{}] {}", source.number, ids.join(" ")))?;
    }
    note(&format!("about {}; {} left out", counted(block.tokens, "token"), counted(block.left_out, "fact")));
    Ok(())
}

fn print(out: &mut Out, found: &Found) -> Result<(), Failure> {
    let fact = &found.fact;
    let score = fact.score.map_or_else(|| "    -".to_owned(), |score| format!("{score:.3}"));
    let score = out.bold(&score);
    let mut text = said(fact, usize::MAX);
    if let Some(at) = fact.at.map(|at| at.to_string()) {
        text = format!("{}  {text}", at.get(..10).unwrap_or(&at));
    }
    out.styled(&format!("{score}  {}", printable(&text, "")))?;
    let kind = match fact.score_kind {
        ScoreKind::Cosine => "cosine",
        ScoreKind::Similarity => "similarity",
        ScoreKind::Rank => "rank: orders only this answer",
        _ => "no score",
    };
    let scope = found.scope.as_ref().map_or_else(String::new, |scope| format!("{scope}  "));
    out.line(format!("       {scope}{}  ({kind}{})", fact.id, held_until(fact)))?;
    if !fact.sources.is_empty() {
        let sources: Vec<&str> = fact.sources.iter().map(FactId::as_str).collect();
        out.line(format!("       drawn from {}", sources.join(" ")))?;
    }
    if !fact.shares.is_empty() {
        let shares: Vec<String> =
            fact.shares.iter().map(|share| format!("{} {:+.3}", share.signal, share.value)).collect();
        let similarity = fact.similarity.map_or_else(String::new, |near| format!("similarity {near:.3}; "));
        out.line(format!("       {similarity}{}", shares.join(", ")))?;
    }
    Ok(())
}

/// Who said it, and what.
fn said(fact: &Fact, shown: usize) -> String {
    let text = excerpt(&fact.memory, shown);
    fact.speaker.as_ref().map_or_else(|| text.clone(), |speaker| format!("{speaker}: {text}"))
}

/// The note for a superseded fact.
fn held_until(fact: &Fact) -> String {
    fact.valid_to.map_or_else(String::new, |until| format!(", held until {until}"))
}

#[derive(Args, Debug)]
pub(crate) struct FactsArgs {
    /// Only what was said in this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
}

pub(crate) async fn facts(context: &Context, args: FactsArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    let layer = opened.layer("facts")?;
    let run = opened.run(&args.credentials)?;
    let (is_first, mut found) = (args.page.is_first(), false);
    let read = async |cursor, limit| {
        let mut query = FactsQuery::default();
        (query.cursor, query.limit) = (cursor, limit);
        query.session.clone_from(&args.session);
        let page = layer.facts(&run, opened.scope(), query).await?;
        found |= !page.facts.is_empty();
        Ok(page)
    };
    let shown = |out: &mut Out, facts: &[Fact]| if facts.is_empty() { Ok(()) } else { table(out, facts) };
    let exit = args.page.print(out, read, |page| (&*page.facts, page.next.as_deref()), shown).await?;
    if is_first && !found && !out.is_json() {
        let looked_in = std::slice::from_ref(opened.scope());
        opened.elsewhere(looked_in, Some((layer, &run))).await.tell(out)?;
    }
    Ok(exit)
}

fn table(out: &mut Out, facts: &[Fact]) -> Result<(), Failure> {
    let rows: Vec<[String; 3]> = facts
        .iter()
        .map(|fact| {
            let at = fact.at.or(fact.created_at).map_or_else(|| "-".to_owned(), |at| at.to_string());
            [fact.id.to_string(), format!("{at}{}", held_until(fact)), said(fact, out.shown())]
        })
        .collect();
    out.table(["ID", "SAID", "FACT"], &rows)
}

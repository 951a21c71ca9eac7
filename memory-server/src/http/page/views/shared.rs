//! A tenant's shared state: rows by bucket, the reasons for a row's state, and what waits for a decision.

use maud::{Markup, html};
use memory::SharedAccess;
use memory::governed::{
    self, Actor, Bucket, Offered, Outcome, Pending, PendingStatus, Review, Row, SharedMemory, Space, Trust,
    Why,
};
use memory_core::{Error, ErrorKind, Op, Provider as _, Result, TenantId};

use super::super::ask::{Page, Visit};
use super::super::fields::Fields;
use super::super::html::{
    hidden, key, list, maybe_time, none, number, plain, quote, remark, said, table, time,
};
use super::super::place::Place;
use super::Done;

/// Deferred writes per page.
const LISTED: usize = 50;
/// Shown in place of erased text.
const ERASED: &str = "The words were erased.";

/// The space that the token's rules name.
struct Shared {
    tenant: TenantId,
    space: Space,
    access: SharedAccess,
}

/// Why there is no shared state to show.
enum Absent {
    Unserved,
    Denied,
    Unnamed,
    Unused,
}

impl Absent {
    fn words(&self) -> &'static str {
        match self {
            Self::Unserved => "This store serves no tables of the host, so it keeps no shared state.",
            Self::Denied => {
                "The rules of this token allow no shared state. The operator allows it by `shared_state` in memory.toml: under \
                 [default], or under the token’s agent."
            }
            Self::Unnamed => "This token reaches every tenant. Name one to see its shared state.",
            Self::Unused => "No agent of this tenant has noted anything for shared state yet.",
        }
    }
}

/// Opens the space, if it exists and the token may. Creates nothing.
async fn open(page: &Page, visit: &Visit, place: &Place) -> Result<Result<Shared, Absent>> {
    if !page.memory.capabilities().host_tables {
        return Ok(Err(Absent::Unserved));
    }
    let (policy, grant) = (visit.caller.policy(), visit.caller.grant());
    // As over MCP, a user's token without an agent reaches none.
    if grant.user.is_some() && grant.agent.is_none() {
        return Ok(Err(Absent::Denied));
    }
    let Some(access) = policy.shared_state else { return Ok(Err(Absent::Denied)) };
    let Some(tenant) = place.tenant.clone() else { return Ok(Err(Absent::Unnamed)) };
    let space = page
        .as_op(visit, Op::Recall, &tenant, None, async {
            match page.has_tables(&tenant, policy.shared_space_name()).await? {
                true => governed::open(&page.memory, &tenant, policy.shared_space_name()).await.map(Some),
                false => Ok(None),
            }
        })
        .await?;
    Ok(space.map(|space| Shared { tenant, space, access }).ok_or(Absent::Unused))
}

impl Shared {
    /// The signed-in caller as the one who decides.
    fn actor(&self, visit: &Visit) -> Actor {
        let agent = visit.caller.grant().agent.as_ref();
        let trust = if self.access >= SharedAccess::Authority { Trust::Authority } else { Trust::Agent };
        Actor {
            agent: agent.map_or_else(|| visit.caller.id().to_owned(), |agent| agent.as_str().to_owned()),
            run: format!("{}-page", visit.caller.id()),
            trust,
        }
    }

    /// Whether decisions are offered.
    fn decides(&self, visit: &Visit) -> bool {
        self.access >= SharedAccess::Authority && visit.caller.allows(Op::Add).is_ok()
    }
}

/// A bucket's name for people.
fn spaced(bucket: Bucket) -> String {
    bucket.as_str().replace('_', " ")
}

fn bucket_of(text: &str) -> Option<Bucket> {
    Bucket::ALL.into_iter().find(|bucket| bucket.as_str() == text)
}

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let shared = match open(page, visit, place).await? {
        Ok(shared) => shared,
        Err(absent) => return Ok(html! { (place.chooser("/page/shared", false)) (remark(absent.words())) }),
    };
    let chosen = fields.get("bucket").and_then(bucket_of);
    let ended = fields.get("ended").is_some();
    let memory = SharedMemory::new(&shared.space);
    let mut rows = Vec::new();
    for bucket in Bucket::ALL.into_iter().filter(|bucket| chosen.is_none_or(|chosen| chosen == *bucket)) {
        rows.extend(memory.bucket(bucket, ended).await?);
    }
    let shown: Vec<Markup> = rows.iter().map(|row| cells(place, row)).collect();
    let ended_word = if ended { "1" } else { "" };
    Ok(html! {
        (place.chooser("/page/shared", false))
        h2 { "What waits for a decision" }
        (queue(visit, place, &shared).await?)
        h2 { "What holds" }
        nav class="tabs" aria-label="Buckets" {
            @for bucket in std::iter::once(None).chain(Bucket::ALL.map(Some)) {
                @let name = bucket.map_or("", Bucket::as_str);
                a href=(place.link("/page/shared", &[("bucket", name), ("ended", ended_word)]))
                    aria-current=[(chosen == bucket).then_some("true")] { (bucket.map_or_else(|| "all".to_owned(), spaced)) }
            }
        }
        @if shown.is_empty() { (remark("No row here.")) }
        @else { (table("Rows that agents read", &["Bucket", "Row", "Status", "Says", "By", "Since"], &shown)) }
        p {
            @let bucket = chosen.map_or("", Bucket::as_str);
            @if ended { a href=(place.link("/page/shared", &[("bucket", bucket)])) { "Only what holds" } }
            @else { a href=(place.link("/page/shared", &[("bucket", bucket), ("ended", "1")])) { "Also what has ended" } }
        }
    })
}

fn why_link(place: &Place, bucket: Bucket, id: &str) -> Markup {
    html! { a href=(place.link("/page/why", &[("bucket", bucket.as_str()), ("row", id)])) { (said(id)) } }
}

fn cells(place: &Place, row: &Row) -> Markup {
    html! {
        td { (spaced(row.bucket)) }
        td { (why_link(place, row.bucket, &row.id)) }
        td { (said(&row.status)) }
        td class="value" { (members(row.fields.iter())) }
        td { (said(&row.created_by)) }
        td { (time(row.valid_from)) @if let Some(until) = row.valid_to { " to " (time(until)) } }
    }
}

/// Members, each with its value.
fn members<'a>(members: impl Iterator<Item = (&'a String, &'a serde_json::Value)>) -> Markup {
    html! {
        ul class="shares" { @for (name, value) in members { li { span class="name" { (said(name)) } " " (said(&plain(value))) } } }
    }
}

/// What waits: everything for those who decide, otherwise what the token's agent wrote, since notes are private.
async fn queue(visit: &Visit, place: &Place, shared: &Shared) -> Result<Markup> {
    let actor = shared.actor(visit);
    let of = (actor.trust < Trust::Authority).then_some(actor.agent.as_str());
    let found = governed::queue(&shared.space).undecided(of, LISTED).await?;
    let decides = shared.decides(visit);
    let offered = SharedMemory::new(&shared.space).offered(&found).await?;
    Ok(html! {
        @if found.is_empty() { (remark(if of.is_some() { "Nothing of this token’s agent waits." } else { "Nothing waits." })) }
        @for (one, offered) in found.iter().zip(&offered) { (deferred(visit, place, one, offered, decides)) }
        @if !found.is_empty() && !decides {
            (remark("This token does not decide: that needs `shared_state = \"authority\"` and the operation `add`."))
        }
    })
}

fn deferred(visit: &Visit, place: &Place, one: &Pending, offered: &[Offered], decides: bool) -> Markup {
    let asks =
        one.request.as_ref().map(|request| format!("{} in {}", request.operation.as_str(), request.bucket));
    let options = format!("rows-{}", one.id);
    html! {
        article class="waits" aria-label=(format!("Deferred write {}", one.id)) {
            (quote(one.text.as_deref(), ERASED))
            p class="under" {
                (said(&one.actor.agent)) ", " (time(one.observed_at)) ", waits until " (time(one.expires_at)) ". "
                @if one.status == PendingStatus::NeedsReview { strong { "It needs a person." } }
                @else { "It may still become certain by itself." }
            }
            (list(&[
                ("Asks for", asks.map_or_else(none, |asks| html! { (asks) })),
                ("Waits because", said(&one.reason)),
            ]))
            @if !offered.is_empty() {
                p { "It may mean" }
                ul {
                    @for row in offered {
                        li {
                            (said(&row.scored.id)) " (" (number(row.scored.score)) ")"
                            @if let Some(title) = &row.title { ": " (said(title)) }
                        }
                    }
                }
            }
            @if decides {
                div class="decide" {
                    form method="post" action="/page/shared" class="line" {
                        (key(&visit.form_key)) (hidden(&place.fields())) (hidden(&[("pending", &one.id), ("do", "bind")]))
                        @let likely = offered.first().map(|row| row.scored.id.as_str());
                        label { "It means the row" input name="target" required list=(options) autocomplete="off" value=[likely]; }
                        datalist id=(options) { @for row in offered { option value=(row.scored.id) { @if let Some(title) = &row.title { (title) } } } }
                        button { "Bind" }
                    }
                    details class="danger" {
                        summary { "Reject…" }
                        form method="post" action="/page/shared" class="line" {
                            (key(&visit.form_key)) (hidden(&place.fields())) (hidden(&[("pending", &one.id), ("do", "reject")]))
                            label { "Because" input name="reason" required maxlength="500"; }
                            button class="danger" { "Reject it" }
                        }
                    }
                }
            }
        }
    }
}

pub(super) async fn why(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let shared = match open(page, visit, place).await? {
        Ok(shared) => shared,
        Err(absent) => return Ok(remark(absent.words())),
    };
    let bucket =
        bucket_of(fields.need("bucket")?).ok_or_else(|| Error::invalid("there is no such bucket"))?;
    let id = fields.need("row")?;
    if !governed::is_id(id) {
        return Err(Error::invalid(
            "this is no row's id: a letter, then letters, digits, `_` and `-`, all lower-case",
        ));
    }
    let why = SharedMemory::new(&shared.space).why(bucket, id).await?;
    if why.row.is_none() && why.events.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no event is about a row of that id"));
    }
    Ok(told(place, bucket, id, &why))
}

fn told(place: &Place, bucket: Bucket, id: &str, why: &Why) -> Markup {
    html! {
        p class="path" { a href=(place.link("/page/shared", &[("bucket", bucket.as_str())])) { (spaced(bucket)) } }
        h2 class="key" { (said(id)) }
        @if let Some(row) = &why.row {
            (list(&[
                ("Status", said(&row.status)),
                ("Revision", html! { (row.rev) }),
                ("By", said(&row.created_by)),
                ("Observed", time(row.observed_at)),
                ("Holds since", time(row.valid_from)),
                ("Held until", maybe_time(row.valid_to)),
                ("Replaced by", row.superseded_by.as_ref().map_or_else(none, |by| said(by))),
                ("Says", members(row.fields.iter())),
            ]))
        }
        h3 { "Events, the oldest first" }
        ol class="events" {
            @for one in &why.events {
                @let event = &one.event;
                li {
                    p {
                        strong { (event.operation.as_str()) } " by " (said(&event.actor.agent)) ", " (time(event.observed_at))
                        ", event " (event.seq) ", " (said(&one.projection))
                    }
                    (quote(one.words.as_deref(), ERASED))
                    p class="under" {
                        "Bound to this row because: " (said(&event.source_ref.reason)) ". Read by "
                        (said(&event.source_ref.interpreter)) ", resolved by " (said(&event.source_ref.resolver)) "."
                        @if let Some(by) = &event.source_ref.reviewed_by { " Decided by " (said(&by.agent)) "." }
                    }
                    (members(event.payload.iter()))
                }
            }
        }
        h3 { "What depends on it" }
        @if why.dependents.is_empty() { (remark("Nothing.")) }
        @else { ul { @for (bucket, id) in &why.dependents { li { (spaced(*bucket)) ": " (why_link(place, *bucket, id)) } } } }
    }
}

/// Binds a deferred write to a row, or rejects it.
pub(super) async fn decide(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Done> {
    let shared =
        open(page, visit, place).await?.map_err(|absent| Error::new(ErrorKind::Forbidden, absent.words()))?;
    let (id, actor) = (fields.need("pending")?, shared.actor(visit));
    let review = Review::new(governed::queue(&shared.space));
    let done = page.as_op(visit, Op::Add, &shared.tenant, None, async {
        match fields.text("do") {
            "bind" => review.bind(id, fields.need("target")?, &actor).await,
            "reject" => review.reject(id, fields.need("reason")?, &actor).await,
            _ => Err(Error::invalid("the form asks for nothing that is known here; load the page again")),
        }
    });
    let notice = match done.await? {
        Outcome::Committed { seq, target_id, .. } => format!("It is event {seq} of the row {target_id}."),
        Outcome::NoOp { reason } => format!("There was nothing to do: {reason}."),
        Outcome::Rejected { .. } => "It is rejected.".to_owned(),
        Outcome::Deferred { reason, .. } => format!("It still waits: {reason}."),
        _ => "It is decided.".to_owned(),
    };
    Ok(Done { to: place.link("/page/shared", &[]), notice })
}

//! One entry.

use maud::{Markup, html};
use memory::conversations::is_reserved;
use memory_core::{
    DeleteOptions, Error, ErrorKind, Expect, GetOptions, Key, Op, Provider as _, Reply, Request, Result,
};

use super::super::ask::{Page, Visit, unexpected};
use super::super::fields::Fields;
use super::super::html::{
    hidden, key, list, maybe_time, none, remark, said, scalar, table, time, value, whole,
};
use super::super::place::Place;
use super::Done;
use crate::terminal::bytes;

/// Characters of a value that are shown.
const SHOWN: usize = 64 << 10;

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let scope = place.need_scope()?;
    let name = Key::new(fields.need("key")?)?;
    let request = Request::Get { scope: scope.clone(), key: name.clone(), options: GetOptions::uncounted() };
    let Reply::Get(found) = page.ask(visit, request).await? else { return Err(unexpected()) };
    let entry =
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no live entry under this key"))?;
    let members: Vec<Markup> = entry
        .metadata
        .iter()
        .map(|(name, value)| html! { td { (said(name)) } td { (said(&scalar(value))) } })
        .collect();
    let (version, quoted) = (entry.version.to_string(), serde_json::Value::from(name.as_str()).to_string());
    Ok(html! {
        p class="path" {
            (scope.kind.as_str()) " " a href=(place.link("/page/entries", &[])) { (said(scope.id.as_str())) }
        }
        h2 class="key" { (said(entry.key.as_str())) }
        (list(&[
            ("Version", html! { (entry.version) }),
            ("Created", time(entry.created_at)),
            ("Written", time(entry.updated_at)),
            ("Expires", maybe_time(entry.expires_at)),
            ("Accesses", html! { (entry.access_count) }),
            ("Size", html! { (bytes(entry.size_bytes())) }),
            ("Source", entry.source.as_ref().map_or_else(none, |source| said(source.as_str()))),
        ]))
        h3 { "Value" }
        (value(entry.value.as_str(), SHOWN))
        @if let Some(text) = &entry.text { h3 { "Text for search" } (whole(text, SHOWN)) }
        @if members.is_empty() { p class="remark" { "It has no metadata." } }
        @else { (table("Metadata", &["Name", "Value"], &members)) }
        @if is_reserved(name.as_str()) { (remark("It holds what was said, which is forgotten under “Conversations”.")) }
        @else if let Err(refused) = visit.caller.allows(Op::Delete) { (remark(refused.message())) }
        @else {
            details class="danger" {
                summary { "Delete this entry…" }
                form method="post" action="/page/entry" {
                    (key(&visit.form_key)) (hidden(&place.fields()))
                    (hidden(&[("key", &quoted), ("version", &version)]))
                    p {
                        "It is deleted for every agent that uses this scope, and cannot be brought back from here. "
                        "If it was written since you loaded this page, nothing is done."
                    }
                    button class="danger" { "Delete version " (entry.version) }
                }
            }
        }
    })
}

/// Deletes the version that was shown. The key arrives as a JSON string, because browsers change line endings in forms.
pub(super) async fn delete(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Done> {
    let scope = place.need_scope()?.clone();
    let quoted = serde_json::from_str::<String>(fields.need("key")?);
    let key = Key::new(quoted.map_err(|_| Error::invalid("the form names no key; load the entry again"))?)?;
    let seen: u64 = fields.parse("version")?.ok_or_else(|| {
        Error::invalid("the form does not say which version is deleted; load the entry again")
    })?;
    let expect = if page.memory.capabilities().compare_and_set { Expect::Version(seen) } else { Expect::Any };
    let request = Request::Delete { scope, key, options: DeleteOptions::expecting(expect) };
    let Reply::Delete(outcome) = page.ask(visit, request).await? else { return Err(unexpected()) };
    let notice = if outcome.deleted { "The entry is deleted." } else { "The entry was gone already." };
    Ok(Done { to: place.link("/page/entries", &[]), notice: notice.to_owned() })
}

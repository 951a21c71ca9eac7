//! What surrounds a view: head, navigation, and who is signed in.

use maud::{DOCTYPE, Markup, html};

use super::ask::Visit;
use super::html::{key, said};
use super::place::Place;

/// The pages in the navigation: path and name. Those with a scope keep it.
const PAGES: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/page/entries", "Entries"),
    ("/page/recall", "Conversations"),
    ("/page/shared", "Shared state"),
    ("/page/graph", "Graph"),
    ("/page/activity", "Activity"),
    ("/page/store", "Store"),
];

/// The navigation page that a path belongs to.
fn page_of(path: &str) -> &str {
    match path {
        "/page/entry" | "/page/scope" => "/page/entries",
        "/page/facts" => "/page/recall",
        "/page/why" => "/page/shared",
        "/page/memory" => "/page/graph",
        other => other,
    }
}

/// A whole document.
fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · memory" }
                link rel="stylesheet" href="/page/style.css";
                link rel="icon" type="image/svg+xml" href="/page/icon.svg";
            }
            body { (body) }
        }
    }
}

/// A view for a signed-in caller.
pub(super) fn framed(
    visit: &Visit,
    path: &str,
    title: &str,
    place: &Place,
    notice: Option<&str>,
    view: &Markup,
) -> Markup {
    let grant = visit.caller.grant();
    let current = page_of(path);
    document(
        title,
        &html! {
            a class="skip" href="#main" { "Skip to the content" }
            header {
                div class="top" {
                    a class="brand" href="/" { "memory" }
                    form class="who" method="post" action="/logout" {
                        (key(&visit.form_key))
                        span {
                            "Token " code { (visit.caller.id()) }
                            @match &grant.tenant {
                                Some(tenant) => { " of " bdi { (tenant) } }
                                None => { " of every tenant" }
                            }
                            @if grant.read_only { ", reads only" }
                        }
                        button { "Sign out" }
                    }
                }
                nav aria-label="Pages" {
                    ul {
                        @for (path, name) in PAGES {
                            li { a href=(place.link(path, &[])) aria-current=[(path == current).then_some("page")] { (name) } }
                        }
                    }
                }
            }
            main id="main" tabindex="-1" {
                @if let Some(notice) = notice { p class="notice" role="status" { (said(notice)) } }
                h1 { (title) }
                (view)
            }
        },
    )
}

/// The form to sign in.
pub(super) fn sign_in(problem: Option<&str>) -> Markup {
    document(
        "Sign in",
        &html! {
            main id="main" class="door" {
                h1 { "memory" }
                p { "This page shows what agents remember, as far as your token allows." }
                @if let Some(problem) = problem { p class="problem" role="alert" { (problem) } }
                form method="post" action="/login" {
                    // For password managers.
                    input type="text" name="username" autocomplete="username" value="memory" hidden;
                    label for="token" { "Token" }
                    input id="token" name="token" type="password" required autofocus autocomplete="current-password"
                        spellcheck="false" aria-describedby="token-help";
                    p id="token-help" class="remark" {
                        "The operator makes one by " code { "memory token create NAME" } ". It begins with " code { "memtok_" } "."
                    }
                    button class="main" { "Sign in" }
                }
            }
        },
    )
}

/// Shown when there is no view.
pub(super) fn plain(title: &str, words: &str) -> Markup {
    document(
        title,
        &html! { main id="main" class="door" { h1 { (title) } p { (words) } p { a href="/" { "Go on" } } } },
    )
}

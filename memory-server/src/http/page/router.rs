//! Lets requests to the page in: checks the session, its token's current state and, for anything that changes
//! something, proof that this page's own form sent it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use maud::{Markup, html};
use memory_core::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::ask::{Page, Visit};
use super::fields::Fields;
use super::frame::{framed, plain, sign_in};
use super::html::reason;
use super::place::Place;
use super::sessions::{Found, is_same};
use super::views;
use memory_api::status;

/// How long a form may take to arrive, since anybody may send one.
const FORM_TIME: Duration = Duration::from_secs(10);
/// Longest form.
const MAX_FORM_BYTES: usize = 64 << 10;

/// No scripts, nothing from elsewhere, no framing, and forms only to this server.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// Whether a path belongs to the page, where a cookie identifies the caller.
pub(crate) fn owns(path: &str) -> bool {
    matches!(path, "/" | "/login" | "/logout") || path.starts_with("/page/")
}

/// The routes.
pub(crate) fn router(page: Page) -> Router {
    ["/", "/login", "/logout", "/page/{*rest}"]
        .into_iter()
        .fold(Router::new(), |routes, path| routes.route(path, any(answer)))
        .with_state(Arc::new(page))
}

/// Answers a request to the page.
async fn answer(State(page): State<Arc<Page>>, request: Request) -> Response {
    let mut response = respond(&page, request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: with that, browsers send no origin with a form.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn respond(page: &Page, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match path.as_str() {
        "/page/style.css" if reads => return asset("text/css; charset=utf-8", STYLE),
        "/page/icon.svg" if reads => return asset("image/svg+xml", ICON),
        _ => {}
    }
    if !reads {
        if *request.method() != Method::POST {
            let words = plain("Not done", "This page knows GET and POST alone.");
            let mut refused = document(StatusCode::METHOD_NOT_ALLOWED, words);
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD,POST"));
            return refused;
        }
        if let Err(error) = check_site(request.headers()) {
            return document(StatusCode::FORBIDDEN, plain("Not done", error.message()));
        }
    }
    let found = page.sessions.find(request.headers(), Instant::now());
    if path == "/login" {
        return match (reads, found) {
            (false, _) => begin(page, request.into_body()).await,
            (true, Some(_)) => see_other("/"),
            (true, None) => document(StatusCode::OK, sign_in(None)),
        };
    }
    let Some(found) = found else { return unknown(reads, None) };
    page.authority.prepare(&found.token).await;
    let caller = match page.authority.caller(&found.token) {
        Ok(caller) => caller,
        Err(error) if error.kind() == ErrorKind::Unauthenticated => {
            return unknown(reads, Some(&page.sessions.end(&found.name)));
        }
        Err(error) => return document(status(error.kind()), plain("Not now", error.message())),
    };
    let visit = Visit { caller, form_key: found.form_key.clone() };
    if reads {
        return shown(page, &visit, &found, &path, request.uri().query().unwrap_or_default()).await;
    }
    let fields = match form(request.into_body()).await {
        Ok(fields) if is_same(fields.text("form_key"), &found.form_key) => fields,
        Ok(_) => {
            let words = "The form is not of this session, so nothing was done. Go back, load the page again and repeat it.";
            return document(StatusCode::FORBIDDEN, plain("Not done", words));
        }
        Err(error) => return document(status(error.kind()), plain("Not done", error.message())),
    };
    if path == "/logout" {
        return with_cookie(see_other("/login"), &page.sessions.end(&found.name));
    }
    match views::act(page, &visit, &path, &fields).await {
        Ok(done) => {
            page.sessions.tell(&found.name, done.notice);
            see_other(&done.to)
        }
        Err(error) => failed(&visit, &path, &fields, "Not done", &error),
    }
}

/// A view, or the reason why there is none.
async fn shown(page: &Page, visit: &Visit, found: &Found, path: &str, query: &str) -> Response {
    let fields = Fields::read(query.as_bytes());
    let view = async {
        let place = Place::of(&visit.caller, &fields)?;
        let view = views::show(page, visit, path, &place, &fields).await?;
        Ok::<_, Error>((place, view))
    };
    match view.await {
        Ok((place, (title, view))) => {
            let notice = page.sessions.told(&found.name);
            document(StatusCode::OK, framed(visit, path, title, &place, notice.as_deref(), &view))
        }
        Err(error) => failed(visit, path, &fields, "Not shown", &error),
    }
}

fn failed(visit: &Visit, path: &str, fields: &Fields, title: &str, error: &Error) -> Response {
    let place = Place::of(&visit.caller, fields).unwrap_or_default();
    let view = html! { p class="remark" { (reason(error)) } p { a href=(place.link("/", &[])) { "To the overview" } } };
    document(status(error.kind()), framed(visit, path, title, &place, None, &view))
}

/// Signs in with a token.
async fn begin(page: &Page, body: Body) -> Response {
    let token = match form(body).await {
        Ok(fields) => fields.text("token").trim().to_owned(),
        Err(error) => return document(status(error.kind()), sign_in(Some(error.message()))),
    };
    page.authority.prepare(&token).await;
    let begun = page
        .authority
        .caller(&token)
        .and_then(|caller| page.sessions.begin(&token, caller.id(), Instant::now()));
    match begun {
        Ok(cookie) => with_cookie(see_other("/"), &cookie),
        Err(error) if error.kind() == ErrorKind::Unauthenticated => {
            let words = "This token is not known, was revoked, or has expired.";
            document(StatusCode::UNAUTHORIZED, sign_in(Some(words)))
        }
        Err(error) => document(status(error.kind()), sign_in(Some(error.message()))),
    }
}

/// Nobody is signed in, or no longer.
fn unknown(reads: bool, cookie: Option<&str>) -> Response {
    let response = match (reads, cookie) {
        (true, None) => see_other("/login"),
        (_, gone) => {
            let words = match gone {
                Some(_) => "The token was revoked or has expired, and your session has ended with it.",
                None => "Your session has ended, so nothing was done. Sign in and repeat it.",
            };
            document(StatusCode::UNAUTHORIZED, sign_in(Some(words)))
        }
    };
    match cookie {
        Some(cookie) => with_cookie(response, cookie),
        None => response,
    }
}

/// Refuses a form from another site. The gate has already compared `Origin` with this server's own name.
fn check_site(headers: &HeaderMap) -> Result<()> {
    let from_here = match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => headers.contains_key(header::ORIGIN),
    };
    if from_here {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Forbidden, "The form was not sent by this page, so nothing was done."))
}

async fn form(body: Body) -> Result<Fields> {
    let late = |_| Error::new(ErrorKind::Timeout, "the form did not arrive in time; send it again");
    let bytes = tokio::time::timeout(FORM_TIME, to_bytes(body, MAX_FORM_BYTES)).await.map_err(late)?;
    let bytes = bytes.map_err(|error| {
        Error::new(ErrorKind::TooLarge, "the form is too long, or did not arrive whole").with_source(error)
    })?;
    Ok(Fields::read(&bytes))
}

fn document(status: StatusCode, page: Markup) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], page.into_string()).into_response()
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let kept = HeaderValue::from_static("private, max-age=300");
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind)), (header::CACHE_CONTROL, kept)], text)
        .into_response()
}

fn see_other(to: &str) -> Response {
    match HeaderValue::from_str(to) {
        Ok(to) => (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

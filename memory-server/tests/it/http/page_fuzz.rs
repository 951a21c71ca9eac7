//! Requests from a signed-in browser with fields that no form of the page has.

use memory_conformance::random::Random;

use super::door::{Door, set};
use super::page::{Browser, HOSTILE, encoded, own};

const PATHS: [&str; 14] = [
    "/",
    "/page/entries",
    "/page/entry",
    "/page/scope",
    "/page/recall",
    "/page/facts",
    "/page/shared",
    "/page/why",
    "/page/graph",
    "/page/memory",
    "/page/activity",
    "/page/store",
    "/page/nowhere",
    "/page/%3Cscript%3E",
];
const FIELDS: [&str; 25] = [
    "after", "agent", "bucket", "cursor", "do", "ended", "fact", "id", "key", "kind", "memory", "meta",
    "mode", "of", "only", "pending", "prefix", "q", "reason", "row", "source", "target", "tenant", "top_k",
    "version",
];
const VALUES: [&str; 12] = [
    HOSTILE,
    "",
    "acme",
    "agent",
    "ann",
    "k",
    "-1",
    "18446744073709551616",
    "\0",
    "../../etc/passwd",
    "' OR 1=1 --",
    "\r\nSet-Cookie: a=b",
];

#[test]
fn fields_that_no_form_has_break_no_page_and_are_shown_as_text() {
    let door = Door::open("");
    let token = door.token("ann", &["--tenant", "acme", "--agent", "ann"]);
    let session = door.session(&token);
    door.ok(&token, &session, set("agent", "k", HOSTILE));
    let browser = Browser::signed_in(&door, &token);
    let (key, origin) = (browser.form_key(), own(&door));
    let mut random = Random::named("page fields");
    for _ in 0..300 {
        let path = PATHS[random.index(PATHS.len())];
        let mut fields: Vec<(&str, &str)> = (0..random.below(6))
            .map(|_| (FIELDS[random.index(FIELDS.len())], VALUES[random.index(VALUES.len())]))
            .collect();
        let (is_form, has_key) = (random.one_in(2), random.one_in(2));
        let answer = if is_form {
            fields.push(("form_key", if has_key { &key } else { HOSTILE }));
            browser.send(path, &[("Origin", &origin)], &fields)
        } else {
            let query: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
            browser.get(&format!("{path}?{}", query.join("&")))
        };
        let shown = || format!("{path} {is_form} {fields:?}: {answer:?}");
        // 501: not served by the store.
        assert!((200..500).contains(&answer.status) || answer.status == 501, "{}", shown());
        assert!(!is_form || has_key || answer.status == 403, "{}", shown());
        for markup in ["<script", "<img", "\" onload="] {
            assert!(!answer.body.contains(markup), "{}", shown());
        }
        assert!(answer.header("set-cookie").is_none(), "{}", shown());
    }
    // None of them signed it out.
    browser.shown("/");
}

//! Building blocks of pages: agents' texts, times, tables, notes.

use std::fmt::Write as _;

use maud::{Markup, Render, html};
use memory_core::{Error, Scalar, Timestamp};
use serde_json::Value;

/// Most characters of a text in a table.
pub(super) const EXCERPT: usize = 240;

/// A stored text: escaped, isolated from the text direction around it, with invisible and direction-changing characters
/// shown as codes, and all of a text of spaces alone. It is cut beyond `most` characters; `left` were already left out.
pub(super) struct Said<'a> {
    text: &'a str,
    most: usize,
    left: usize,
}

/// A text in a table or a line.
pub(super) fn said(text: &str) -> Markup {
    html! { bdi class="said" { (Said { text, most: EXCERPT, left: 0 }) } }
}

/// A whole text, up to `most` characters, with its line breaks.
pub(super) fn whole(text: &str, most: usize) -> Markup {
    html! { pre class="said" dir="auto" tabindex="0" { (Said { text, most, left: 0 }) } }
}

/// A JSON value laid out over lines, up to `most` characters. Its tokens are copied as stored: parsing would lose
/// digits of large numbers and members of objects.
pub(super) fn value(json: &str, most: usize) -> Markup {
    let (text, left) = laid_out(json, most);
    html! { pre class="said" dir="auto" tabindex="0" { (Said { text: &text, most, left }) } }
}

/// About `most` characters of a JSON value, one member or element per line, and how many characters are left.
fn laid_out(json: &str, most: usize) -> (String, usize) {
    let (mut text, mut shown, mut depth) = (String::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    let mut characters = json.chars();
    let breaks = |depth: usize| format!("\n{}", "  ".repeat(depth));
    while shown < most {
        let Some(next) = characters.next() else { break };
        let before = text.len();
        if quoted {
            text.push(next);
            quoted = next != '"' || escaped;
            escaped = next == '\\' && !escaped;
        } else {
            match next {
                ' ' | '\n' | '\r' | '\t' => {}
                '{' | '[' => {
                    text.push(next);
                    let rest = characters.as_str().trim_start();
                    if let Some(after) = rest.strip_prefix(['}', ']']) {
                        text.extend(rest.chars().next());
                        characters = after.chars();
                    } else {
                        depth += 1;
                        text.push_str(&breaks(depth));
                    }
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    text.push_str(&breaks(depth));
                    text.push(next);
                }
                ',' => {
                    text.push(next);
                    text.push_str(&breaks(depth));
                }
                ':' => text.push_str(": "),
                _ => {
                    quoted = next == '"';
                    text.push(next);
                }
            }
        }
        shown += text.get(before..).map_or(0, |more| more.chars().count());
    }
    (text, characters.count())
}

/// A text in an attribute, where invisible characters can only be shown as codes.
pub(super) fn spelled(text: &str) -> String {
    text.chars().fold(String::new(), |mut spelled, character| {
        let _ = match is_unseen(character) {
            true => write!(spelled, "U+{:04X}", u32::from(character)),
            false => spelled.write_char(character),
        };
        spelled
    })
}

impl Render for Said<'_> {
    fn render_to(&self, html: &mut String) {
        let (mut shown, mut rest) = (0, self.text);
        let is_blank = rest.trim().is_empty();
        while let Some(next) = rest.chars().next() {
            if shown == self.most {
                return cut(html, rest.chars().count() + self.left);
            }
            let (one, after) = rest.split_at(next.len_utf8());
            if is_blank || is_unseen(next) {
                let _ = write!(html, "<span class=\"unseen\">U+{:04X}</span>", u32::from(next));
            } else {
                one.render_to(html);
            }
            (shown, rest) = (shown + 1, after);
        }
        if self.left > 0 {
            cut(html, self.left);
        }
    }
}

fn cut(html: &mut String, left: usize) {
    let _ = write!(html, "<span class=\"cut\">… {left} more characters</span>");
}

/// Control characters, direction marks, and zero-width characters except the two joiners.
fn is_unseen(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2060}'..='\u{206f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{feff}'
        | '\u{61c}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

/// A time: shown to the minute, complete in `datetime`.
pub(super) fn time(at: Timestamp) -> Markup {
    let text = at.to_string();
    let shown = match (text.get(..10), text.get(11..16)) {
        (Some(date), Some(minute)) => format!("{date} {minute}"),
        _ => text.clone(),
    };
    html! { time datetime=(text) title=(text) { (shown) } }
}

/// A time, or a dash.
pub(super) fn maybe_time(at: Option<Timestamp>) -> Markup {
    match at {
        Some(at) => time(at),
        None => none(),
    }
}

/// A placeholder for an absent value.
pub(super) fn none() -> Markup {
    html! { span class="none" { "–" } }
}

/// A remark in place of missing content.
pub(super) fn remark(text: &str) -> Markup {
    html! { p class="remark" { (text) } }
}

/// Why a part of a page is not shown.
pub(super) fn refusal(error: &Error) -> Markup {
    html! { p class="remark" { strong { "Not shown. " } (reason(error)) } }
}

/// An error's message and code.
pub(super) fn reason(error: &Error) -> Markup {
    html! { (Said { text: error.message(), most: 2_000, left: 0 }) " " code { (error.kind().code()) } }
}

/// A table with a caption, scrollable if it is too wide.
pub(super) fn table(caption: &str, columns: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div class="scrolls" role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { @for row in rows { tr { (row) } } }
            }
        }
    }
}

/// Names and what they mean.
pub(super) fn list(pairs: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } } }
}

/// A link to the next page of a list.
pub(super) fn more(next: Option<String>) -> Markup {
    html! { @if let Some(next) = next { p class="more" { a href=(next) rel="next" { "Next page" } } } }
}

/// The form field that proves that a form is from this session.
pub(super) fn key(form_key: &str) -> Markup {
    html! { input type="hidden" name="form_key" value=(form_key); }
}

/// Hidden fields that a form passes on.
pub(super) fn hidden(fields: &[(&str, &str)]) -> Markup {
    html! { @for (name, value) in fields { @if !value.is_empty() { input type="hidden" name=(name) value=(value); } } }
}

/// A value for people: a JSON string without its quotes, anything else as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A scalar for people.
pub(super) fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// A number to three places, as for scores.
pub(super) fn number(value: f64) -> String {
    format!("{value:.3}")
}

/// A score, or a dash.
pub(super) fn score(value: Option<f64>) -> Markup {
    value.map_or_else(none, |value| html! { (number(value)) })
}

/// What somebody said, or why it is missing.
pub(super) fn quote(words: Option<&str>, absent: &str) -> Markup {
    html! { p class="quote" { @match words { Some(words) => (said(words)), None => em { (absent) } } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_laid_out_as_it_is_stored() {
        let stored = r#" {"b":1E5,"a" : [ ] ,"a":[123456789012345678901234567890,0.1000000000000000055,{}],"\"{,\\":"[x:\"" }"#;
        let (text, left) = laid_out(stored, 1_000);
        let lines = [
            "{",
            r#"  "b": 1E5,"#,
            r#"  "a": [],"#,
            r#"  "a": ["#,
            "    123456789012345678901234567890,",
            "    0.1000000000000000055,",
            "    {}",
            "  ],",
            r#"  "\"{,\\": "[x:\"""#,
            "}",
        ];
        assert_eq!((text, left), (lines.join("\n"), 0));
        for most in 0..stored.len() {
            let (text, left) = laid_out(stored, most);
            assert!(text.chars().count() <= most + 10 && left > 0, "{most}: {text}");
        }
    }

    #[test]
    fn what_somebody_stored_is_text_and_nothing_else() {
        let shown = said("<script>alert(1)</script>\" onload='x' &amp; \u{202e}gpj.exe\u{0}").into_string();
        assert!(!shown.contains("<script") && !shown.contains('\u{202e}') && !shown.contains('\u{0}'));
        assert!(
            shown.contains("&lt;script&gt;")
                && shown.contains("&quot; onload")
                && shown.contains("&amp;amp;")
        );
        assert!(shown.contains(">U+202E<") && shown.contains(">U+0000<"));
        let attribute = html! { input value=("\"><script>") ; }.into_string();
        assert_eq!(attribute, r#"<input value="&quot;&gt;&lt;script&gt;">"#);
        let cut = whole(&"x".repeat(500), 10).into_string();
        assert!(cut.contains("xxxxxxxxxx<span class=\"cut\">… 490 more characters</span>"), "{cut}");
        let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(127));
        let deep = value(&format!("{open}1,2{close}"), 100).into_string();
        assert!(deep.len() < 400 && deep.contains("more characters"), "{deep}");
        let blank = said(" \u{a0}\n").into_string();
        assert!(
            blank.contains(">U+0020<") && blank.contains(">U+00A0<") && blank.contains(">U+000A<"),
            "{blank}"
        );
        assert!(said("سلام می‌کنم").into_string().contains("سلام می‌کنم"));
    }
}

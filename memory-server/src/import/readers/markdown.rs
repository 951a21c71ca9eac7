//! A Markdown file: one entry, like a file of `memory serve --tools files` (`docs/files.md`). The front matter,
//! observations and relations of a basic-memory note become metadata; the text stays complete.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, Read as _};

use memory_core::limits::MAX_METADATA_MEMBERS;
use memory_core::{Json, Metadata, NewEntry, Result, SetOptions, Source};

use super::front_matter::{self, Value};
use super::item::{Item, Reader};
use super::turn::Place;

/// Largest file.
const MAX_BYTES: u64 = 16 << 20;
/// Marks a line whose links are not typed relations.
const LINKS_TO: &str = "#bm:links_to";

/// Reads one file.
pub(super) struct File<R> {
    input: Option<R>,
    path: String,
}

impl<R: BufRead> File<R> {
    /// `name` is its path below the named folder.
    pub(super) fn new(input: R, name: &str) -> Self {
        Self { input: Some(input), path: format!("{}/{name}", memory::files::ROOT) }
    }
}

impl<R: BufRead + Send> Reader for File<R> {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        let Some(input) = self.input.take() else { return Ok(None) };
        let place = Place::Part("the file".to_owned());
        let mut bytes = Vec::new();
        input.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Ok(Some(Item::Broken(place, format!("it has over {MAX_BYTES} bytes; split it"))));
        }
        let entry = match String::from_utf8(bytes) {
            Ok(text) => entry(&self.path, &text).map_err(|error| error.message().to_owned()),
            Err(_) => Err("it is not UTF-8".to_owned()),
        };
        Ok(Some(match entry {
            Ok(entry) => Item::Entry(place, Box::new(entry)),
            Err(why) => Item::Broken(place, why),
        }))
    }
}

fn entry(path: &str, text: &str) -> Result<NewEntry> {
    let mut entry = NewEntry::new(memory::files::file_key(path)?, Json::string(text));
    entry.options =
        SetOptions::default().with_metadata(labels(text)).with_source(Source::new("import:markdown")?);
    Ok(entry)
}

/// The metadata to filter by.
fn labels(text: &str) -> Metadata {
    let (front, body) = front_matter::split(text);
    let mut metadata = Metadata::new();
    let mut tags = BTreeSet::new();
    for (name, value) in front_matter::members(front) {
        match (name, value) {
            ("tags", Value::Scalar(listed)) => tags.extend(listed_tags(&listed)),
            ("tags", Value::List(items)) => tags.extend(items.iter().flat_map(|item| listed_tags(item))),
            (name, Value::Scalar(value)) => insert(&mut metadata, name, &value),
            (_, Value::List(_)) => {}
        }
    }
    let (mut categories, mut relations) = (BTreeSet::new(), Vec::new());
    let mut code = Code::default();
    for line in body.lines() {
        if code.takes(line) {
            continue;
        }
        let line = without_code(line);
        let (line, links_only) = match line.trim_end().strip_suffix(LINKS_TO) {
            Some(said) if said.ends_with(char::is_whitespace) => (said, true),
            _ => (&*line, false),
        };
        let item = item_of_list(line);
        let observed = item.and_then(observation);
        if let Some((category, said)) = observed {
            categories.insert(category.to_owned());
            tags.extend(hashtags(said));
        } else if !line.trim_start().starts_with('>') && !item.is_some_and(is_task) {
            // Unlike `#12`, which could number anything.
            tags.extend(hashtags(line).filter(|tag| tag.contains(char::is_alphabetic)));
        }
        match item.filter(|_| observed.is_none() && !links_only).and_then(relation) {
            Some((kind, target)) => relations.push(format!("{kind} {target}")),
            None => relations.extend(targets(line).map(|target| format!("links_to {target}"))),
        }
    }
    insert(&mut metadata, "tags", &Vec::from_iter(tags).join(","));
    insert(&mut metadata, "categories", &Vec::from_iter(categories).join(","));
    insert(&mut metadata, "relations", &relations.join("; "));
    metadata
}

/// Tracks where a body is code: between fences, or indented outside a list.
#[derive(Default)]
struct Code {
    fence: Option<(char, usize)>,
    is_list: bool,
    /// Whether an indented line here would be code.
    may_begin: bool,
}

impl Code {
    /// Whether a line is code or a fence.
    fn takes(&mut self, line: &str) -> bool {
        let said = line.trim();
        let mark = said.chars().next().filter(|first| matches!(first, '`' | '~'));
        let run = |mark: char| said.chars().take_while(|c| *c == mark).count();
        match (self.fence, mark) {
            (Some((open, length)), mark) => {
                let closes = mark == Some(open) && run(open) >= length && run(open) == said.len();
                self.fence = self.fence.filter(|_| !closes);
                return true;
            }
            (None, Some(mark))
                if run(mark) >= 3 && !said.get(run(mark)..).is_some_and(|rest| rest.contains('`')) =>
            {
                self.fence = Some((mark, run(mark)));
                return true;
            }
            _ => {}
        }
        if said.is_empty() {
            self.may_begin = true;
            return false;
        }
        if line.starts_with("    ") || line.starts_with('\t') {
            return self.may_begin && !self.is_list;
        }
        (self.is_list, self.may_begin) =
            (item_of_list(line).is_some() || self.is_list && line.starts_with(' '), false);
        false
    }
}

/// A line without its inline code.
fn without_code(line: &str) -> Cow<'_, str> {
    let (mut said, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('`') {
        let (before, code) = rest.split_at(at);
        let mark: &str = code.get(..code.len() - code.trim_start_matches('`').len()).unwrap_or_default();
        let inner = code.get(mark.len()..).unwrap_or_default();
        // It ends at exactly as many backticks.
        let mut end = None;
        let mut from = 0;
        while let Some(found) = inner.get(from..).and_then(|rest| rest.find('`')).map(|found| found + from) {
            let tail = inner.get(found..).unwrap_or_default();
            let length = tail.len() - tail.trim_start_matches('`').len();
            from = found + length;
            if length == mark.len() {
                end = Some(from);
                break;
            }
        }
        said.push_str(before);
        rest = match end {
            Some(end) => {
                said.push(' ');
                inner.get(end..).unwrap_or_default()
            }
            None => {
                said.push_str(mark);
                inner
            }
        };
    }
    if said.is_empty() { Cow::Borrowed(line) } else { Cow::Owned(said + rest) }
}

/// The tags in a text that lists them.
fn listed_tags(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|tag| tag.trim().trim_start_matches('#').to_owned()).filter(|tag| !tag.is_empty())
}

/// `#one` and `#one#two`.
fn hashtags(said: &str) -> impl Iterator<Item = String> {
    let words = said.split_whitespace().filter_map(|word| word.strip_prefix('#'));
    words.flat_map(|word| word.split('#')).flat_map(listed_tags)
}

/// Leaves out a label that is empty or too long to filter by; the text still has it.
fn insert(metadata: &mut Metadata, name: &str, value: &str) {
    let fits = Metadata::new().with(name, value).check().is_ok();
    // Three more may follow.
    if !value.is_empty() && fits && metadata.len() + 3 < MAX_METADATA_MEMBERS {
        metadata.insert(name, value);
    }
}

/// `[category] text #tag (context)`; a task's checkbox or a transcript's time is not a category.
fn observation(item: &str) -> Option<(&str, &str)> {
    let (category, said) = item.trim_start().strip_prefix('[')?.split_once(']')?;
    let category = category.trim();
    let mut letters = category.chars();
    let is_box = match (letters.next(), letters.next()) {
        (Some(only), None) => matches!(only, 'x' | 'X') || !only.is_alphanumeric(),
        (first, _) => first.is_none(),
    };
    let is_time =
        category.contains(':') && category.chars().all(|c| c.is_ascii_digit() || " :.,-".contains(c));
    let is_said = said.starts_with(char::is_whitespace) && !said.trim().is_empty();
    (is_said && !is_box && !is_time && !category.contains(['[', '(', ')'])).then_some((category, said))
}

/// Whether an item starts with a task's checkbox.
fn is_task(item: &str) -> bool {
    ["[ ]", "[x]", "[-]"].into_iter().any(|begin| item.trim_start().starts_with(begin))
}

/// The text after a bullet or number.
fn item_of_list(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix(['-', '*', '+'])
        .or_else(|| {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.strip_prefix(['.', ')']).filter(|_| rest.len() < line.len())
        })?
        .strip_prefix(' ')
}

/// The targets of `[[Target]]` and `[[Target|as shown]]`.
fn targets(line: &str) -> impl Iterator<Item = Cow<'_, str>> {
    line.split("[[").skip(1).filter_map(|rest| target(rest.split_once("]]")?.0))
}

/// The target of a link; `project::note` is the note's permalink `project/note`.
fn target(link: &str) -> Option<Cow<'_, str>> {
    let target = link.split_once('|').map_or(link, |(target, _)| target).trim();
    let in_project =
        target.split_once("::").map(|(project, note)| format!("{project}/{}", note.trim_start_matches('/')));
    (!target.is_empty()).then(|| in_project.map_or(Cow::Borrowed(target), Cow::Owned))
}

/// `type [[Target]]` or `type [[Target]] (context)`. A type of several words is quoted; without quotes, and with more
/// text after the link, it is prose.
fn relation(item: &str) -> Option<(&str, Cow<'_, str>)> {
    let (kind, rest) = item.split_once("[[")?;
    let (link, behind) = rest.split_once("]]")?;
    let (kind, named) = (kind.trim(), unquoted(kind).trim());
    let is_type = named != kind || !kind.contains(char::is_whitespace) && !kind.starts_with('[');
    (is_type && !named.is_empty() && is_context(behind.trim())).then_some(())?;
    Some((named, target(link)?))
}

/// Whether a text is empty or one pair of parentheses.
fn is_context(text: &str) -> bool {
    let mut depth = 0_i32;
    let closed = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth <= 0
    });
    text.is_empty() || closed.is_some_and(|(at, c)| c == ')' && at + 1 == text.len())
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &[u8]) -> Item {
        let mut file = File::new(text, name);
        let item = file.next_item().unwrap().unwrap();
        assert!(file.next_item().unwrap().is_none());
        item
    }

    #[test]
    fn a_note_keeps_its_text_and_can_be_filtered() {
        let note = "---\ntitle: \"Coffee Brewing\"\ntype: note\npermalink: notes/coffee\ntags:\n- coffee\n- 'slow'\n---\n\n# Coffee\n\n\
            ## Observations\n- [method] Pour over is clear #brewing #coffee (tested)\n- [x] done\n- [link](http://a)\n\n\
            ## Relations\n- relates_to [[Coffee Beans]]\n- [[Water]]\n";
        let Item::Entry(_, entry) = read("notes/coffee.md", note.as_bytes()) else { panic!("an entry") };
        assert_eq!(
            (entry.key.as_str(), entry.value.deserialize::<String>().unwrap().as_str()),
            ("/memories/notes/coffee.md", note)
        );
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"categories":"method","permalink":"notes/coffee","relations":"relates_to Coffee Beans; links_to Water","tags":"brewing,coffee,slow","title":"Coffee Brewing","type":"note"}"#
        );
    }

    #[test]
    fn a_relation_has_one_word_or_quotes_and_any_bullet() {
        let note = "- see also [[A]]\n* \"depends on\" [[B]]\n1. part_of [[C]]\n2) [[D]]\n+ [fact] yes\n";
        let Item::Entry(_, entry) = read("a.md", note.as_bytes()) else { panic!("an entry") };
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"categories":"fact","relations":"links_to A; depends on B; part_of C; links_to D"}"#
        );
    }

    /// Regression: the text that a link shows was part of its target, which then matched neither the title nor the
    /// permalink of a note.
    #[test]
    fn a_relation_points_to_a_title_or_a_permalink_whatever_the_link_shows() {
        let note = "- part_of [[Coffee Beans | the beans]]\n- [[notes/water|Water|still]]\n- uses [[|nothing]]\n- [[ ]]\n";
        let Item::Entry(_, entry) = read("a.md", note.as_bytes()) else { panic!("an entry") };
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"relations":"part_of Coffee Beans; links_to notes/water"}"#
        );
    }

    fn labels_of(note: &str) -> String {
        serde_json::to_string(&labels(note)).unwrap()
    }

    /// Regression: titles of basic-memory notes with both kinds of quotes kept YAML's escapes, and a title on the line
    /// below its name became `>`.
    #[test]
    fn front_matter_is_unescaped_and_block_scalars_are_left_to_the_text() {
        let note = "---\ntitle: 'It''s \"tea\"'\ntype: \"a \\\"b\\\"\"\npermalink: >\n  folded\ntags: ['it''s']\n---\n";
        assert_eq!(labels_of(note), r#"{"tags":"it's","title":"It's \"tea\"","type":"a \"b\""}"#);
    }

    /// By `status` and the like, by which basic-memory searches, nothing was found.
    #[test]
    fn every_scalar_of_the_front_matter_is_a_label() {
        let note =
            "---\nstatus: draft\ndate: 2026-01-02\naliases: [a]\nof:\n  title: x\ntags: '#one, two'\n---\n";
        assert_eq!(labels_of(note), r#"{"date":"2026-01-02","status":"draft","tags":"one,two"}"#);
    }

    /// As in basic-memory 0.24. Regression: links and items in code were taken for the note's own.
    #[test]
    fn nothing_is_read_in_code() {
        let note = "`[[A]]` and ``[[B]] ` #b`` but [[C]], not `[[D]]\n````\n```\n- [no] #n\n```\n````\n- [after] it\n\n    - [nested] in a list\n\nText\n\n    - [no] #n\n";
        assert_eq!(labels_of(note), r#"{"categories":"after,nested","relations":"links_to C; links_to D"}"#);
    }

    /// Regression: a sentence with one link became a relation named by the text before it, and a relation whose context
    /// has links was lost.
    #[test]
    fn a_relation_ends_with_its_target_or_a_context() {
        let note = "- knows [[A]] and a tail\n- knows [[B]] (since (long) [[C]])\n- uses [[D]] #bm:links_to\n- says [[E]] (a) (b)\n- in [[other::note]]\n";
        assert_eq!(
            labels_of(note),
            r#"{"relations":"links_to A; knows B; links_to D; links_to E; in other/note"}"#
        );
    }

    /// Regression: `[a]b` and transcript times were taken for categories, `[1]` was not, and tags without a category
    /// were lost.
    #[test]
    fn observations_are_those_of_basic_memory() {
        let note = "- [a]: b\n- [00:01] c\n- [1] d #x#y, #12\n- [?] e\n- [--] f\n- [g]\n- text #z (h)\n## Title #t\n> quote #no\n- [ ] #no\nissue #7\n";
        assert_eq!(labels_of(note), r#"{"categories":"--,1","tags":"12,t,x,y,z"}"#);
    }

    /// As in basic-memory 0.24.
    #[test]
    fn links_anywhere_but_in_code_are_relations() {
        let note = "See [[A]] and [[B|b]].\n- relates_to [[C]] and [[D]]\n- [fact] of [[E]] #t\n- [ ] [[F]]\n```\n- uses [[X]]\n- [no] #n\n```\n- uses [[G]]\n";
        let Item::Entry(_, entry) = read("a.md", note.as_bytes()) else { panic!("an entry") };
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"categories":"fact","relations":"links_to A; links_to B; links_to C; links_to D; links_to E; links_to F; uses G","tags":"t"}"#
        );
    }

    #[test]
    fn plain_markdown_is_a_file_without_labels() {
        let Item::Entry(_, entry) = read("CLAUDE.md", b"# Rules\n- be brief\n") else { panic!("an entry") };
        assert_eq!(entry.key.as_str(), "/memories/CLAUDE.md");
        assert_eq!(serde_json::to_string(&entry.options.metadata).unwrap(), "{}");
        let Item::Entry(_, entry) = read("a.md", b"---\ntags: [one, \"two\"]\nbroken front matter") else {
            panic!("an entry")
        };
        assert_eq!(serde_json::to_string(&entry.options.metadata).unwrap(), "{}");
    }

    #[test]
    fn what_is_no_text_or_has_no_path_is_named() {
        for (name, text) in [("a", &b"\xff\xfe"[..]), ("a/../b", b"x"), (" a", b"x")] {
            assert!(matches!(read(name, text), Item::Broken(..)), "{name}");
        }
    }
}

//! A file of Markdown: one entry, as a file of `memory serve --tools files` (`docs/files.md`). The front matter, observations
//! and relations of a note of basic-memory become metadata; the text stays whole.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, Read as _};

use memory_core::limits::MAX_METADATA_STRING_BYTES;
use memory_core::{Json, Metadata, NewEntry, Result, SetOptions, Source};

use super::item::{Item, Reader};
use super::turn::Place;

/// Largest file.
const MAX_BYTES: u64 = 16 << 20;
/// Members of the front matter that are kept.
const KEPT: [&str; 4] = ["title", "type", "permalink", "tags"];

/// Reads one file.
pub(super) struct File<R> {
    input: Option<R>,
    path: String,
}

impl<R: BufRead> File<R> {
    /// `name` is its path below the folder that was named.
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

/// What can be filtered by.
fn labels(text: &str) -> Metadata {
    let (front, body) = front_matter(text);
    let mut metadata = Metadata::new();
    let mut tags = BTreeSet::new();
    let mut list: Option<&str> = None;
    for line in front.lines() {
        if let Some(item) = line.trim_start().strip_prefix("- ").filter(|_| list == Some("tags")) {
            tags.insert(unescaped(item).into_owned());
            continue;
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        list = KEPT.into_iter().find(|kept| *kept == name.trim());
        match (list, unescaped(value)) {
            (Some("tags"), value) => {
                let listed = value.trim_start_matches('[').trim_end_matches(']').split(',').map(unescaped);
                tags.extend(listed.filter(|tag| !tag.is_empty()).map(Cow::into_owned));
            }
            // What a block scalar says stands in the lines below, which are not read.
            (Some(name), value) if !value.is_empty() && !value.starts_with(['|', '>']) => {
                insert(&mut metadata, name, &value);
            }
            _ => {}
        }
    }
    let (mut categories, mut relations) = (BTreeSet::new(), Vec::new());
    let mut is_code = false;
    for line in body.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let item = item_of_list(line);
        let observed = item.and_then(observation);
        if let Some((category, said)) = observed {
            categories.insert(category.to_owned());
            tags.extend(
                said.split_whitespace()
                    .filter_map(|word| word.strip_prefix('#'))
                    .filter(|tag| !tag.is_empty())
                    .map(str::to_owned),
            );
        }
        let links: Vec<&str> = targets(line).collect();
        let typed = match (item, &*links) {
            (Some(item), [_]) if observed.is_none() => type_of_relation(item),
            _ => None,
        };
        relations.extend(links.into_iter().map(|target| format!("{} {target}", typed.unwrap_or("links_to"))));
    }
    insert(&mut metadata, "tags", &Vec::from_iter(tags).join(","));
    insert(&mut metadata, "categories", &Vec::from_iter(categories).join(","));
    insert(&mut metadata, "relations", &relations.join("; "));
    metadata
}

/// A label that is empty, or too long to filter by, is left out; the text has it.
fn insert(metadata: &mut Metadata, name: &str, value: &str) {
    if !value.is_empty() && value.len() <= MAX_METADATA_STRING_BYTES {
        metadata.insert(name, value);
    }
}

/// The front matter, if there is one, and the rest.
fn front_matter(text: &str) -> (&str, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let begun = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"));
    let split = begun.and_then(|rest| {
        let at = rest.find("\n---")?;
        Some((rest.get(..at)?, rest.get(at + 4..)?))
    });
    split.unwrap_or(("", text))
}

/// `[category] text #tag (context)`; a box of a task list is none.
fn observation(item: &str) -> Option<(&str, &str)> {
    let (category, said) = item.strip_prefix('[')?.split_once(']')?;
    let named = !category.trim().is_empty()
        && category.chars().any(char::is_alphabetic)
        && category != "x"
        && category != "X";
    (named && !category.starts_with('[') && !said.starts_with(['(', '['])).then_some((category.trim(), said))
}

/// What follows a bullet or a number.
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
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("[[").skip(1).filter_map(|rest| {
        let (inner, _) = rest.split_once("]]")?;
        let target = inner.split_once('|').map_or(inner, |(target, _)| target).trim();
        (!target.is_empty()).then_some(target)
    })
}

/// `type [[Target]]`. A type of several words is quoted; without quotes they are prose.
fn type_of_relation(item: &str) -> Option<&str> {
    let kind = item.split_once("[[")?.0.trim();
    let named = unquoted(kind);
    let is_type = named != kind || !kind.contains(char::is_whitespace) && !kind.starts_with('[');
    (is_type && !named.is_empty()).then_some(named)
}

/// A scalar of YAML without its quotes, and with what is escaped in them.
fn unescaped(text: &str) -> Cow<'_, str> {
    let (text, inner) = (text.trim(), unquoted(text));
    match text.as_bytes().first() {
        Some(b'"') if inner != text => Cow::Owned(inner.replace("\\\"", "\"").replace("\\\\", "\\")),
        Some(b'\'') if inner != text => Cow::Owned(inner.replace("''", "'")),
        _ => Cow::Borrowed(inner),
    }
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

    /// What a link shows was part of its target, which then fitted neither the title nor the permalink of a note.
    #[test]
    fn a_relation_points_to_a_title_or_a_permalink_whatever_the_link_shows() {
        let note = "- part_of [[Coffee Beans | the beans]]\n- [[notes/water|Water|still]]\n- uses [[|nothing]]\n- [[ ]]\n";
        let Item::Entry(_, entry) = read("a.md", note.as_bytes()) else { panic!("an entry") };
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"relations":"part_of Coffee Beans; links_to notes/water"}"#
        );
    }

    /// Notes of basic-memory whose titles have both quotes kept those of YAML, and a title below its name was `>`.
    #[test]
    fn front_matter_is_unescaped_and_block_scalars_are_left_to_the_text() {
        let note = "---\ntitle: 'It''s \"tea\"'\ntype: \"a \\\"b\\\"\"\npermalink: >\n  folded\ntags: ['it''s']\n---\n";
        let Item::Entry(_, entry) = read("a.md", note.as_bytes()) else { panic!("an entry") };
        assert_eq!(
            serde_json::to_string(&entry.options.metadata).unwrap(),
            r#"{"tags":"it's","title":"It's \"tea\"","type":"a \"b\""}"#
        );
    }

    /// As basic-memory 0.24 reads them.
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

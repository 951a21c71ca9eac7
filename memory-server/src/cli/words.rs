//! Splits a line of the shell into words, quoted as in other shells.

/// The words of a line; `None` if a quote is open or the line ends in a backslash.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = shlex::split(line)?;
    // People type it out of habit.
    if words.first().is_some_and(|first| first == "memory") {
        words.remove(0);
    }
    Some(words)
}

/// A line still being typed: the words before the last, where the last starts, and the last without its quotes.
pub(super) fn typing(text: &str) -> (Vec<String>, usize, String) {
    let (mut start, mut quote, mut escaped) = (0, None, false);
    let mut last = String::new();
    for (at, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => {
                escaped = false;
                last.push(character);
            }
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, _) if character.is_whitespace() => {
                start = at + character.len_utf8();
                last.clear();
            }
            _ => last.push(character),
        }
    }
    (words(text.get(..start).unwrap_or_default()).unwrap_or_default(), start, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_known_without_its_quotes() {
        let typed = |text: &str| {
            let (words, start, last) = typing(text);
            (words.join("|"), start, last)
        };
        assert_eq!(typed("memory get a"), ("get".to_owned(), 11, "a".to_owned()));
        assert_eq!(typed("set 'a b' \"c d"), ("set|a b".to_owned(), 10, "c d".to_owned()));
        assert_eq!(typed("get a\\ b"), ("get".to_owned(), 4, "a b".to_owned()));
        assert_eq!(typed("é "), ("é".to_owned(), 3, String::new()));
        assert_eq!(words("set a 'open"), None);
    }
}

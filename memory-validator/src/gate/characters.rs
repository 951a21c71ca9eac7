//! Characters that a reader does not see, or mistakes for others.

/// The description of a character that is allowed only in literals, comments and quoted identifiers.
pub(crate) fn hidden(character: char) -> Option<&'static str> {
    match character {
        '\t' | '\n' | '\r' | '\u{c}' | ' '..='~' => None,
        '\0' => Some("a NUL"),
        '\u{1}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Some("a control character"),
        '\u{feff}' => Some("a byte order mark"),
        '\u{ad}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2064}'
        | '\u{180e}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{180b}'..='\u{180d}'
        | '\u{180f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Some("an invisible character"),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => {
            Some("a character that changes the writing direction")
        }
        '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200a}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{3000}' => Some("a space that the engine does not treat as one"),
        '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}' => Some("a code point that is not a character"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn letters_of_any_script_are_seen() {
        for letter in "aZ_9数据ñоßé🦊".chars() {
            assert_eq!(hidden(letter), None, "{letter:?}");
        }
    }

    #[test]
    fn every_unicode_white_space_but_the_engines_own_is_hidden() {
        for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| c.is_whitespace()) {
            assert_eq!(hidden(character).is_none(), "\t\n\u{c}\r ".contains(character), "{character:?}");
        }
    }

    #[test]
    fn every_control_character_is_hidden() {
        for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert_eq!(hidden(character).is_none(), "\t\n\u{c}\r".contains(character), "{character:?}");
        }
    }
}

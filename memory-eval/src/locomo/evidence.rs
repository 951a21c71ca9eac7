//! Evidence of a question, as annotators typed it.

use super::TurnId;

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The turn of this id, which the dialogue may or may not have.
    Turn(TurnId),
    /// Text that is no turn id in any spelling we know.
    Unreadable(String),
}

/// The ids that one evidence string names.
///
/// # Behavior
/// - Ids are separated by `;`, `,` or white space: `D8:6; D9:17` names two.
/// - An id is `D`, a session, `:`, a turn; leading zeros (`D30:05`), a colon after the `D` (`D:11:26`)
///   and a small `d` are read through.
/// - Anything else is kept as [`Evidence::Unreadable`].
#[must_use]
pub fn turn_ids(evidence: &str) -> Vec<Evidence> {
    evidence
        .split(|c: char| c == ';' || c == ',' || c.is_whitespace())
        .filter(|id| !id.is_empty())
        .map(|id| turn_id(id).map_or_else(|| Evidence::Unreadable(id.to_owned()), Evidence::Turn))
        .collect()
}

pub(super) fn turn_id(id: &str) -> Option<TurnId> {
    let rest = id.strip_prefix(['D', 'd'])?;
    let (session, turn) = rest.strip_prefix(':').unwrap_or(rest).split_once(':')?;
    Some(TurnId { session: number(session)?, turn: number(turn)? })
}

fn number(digits: &str) -> Option<u32> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(session: u32, turn: u32) -> Evidence {
        Evidence::Turn(TurnId { session, turn })
    }

    #[test]
    fn spellings_of_annotators_are_read_through() {
        assert_eq!(turn_ids("D8:6; D9:17"), [turn(8, 6), turn(9, 17)]);
        assert_eq!(turn_ids("D9:1 D4:4 D4:6"), [turn(9, 1), turn(4, 4), turn(4, 6)]);
        assert_eq!(turn_ids("D30:05"), [turn(30, 5)]);
        assert_eq!(turn_ids("D:11:26"), [turn(11, 26)]);
        assert_eq!(turn_ids("  "), []);
    }

    #[test]
    fn what_is_no_id_is_kept_as_text() {
        for text in ["D", "D:", "D1", "D1:x", "D+1:2", "1:2", "D99999999999:1", "D1:2:3"] {
            assert_eq!(turn_ids(text), [Evidence::Unreadable(text.to_owned())], "{text}");
        }
    }
}

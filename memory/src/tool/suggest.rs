//! Suggests the nearest valid name for a mistyped one.

/// Longer names are not typos.
const MAX_NAME_BYTES: usize = 64;

/// The known name with the fewest edits, if they are at most a third of its length (at least one), or if the given name
/// extends or abbreviates it. Ties go to the first.
pub(super) fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return None;
    }
    known
        .iter()
        .filter_map(|candidate| {
            let edits = edits(&name, candidate);
            let related = name.len() >= 2 && (name.contains(candidate.as_str()) || candidate.contains(&name));
            (related || edits <= (candidate.len() / 3).max(1)).then_some((edits, candidate.as_str()))
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance over characters; swapping neighbours counts as one (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut cost =
                (at(&above, j) + usize::from(left != right)).min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            if i > 0 && j > 0 && a.get(i - 1) == Some(right) && b.get(j - 1) == Some(left) {
                cost = cost.min(at(&before, j - 1) + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known: Vec<String> = ["get", "set", "delete", "ttl_seconds", "prefix", "incr"]
            .into_iter()
            .map(str::to_owned)
            .collect();
        for (given, expected) in [
            ("gte", Some("get")),
            ("Set", Some("set")),
            ("delte", Some("delete")),
            ("ttl_second", Some("ttl_seconds")),
            ("increment", Some("incr")),
            ("prefx", Some("prefix")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, &known), expected, "{given}");
        }
        assert_eq!(nearest(&"get".repeat(1_000), &known), None);
    }
}

//! Properties of every space and note.

use memory_governed::resolve::{Resolution, Row, Space, resolve};
use proptest::prelude::*;

use crate::space::{day, ends, issue, note};

const WORDS: [&str; 24] = [
    "parser",
    "Redis",
    "timeout",
    "export",
    "column",
    "lint",
    "billing",
    "outage",
    "import",
    "pandas",
    "Frankfurt",
    "search",
    "slow",
    "fixed",
    "resolved",
    "the",
    "in",
    "not",
    "issue_1",
    "issue_2",
    "issue_10",
    "if",
    "of",
    "report",
];

fn text(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), 1..most).prop_map(|words| words.join(" "))
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((text(7), text(20), -3_i64..14, any::<bool>()), 0..12).prop_map(|rows| {
        rows.into_iter()
            .enumerate()
            .map(|(n, (title, description, opened, live))| {
                let mut row = issue(&format!("issue_{n}"), &title);
                (row.description, row.opened_at, row.live) = (description, day(opened), live);
                row.ended_at = (!live).then(|| day(opened + 3));
                row
            })
            .collect()
    })
}

fn space_of(rows: impl IntoIterator<Item = Row>) -> Space {
    let mut space = Space::new();
    space.extend(rows);
    space
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_order_of_rows_changes_the_outcome(rows in rows(), text in text(12), turn in 0_usize..12) {
        let mut turned = rows.clone();
        turned.reverse();
        let places = turned.len().max(1);
        turned.rotate_left(turn % places);
        let note = note(&text);
        prop_assert_eq!(
            resolve(&space_of(rows), &ends(), &note, &[]),
            resolve(&space_of(turned), &ends(), &note, &[])
        );
    }

    #[test]
    fn rows_that_came_and_went_change_nothing(rows in rows(), others in rows(), text in text(12)) {
        let kept = space_of(rows.clone());
        let mut space = space_of(others);
        let ids: Vec<String> = space.rows(memory_governed::Bucket::Issues).map(|row| row.id.clone()).collect();
        for id in ids {
            space.remove(memory_governed::Bucket::Issues, &id);
        }
        space.extend(rows);
        let note = note(&text);
        prop_assert_eq!(resolve(&space, &ends(), &note, &[]), resolve(&kept, &ends(), &note, &[]));
    }

    #[test]
    fn the_case_of_ids_changes_nothing(rows in rows(), text in text(12)) {
        let space = space_of(rows);
        let upper = text.replace("issue_", "ISSUE_");
        prop_assert_eq!(
            resolve(&space, &ends(), &note(&upper), &[]),
            resolve(&space, &ends(), &note(&text), &[])
        );
    }

    #[test]
    fn what_is_bound_was_open_then_and_its_own(rows in rows(), text in text(12)) {
        let space = space_of(rows);
        if let Resolution::Bind(binding) = resolve(&space, &ends(), &note(&text), &[]) {
            let row = space.get(memory_governed::Bucket::Issues, &binding.id).unwrap();
            prop_assert!(row.live && row.opened_at <= day(10), "{:?}", row);
            prop_assert!(binding.candidates.len() <= 3 && (0.0..=1.0).contains(&binding.score));
        }
    }
}

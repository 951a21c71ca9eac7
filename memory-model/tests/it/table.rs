//! Reading files that are not what they should be.

use memory_core::ErrorKind;
use memory_model::Table;
use proptest::prelude::*;

/// A file with these header numbers and parts.
fn file(numbers: [u32; 4], name: &[u8], vocabulary: &[u8], scales: &[f32], rows: &[u8]) -> Vec<u8> {
    let mut file = b"MSM1".to_vec();
    numbers.iter().for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(name);
    file.extend(vocabulary);
    scales.iter().for_each(|scale| file.extend(scale.to_le_bytes()));
    file.extend(rows);
    file
}

fn small() -> Vec<u8> {
    file([2, 2, 1, 5], b"m", b"##s\na", &[0.5, 1.0], &[0, 2, 3, 0])
}

fn refused(file: &[u8], why: &str) {
    let error = Table::read(file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn a_vector_is_the_mean_of_the_rows() {
    let file = small();
    let table = Table::read(&file).unwrap();
    assert_eq!((table.name(), table.dimensions()), ("m", 2));
    assert_eq!(table.pieces("As a, AS?"), ["a", "##s"]);
    let vector = table.embed("as").unwrap();
    let length = 10.0_f32.sqrt();
    assert!((vector[0] - 3.0 / length).abs() < 1e-6 && (vector[1] - 1.0 / length).abs() < 1e-6, "{vector:?}");
    assert_eq!(table.embed("b"), None);
}

#[test]
fn damaged_files_are_refused_with_a_reason() {
    refused(b"", "ends too early");
    refused(b"MSM2", "does not begin");
    refused(&[small(), vec![0]].concat(), "goes on");
    for length in 4..small().len() {
        refused(&small()[..length], "ends too early");
    }
    refused(&file([2, 0, 1, 5], b"m", b"##s\na", &[0.5, 1.0], &[]), "dimensions");
    refused(&file([2, u32::MAX, 1, 5], b"m", b"##s\na", &[0.5, 1.0], &[]), "dimensions");
    refused(&file([u32::MAX, 2, 1, 5], b"m", b"##s\na", &[], &[]), "ends too early");
    refused(&file([2, 2, 1, u32::MAX], b"m", b"", &[], &[]), "ends too early");
    refused(&file([2, 2, 1, 5], b"m", b"##s\n\xff", &[0.5, 1.0], &[0; 4]), "UTF-8");
    refused(&file([2, 2, 1, 3], b"m", b"a\na", &[0.5, 1.0], &[0; 4]), "one piece a row");
    refused(&file([2, 2, 1, 1], b"m", b"a", &[0.5, 1.0], &[0; 4]), "one piece a row");
    refused(&file([1, 2, 1, 1], b"m", b"a", &[f32::NAN], &[0; 2]), "finite");
}

proptest! {
    #[test]
    fn no_file_and_no_text_makes_it_panic(
        at in 4_usize..34, byte: u8, noise in prop::collection::vec(any::<u8>(), 0..200), text in ".*",
    ) {
        let _ = Table::read(&noise);
        let mut file = small();
        if let Some(changed) = file.get_mut(at) {
            *changed = byte;
        }
        if let Ok(table) = Table::read(&file) {
            if let Some(vector) = table.embed(&text) {
                prop_assert!(vector.iter().all(|x| x.is_finite()));
            }
        }
    }
}

//! A file that is no model is refused, whatever is wrong with it.

use memory_core::ErrorKind;
use memory_model::Table;
use proptest::prelude::*;

/// A model of two rows and two dimensions.
fn small() -> Vec<u8> {
    file([2, 2, 1, 3], b"a\nb", &[1.0, 0.5])
}

fn file(head: [u32; 4], vocabulary: &[u8], scales: &[f32]) -> Vec<u8> {
    let mut file = b"MSM1".to_vec();
    file.extend(head.iter().flat_map(|number| number.to_le_bytes()));
    file.push(b'm');
    file.extend(vocabulary);
    file.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
    file.extend([3, 4, 2, 0]);
    file
}

#[test]
fn a_row_times_its_scale_is_the_vector_of_its_piece() {
    let file = small();
    let table = Table::read(&file).unwrap();
    assert_eq!((table.name(), table.dimensions()), ("m", 2));
    assert_eq!(table.embed("A"), Some(vec![0.6, 0.8]));
    let both = table.embed("b a b").unwrap();
    // (3, 4) + (1, 0), each piece once.
    assert!((both[0] - 0.5_f32.sqrt()).abs() < 1e-6 && (both[1] - 0.5_f32.sqrt()).abs() < 1e-6, "{both:?}");
    assert_eq!(table.embed("c"), None);
}

#[test]
fn broken_files_are_refused_with_what_is_wrong() {
    let mut magic = small();
    magic[3] = b'2';
    let mut longer = small();
    longer.push(0);
    for (broken, what) in [
        (magic, "MSM1"),
        (longer, "after its end"),
        (file([2, 0, 1, 3], b"a\nb", &[1.0, 0.5]), "dimensions"),
        (file([2, 60_000, 1, 3], b"a\nb", &[1.0, 0.5]), "dimensions"),
        (file([u32::MAX, 2, 1, 3], b"a\nb", &[1.0, 0.5]), "too early"),
        (file([2, 2, u32::MAX, 3], b"a\nb", &[1.0, 0.5]), "too early"),
        (file([2, 2, 1, 3], b"a\na", &[1.0, 0.5]), "one piece a row"),
        (file([2, 2, 1, 3], b"abc", &[1.0, 0.5]), "one piece a row"),
        (file([2, 2, 1, 3], b"a\n\xFF", &[1.0, 0.5]), "UTF-8"),
        (file([2, 2, 1, 3], b"a\nb", &[1.0, f32::NAN]), "finite"),
    ] {
        let error = Table::read(&broken).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let whole = small();
    for end in 0..whole.len() {
        assert_eq!(Table::read(&whole[..end]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut file = b"MSM1".to_vec();
        file.extend(&bytes);
        for file in [bytes, file] {
            if let Ok(table) = Table::read(&file) {
                prop_assert!(table.embed("a b c").is_none_or(|vector| vector.len() == table.dimensions()));
            }
        }
    }
}

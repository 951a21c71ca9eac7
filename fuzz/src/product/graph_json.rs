//! Graphs from files of format 1.1: what is read is written and read again as the same graph, to the bit.

use memory_core::{ErrorKind, Timestamp};
use memory_hierarchical::Agent;
use memory_hierarchical::transfer::{read_json, write_json};

const MAX_BYTES: u64 = 1 << 20;

/// Reads one file.
pub fn run(data: &[u8]) {
    let length = data.len() as u64;
    if length > MAX_BYTES {
        return;
    }
    if let Some(less) = length.checked_sub(1) {
        let refused = read_json(&mut &*data, less).expect_err("it is larger than may be read");
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
    }
    let Ok(document) = read_json(&mut &*data, MAX_BYTES) else { return };
    let agent = Agent::new("ann").expect("a name");
    let at = Timestamp::from_millis(1_741_872_000_000).expect("a time");
    let mut written = Vec::new();
    let size = write_json(&agent, &document.graph, at, &mut written).expect("it fits");
    assert_eq!(size, written.len() as u64);
    let again = read_json(&mut &*written, size).expect("reads what it wrote");
    assert_eq!(again.graph, document.graph);
    assert_eq!(again.agent_name, "ann");
}

//! Finds the `id` in a JSON object that is too long to keep, so that its sender gets an answer.

/// Longest `id` that is read, in bytes.
const MAX_ID_BYTES: usize = 256;

/// Scans an object byte by byte, keeping only the `id` member at the outermost level.
#[derive(Debug, Default)]
pub(super) struct StrayId {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// What is being read at the outermost level.
    at: At,
    /// The name or the value being read, up to [`MAX_ID_BYTES`].
    text: Vec<u8>,
    overflowed: bool,
    found: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Name,
    /// The value of `id`.
    Id,
    OtherValue,
}

impl StrayId {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// The id as JSON, if it is a string or an integer.
    pub(super) fn found(self) -> Option<String> {
        self.found
    }

    fn step(&mut self, byte: u8) {
        let outermost = self.depth == 1;
        if self.in_string {
            self.keep(outermost, byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(outermost, byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                // An object or array is not an id.
                self.overflowed |= outermost;
            }
            b'}' | b']' => {
                if outermost {
                    self.value_ended();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if outermost => {
                let is_id = self.text == b"\"id\"";
                self.at = if is_id { At::Id } else { At::OtherValue };
                self.restart();
            }
            b',' if outermost => {
                self.value_ended();
                self.at = At::Name;
                self.restart();
            }
            byte if !byte.is_ascii_whitespace() => self.keep(outermost, byte),
            _ => {}
        }
    }

    fn keep(&mut self, outermost: bool, byte: u8) {
        if !outermost || self.at == At::OtherValue {
            return;
        }
        if self.text.len() == MAX_ID_BYTES {
            self.overflowed = true;
        } else {
            self.text.push(byte);
        }
    }

    fn restart(&mut self) {
        self.text.clear();
        self.overflowed = false;
    }

    fn value_ended(&mut self) {
        if self.at != At::Id || self.overflowed {
            return;
        }
        let Ok(text) = std::str::from_utf8(&self.text) else { return };
        // Checked as the service would: half of a surrogate pair is not text.
        let is_id = serde_json::from_str::<String>(text).is_ok() || serde_json::from_str::<i64>(text).is_ok();
        if is_id {
            self.found = Some(text.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(text: &str) -> Option<String> {
        let mut id = StrayId::default();
        id.feed(text.as_bytes());
        id.found()
    }

    #[test]
    fn the_id_is_found_wherever_it_stands_at_the_outermost_level() {
        assert_eq!(id_of(r#"{"id":7,"method":"x"}"#).as_deref(), Some("7"));
        assert_eq!(
            id_of(r#"{"params":{"id":1,"a":["id",{"id":2}]},"id" : "q\"," }"#).as_deref(),
            Some("\"q\\\",\"")
        );
        assert_eq!(id_of(r#"{"a":"\"id\":9","jsonrpc":"2.0","id":-3}"#).as_deref(), Some("-3"));
    }

    #[test]
    fn what_is_no_id_of_a_request_is_none() {
        for text in [
            r#"{"params":{"id":1}}"#,
            r#"{"id":null}"#,
            r#"{"id":1.5}"#,
            r#"{"id":"\ud800"}"#,
            r#"{"id":007}"#,
            r#"{"id":{"a":1}}"#,
            r#"{"id":[1]}"#,
            r#"[{"id":1}]"#,
            r#"{"id":1"#,
            r#""id":1"#,
            "}}}}{{{{",
            "",
        ] {
            assert_eq!(id_of(text), None, "{text}");
        }
        assert_eq!(id_of(&format!(r#"{{"id":"{}"}}"#, "x".repeat(300))), None);
    }
}

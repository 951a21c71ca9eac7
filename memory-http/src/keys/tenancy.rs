//! Patterns that give every tenant its own environment variable, file, or prefix of remote ids.

use std::fmt;

use memory_core::{Error, ErrorKind, Result, TenantId};

/// The placeholder for the tenant.
pub const PLACEHOLDER: &str = "{tenant}";
/// Longest name of an environment variable, in bytes.
const MAX_ENV_BYTES: usize = 128;
/// Longest file name, in bytes; within the limits of all common file systems.
const MAX_FILE_NAME_BYTES: usize = 200;
/// Longest pattern of a path, in bytes.
const MAX_PATH_BYTES: usize = 4_096;
/// Most bytes of a prefix, excluding the tenant.
const MAX_PREFIX_TEXT_BYTES: usize = 64;

/// What a pattern names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternOf {
    /// Environment variables. Case-insensitive on some systems.
    Variables,
    /// Files. Case-insensitive on some systems.
    Files,
    /// Prefixes of ids at a service, which may fold case, trim, or match by prefix.
    Prefixes,
}

/// A text with one `{tenant}` in it. Different tenants never get the same name, nor names that differ only in case or
/// surrounding white space; no prefix is the beginning of another.
///
/// `{tenant}` is replaced by the tenant's letters `a` to `z` and digits, in capitals for variables, with every other
/// byte as `_` and two hexadecimal digits: `acme` is `ACME`, `Acme` is `_41CME`.
///
/// ```
/// use memory_http::{PatternOf, TenantPattern};
/// let pattern = TenantPattern::parse("MEM9_KEY_{tenant}", PatternOf::Variables)?;
/// assert_eq!(pattern.name(&"acme-eu".parse()?)?, "MEM9_KEY_ACME_2DEU");
/// assert!(TenantPattern::parse("MEM9_KEY", PatternOf::Variables).is_err());
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantPattern {
    of: PatternOf,
    head: String,
    tail: String,
    max_bytes: usize,
}

impl TenantPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// `invalid_argument` for a pattern that could give two tenants the same name, or a tenant a name that is not the
    /// operator's to give: without `{tenant}`, with two, or with another placeholder; with white space or characters
    /// that some system does not distinguish; a variable that does not start with the operator's own text ending in
    /// `_`; a file whose folder depends on the tenant; a prefix without `.`, `~` or `-` after `{tenant}`.
    pub fn parse(text: &str, of: PatternOf) -> Result<Self> {
        let limit = if of == PatternOf::Files { MAX_PATH_BYTES } else { MAX_ENV_BYTES };
        if text.len() > limit {
            return Err(Error::too_large("pattern of tenants", text.len(), limit, "bytes"));
        }
        let (head, tail) = text.split_once(PLACEHOLDER).ok_or_else(|| {
            Error::invalid(format!(
                "the pattern has no `{PLACEHOLDER}`, so all tenants would have the same name; put it where the tenant goes"
            ))
        })?;
        if head.contains(['{', '}']) || tail.contains(['{', '}']) {
            return Err(Error::invalid(format!(
                "the pattern has more than one `{PLACEHOLDER}`, or another placeholder; keep one `{PLACEHOLDER}`"
            )));
        }
        match of {
            PatternOf::Variables => check_variable(head, tail)?,
            PatternOf::Files => check_file(head, tail)?,
            PatternOf::Prefixes => check_prefix(head, tail)?,
        }
        let max_bytes = match of {
            PatternOf::Variables => MAX_ENV_BYTES,
            PatternOf::Files => folder(head).len() + MAX_FILE_NAME_BYTES,
            PatternOf::Prefixes => usize::MAX,
        };
        Ok(Self { of, head: head.to_owned(), tail: tail.to_owned(), max_bytes })
    }

    /// Limits the length of names, for services that cut or refuse longer ones.
    ///
    /// # Errors
    /// `invalid_argument` if the pattern leaves no space for a tenant.
    pub fn within(mut self, max_bytes: usize) -> Result<Self> {
        self.max_bytes = self.max_bytes.min(max_bytes);
        if self.head.len() + self.tail.len() >= self.max_bytes {
            return Err(Error::invalid(format!(
                "the pattern leaves no space for the tenant; the whole name may have at most {} bytes",
                self.max_bytes
            )));
        }
        Ok(self)
    }

    /// What it names.
    #[must_use]
    pub fn of(&self) -> PatternOf {
        self.of
    }

    /// The tenant's name.
    ///
    /// # Errors
    /// `too_large` if it is too long: it is never cut.
    pub fn name(&self, tenant: &TenantId) -> Result<String> {
        use fmt::Write as _;
        let mut name = self.head.clone();
        for byte in tenant.as_str().bytes() {
            let written = match (byte, self.of) {
                (b'0'..=b'9', _) => {
                    name.push(char::from(byte));
                    Ok(())
                }
                (b'a'..=b'z', PatternOf::Variables) => {
                    name.push(char::from(byte.to_ascii_uppercase()));
                    Ok(())
                }
                (b'a'..=b'z', _) => {
                    name.push(char::from(byte));
                    Ok(())
                }
                (_, PatternOf::Variables) => write!(name, "_{byte:02X}"),
                (_, _) => write!(name, "_{byte:02x}"),
            };
            written.map_err(|error| Error::internal("a name could not be written").with_source(error))?;
        }
        name.push_str(&self.tail);
        if name.len() > self.max_bytes {
            return Err(Error::too_large(
                "this tenant's name in the pattern",
                name.len(),
                self.max_bytes,
                "bytes",
            ));
        }
        Ok(name)
    }

    /// The tenant with this name, if any.
    #[must_use]
    pub fn tenant(&self, name: &str) -> Option<TenantId> {
        let encoded = name.strip_prefix(&self.head)?.strip_suffix(&self.tail)?;
        let mut bytes = Vec::with_capacity(encoded.len());
        let mut rest = encoded.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'_' => {
                    let mut digit = || char::from(rest.next()?).to_digit(16);
                    let (high, low) = (digit()?, digit()?);
                    u8::try_from(high << 4 | low).ok()?
                }
                _ => byte.to_ascii_lowercase(),
            });
        }
        let tenant = TenantId::new(String::from_utf8(bytes).ok()?).ok()?;
        // A non-canonical spelling belongs to no tenant.
        (self.name(&tenant).ok()?.as_str() == name).then_some(tenant)
    }
}

/// The folders of a path, with the trailing separator.
fn folder(head: &str) -> &str {
    head.rfind('/').and_then(|at| head.get(..=at)).unwrap_or_default()
}

fn check_variable(head: &str, tail: &str) -> Result<()> {
    let fits = |text: &str| text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    if !fits(head) || !fits(tail) {
        return Err(Error::invalid(
            "a pattern of environment variables is of capitals, digits and `_`, besides `{tenant}`: some systems do not tell \
             case apart",
        ));
    }
    if !head.starts_with(|first: char| first.is_ascii_uppercase()) || !head.ends_with('_') {
        return Err(Error::invalid(
            "a pattern of environment variables begins with a word of your own and `_`, as MEM9_KEY_{tenant}: else a tenant \
             could name any variable of this process",
        ));
    }
    Ok(())
}

fn check_file(head: &str, tail: &str) -> Result<()> {
    if tail.contains(['/', '\\']) {
        return Err(Error::invalid(
            "`{tenant}` stands in the name of the file, not of a folder, as in /run/secrets/{tenant}.key",
        ));
    }
    let start = head.strip_prefix(folder(head)).unwrap_or_default();
    let fits = |text: &str| {
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.'))
    };
    if !fits(start) || !fits(tail) || tail.ends_with('.') {
        return Err(Error::invalid(
            "the file's name is of small letters, digits, `_`, `-` and `.`, besides `{tenant}`, and does not end in `.`: some \
             systems do not tell case apart, and cut the rest",
        ));
    }
    if folder(head).chars().any(char::is_control) || head.trim_start() != head {
        return Err(Error::invalid("the path has white space before it or control characters; remove them"));
    }
    Ok(())
}

fn check_prefix(head: &str, tail: &str) -> Result<()> {
    let fits = |text: &str| {
        text.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'~' | b'-'))
    };
    if !fits(head) || !fits(tail) {
        return Err(Error::invalid(
            "a prefix is of small letters, digits, `.`, `_`, `~` and `-`, besides `{tenant}`: services trim white space, fold \
             case and read more into other characters",
        ));
    }
    if head.len() + tail.len() > MAX_PREFIX_TEXT_BYTES {
        return Err(Error::too_large("prefix", head.len() + tail.len(), MAX_PREFIX_TEXT_BYTES, "bytes"));
    }
    if !tail.starts_with(['.', '~', '-']) {
        return Err(Error::invalid(
            "a prefix has `.`, `~` or `-` right behind `{tenant}`, as acme-{tenant}.: else the prefix of one tenant begins that \
             of another",
        ));
    }
    Ok(())
}

/// The error for a tenant whose name is too long.
pub(crate) fn without_key(failed: Error) -> Error {
    match failed.kind() {
        ErrorKind::TooLarge => Error::unauthenticated(
            "this tenant's id is too long for the pattern of keys; give its key under `tenant_keys`",
        )
        .with_source(failed),
        _ => failed,
    }
}

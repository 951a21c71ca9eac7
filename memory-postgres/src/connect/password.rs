//! Passwords by reference, read again for each connection so that a change takes effect. The driver reads no password
//! files.

use std::path::Path;

use memory_core::{Error, Result};

use crate::connect::address::Password;

/// Longest password file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The login whose password is looked up.
pub(crate) struct Login<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

impl Password {
    /// The password for a login, if there is one.
    /// Fails with `invalid_argument` for a password file that cannot be read, or that others may read.
    pub(crate) fn resolve(&self, login: &Login<'_>) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Given(password) => Ok(Some(password.clone())),
            Self::Variable(name) => {
                Ok(std::env::var_os(name).map(|value| value.to_string_lossy().into_owned().into()))
            }
            Self::File(path) => in_file(&read(path)?, login),
            Self::None => Ok(None),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let unreadable = |error: std::io::Error| {
        Error::invalid("the file that `passfile` names cannot be read; correct the path or its permissions")
            .with_source(error)
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(Error::invalid(
                "the file that `passfile` names can be read by others and is therefore not used; set its mode to 0600",
            ));
        }
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(Error::invalid("`passfile` does not name a regular file of at most 1 MiB"));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// The password of the first matching line: `host:port:database:user:password`, where `*` matches anything and `\` escapes
/// `:` and `\`.
fn in_file(text: &str, login: &Login<'_>) -> Result<Option<Vec<u8>>> {
    let port = login.port.to_string();
    let wanted = [login.host, port.as_str(), login.database, login.user];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields = fields(line);
        let [pattern @ .., password] = fields.as_slice() else { continue };
        if pattern.len() == wanted.len()
            && pattern.iter().zip(wanted).all(|(field, want)| field == "*" || field == want)
        {
            return Ok(Some(password.clone().into_bytes()));
        }
    }
    Ok(None)
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 5 => fields.push(String::new()),
            character => {
                let literal = if character == '\\' { characters.next().unwrap_or('\\') } else { character };
                if let Some(last) = fields.last_mut() {
                    last.push(literal);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_gives_the_password() {
        let file =
            "# comment\ndb:5432:memory:other:no\ndb:*:mem\\:ory:app:with\\:colon\\\\\n*:*:*:app:last:one\n";
        let login = |database| Login { host: "db", port: 5432, database, user: "app" };
        assert_eq!(in_file(file, &login("mem:ory")).unwrap().unwrap(), b"with:colon\\");
        assert_eq!(in_file(file, &login("memory")).unwrap().unwrap(), b"last:one");
        assert_eq!(in_file(file, &Login { user: "nobody", ..login("memory") }).unwrap(), None);
    }
}

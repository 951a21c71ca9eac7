//! The engine's layers. Each can be switched off to see what the others stop.

/// The active layers of the sandbox: all of them in production; only the feature `lab` can switch one off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layers {
    /// Queries run on read-only connections with `query_only`, and a query refuses statements that write.
    pub readonly: bool,
    /// `DEFENSIVE`, `trusted_schema` off, no ATTACH, no double-quoted strings, no unneeded modules.
    pub config: bool,
    /// The authorizer denies everything it does not know.
    pub authorizer: bool,
    /// `sqlite3_limit`.
    pub limits: bool,
    /// The progress handler ends statements past their deadline.
    pub deadline: bool,
    /// Each statement's memory is limited.
    pub heap: bool,
    /// The database's pages are limited.
    pub quota: bool,
    /// Slow functions are replaced, dangerous ones removed.
    pub functions: bool,
}

impl Layers {
    /// Every layer.
    pub const ALL: Self = Self {
        readonly: true,
        config: true,
        authorizer: true,
        limits: true,
        deadline: true,
        heap: true,
        quota: true,
        functions: true,
    };

    /// No layer.
    pub const NONE: Self = Self {
        readonly: false,
        config: false,
        authorizer: false,
        limits: false,
        deadline: false,
        heap: false,
        quota: false,
        functions: false,
    };

    /// The names accepted by [`Layers::only`].
    pub const NAMES: [&'static str; 8] =
        ["readonly", "config", "authorizer", "limits", "deadline", "heap", "quota", "functions"];

    /// A single layer; `None` for an unknown name.
    #[must_use]
    pub fn only(name: &str) -> Option<Self> {
        let mut layers = Self::NONE;
        let layer = match name {
            "readonly" => &mut layers.readonly,
            "config" => &mut layers.config,
            "authorizer" => &mut layers.authorizer,
            "limits" => &mut layers.limits,
            "deadline" => &mut layers.deadline,
            "heap" => &mut layers.heap,
            "quota" => &mut layers.quota,
            "functions" => &mut layers.functions,
            _ => return None,
        };
        *layer = true;
        Some(layers)
    }
}

impl Default for Layers {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::Layers;

    #[test]
    fn every_name_is_a_layer_of_its_own() {
        for name in Layers::NAMES {
            let only = Layers::only(name).unwrap();
            assert_ne!(only, Layers::NONE, "{name}");
            assert_eq!(Layers::NAMES.iter().filter(|other| Layers::only(other) == Some(only)).count(), 1);
        }
        assert_eq!(Layers::only("all"), None);
    }
}

//! The tool: one call in, one text out.

use std::sync::{Arc, OnceLock};

use memory_core::{Error, ErrorKind, GetOptions, ScopeKind};
use serde::Serialize;
use serde_json::Value;

use super::input::{Command, Input, Verb};
use super::path::FilePath;
use super::refused::{Done, Refused};
use super::store::{Files, text_in};
use super::text;
use crate::audit::Facts;
use crate::schemas::flat;
use crate::tool::{DEFAULT_SCOPE, MemoryTool, ToolOp, schema_of, without_paths};

/// Files under `/memories` in one scope of a run.
///
/// Calls are the input of Anthropic's memory tool (`memory_20250818`), and answers use the wording of its
/// documentation. Permissions come from the [`MemoryTool`]: its policy, quota, drift guard, audit and denied operations
/// apply to files too. The scope is the first of `agent`, `user` and `run` that the policy allows.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> memory::Result<()> {
/// # #[cfg(feature = "sqlite")] {
/// use std::sync::Arc;
/// use memory::{FilesTool, MemoryTool, Policy, RunContext, ScopeKind};
///
/// let memory = memory::open("sqlite::memory:").await?;
/// let run = RunContext::new("acme".parse()?, "planner".parse()?, "run-1".parse()?);
/// let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
/// let files = FilesTool::new(Arc::new(MemoryTool::new(memory, policy, run)?));
/// let answer = files.call(r#"{"command":"create","path":"/memories/a.txt","file_text":"hello"}"#).await;
/// assert_eq!(answer.text, "File created successfully at: /memories/a.txt");
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FilesTool {
    tool: Arc<MemoryTool>,
    scope: ScopeKind,
}

/// What a model reads as the result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FilesAnswer {
    /// The text.
    pub text: String,
    /// Whether the command was refused. Nothing was changed then, unless the text says so.
    pub is_error: bool,
}

impl FilesTool {
    /// Files in a scope of this tool's run.
    #[must_use]
    pub fn new(tool: Arc<MemoryTool>) -> Self {
        let kinds = tool.memory_kinds();
        let first = [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run];
        let scope = first.into_iter().find(|kind| kinds.contains(kind)).unwrap_or(DEFAULT_SCOPE);
        Self { tool, scope }
    }

    /// Uses the files of this scope instead. If the policy does not allow it, every call is refused.
    #[must_use]
    pub fn with_scope(mut self, scope: ScopeKind) -> Self {
        self.scope = scope;
        self
    }

    /// Whether the backend can keep files and the policy allows at least viewing them.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let capabilities = self.tool.memory().capabilities();
        capabilities.compare_and_set && self.tool.serves(ToolOp::Get, &capabilities)
    }

    /// Answers one call.
    pub async fn call(&self, input: &str) -> FilesAnswer {
        let dialect = self.tool.memory().capabilities().sql_dialect;
        let mut facts =
            self.tool.auditor().map(|auditor| Facts::begin(auditor, self.tool.run(), dialect, input));
        let done = self.observed(input, facts.as_mut()).await;
        let (answer, result) = match done {
            Ok(text) => (FilesAnswer { text: text.clone(), is_error: false }, Ok(text)),
            Err(Refused::Said(kind, text)) => {
                let error = Error::new(kind, text.clone());
                (FilesAnswer { text, is_error: true }, Err(error))
            }
            Err(Refused::Failed(error)) => {
                let text = format!("Error: {}", without_paths(error.message(), input));
                (FilesAnswer { text, is_error: true }, Err(error))
            }
        };
        if let Some(facts) = &mut facts {
            facts.ended(&result, answer.text.len());
        }
        answer
    }

    /// The answer, naming the backend if another one answered.
    #[cfg(feature = "sqlite")]
    async fn observed(&self, input: &str, mut facts: Option<&mut Facts<'_>>) -> Done<String> {
        let (done, who) = crate::fallback::observe(self.answer_to(input, facts.as_deref_mut())).await;
        let Some(who) = who else { return done };
        let text = done.map(|text| format!("{text}\n(answered by {who}, in place of the store)"));
        if let Some(facts) = facts {
            facts.fell_back(who);
        }
        text
    }

    /// The answer; this build has no fallbacks.
    #[cfg(not(feature = "sqlite"))]
    async fn observed(&self, input: &str, facts: Option<&mut Facts<'_>>) -> Done<String> {
        self.answer_to(input, facts).await
    }

    async fn answer_to(&self, input: &str, facts: Option<&mut Facts<'_>>) -> Done<String> {
        let input = Input::parse(input, self.tool.policy().max_input_bytes)?;
        let verb = input.command;
        if let Some(facts) = facts {
            let path = input.path.as_ref().or(input.old_path.as_ref());
            facts.touched(verb.audited(), self.scope, path.cloned());
        }
        let files = self.files(verb)?;
        match input.command()? {
            Command::View { path, range } => self.view(&files, &path, range.as_deref()).await,
            Command::Create { path, text } => {
                files.create(&path, &text).await?;
                Ok(format!("File created successfully at: {path}"))
            }
            Command::Replace { path, old, new } => {
                let missing = format!("Error: The path {path} does not exist. Please provide a valid path.");
                let answer =
                    files.edit(&path, false, &missing, |text| text::replace(&path, text, &old, &new)).await?;
                // Lines can have any length.
                let fits = answer.len() <= self.tool.policy().max_answer_bytes;
                Ok(if fits { answer } else { text::EDITED.to_owned() })
            }
            Command::Insert { path, line, text: inserted } => {
                let missing = format!("Error: The path {path} does not exist");
                files.edit(&path, true, &missing, |text| text::insert(&path, text, line, &inserted)).await
            }
            Command::Delete { path } => {
                not_root(&path, "delete")?;
                if files.delete(&path).await? {
                    return Ok(format!("Successfully deleted {path}"));
                }
                Err(Refused::missing(format!("Error: The path {path} does not exist")))
            }
            Command::Rename { from, to } => {
                not_root(&from, "rename")?;
                files.rename(&from, &to).await?;
                Ok(format!("Successfully renamed {from} to {to}"))
            }
        }
    }

    /// The files of the scope, if the policy allows this command on them.
    fn files(&self, verb: Verb) -> Done<Files<'_>> {
        for op in verb.needs() {
            self.tool.not_denied(*op)?;
        }
        let scope = self.tool.memory_scope(Some(self.scope))?;
        let guarded = self.tool.kv(ToolOp::Get)?;
        Ok(Files { scope, guarded, quota: self.tool.policy().quota })
    }

    async fn view(&self, files: &Files<'_>, path: &FilePath, range: Option<&[i64]>) -> Done<String> {
        let most = self.tool.policy().max_answer_bytes;
        let reading = files.guarded.reading(&files.scope).await?;
        let entry = match path.is_root() {
            true => None,
            false => files.entry(path, GetOptions::default()).await?,
        };
        let Some(entry) = entry else {
            let listed = files.list(path).await?;
            if listed.files.is_empty() && !path.is_root() {
                return Err(Refused::missing(format!(
                    "The path {path} does not exist. Please provide a valid path."
                )));
            }
            return Ok(text::listing(path, &listed.files, listed.more, most));
        };
        let view = text::view(path, &text_in(path, &entry)?, range)?;
        if view.text.len() > most {
            return Err(Refused::Said(
                ErrorKind::ResultTooLarge,
                format!(
                    "Error: The file {path} has {} bytes with line numbers, more than the {most} of an answer; \
                     view a part of it with `view_range`",
                    view.text.len()
                ),
            ));
        }
        // If lines were left out, the file does not count as read.
        reading.showed(view.whole.then_some((path.key(), Some(&entry))));
        Ok(view.text)
    }
}

/// Refuses to remove or move the folder of all files.
fn not_root(path: &FilePath, command: &str) -> Done<()> {
    match path.is_root() {
        true => Err(Refused::invalid(format!("Error: Cannot {command} the {path} directory itself"))),
        false => Ok(()),
    }
}

/// The schema of the tool's input: one flat object.
#[must_use]
pub fn files_schema() -> Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| flat(&schema_of::<Input>())).clone()
}

/// The tool's description for a model.
#[must_use]
pub fn files_description() -> &'static str {
    "Long-term memory as text files under /memories. View /memories before anything else: it lists what is known. Keep what \
     matters later in files, and keep them up to date and in order.\n\
     - view: a directory's files, or a file with line numbers; view_range for a part\n\
     - create: a new file; refused if the path exists\n\
     - str_replace: replace text that occurs exactly once\n\
     - insert: text after a line\n\
     - delete: a file, or a directory with everything in it\n\
     - rename: move a file or directory to a path that does not exist"
}

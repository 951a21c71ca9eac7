//! An in-memory provider of the two facets that records its calls.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use memory::layer::{
    AddOptions, AddOutcome, AddStatus, EventId, EventStatus, Fact, FactId, FactsPage, FactsQuery, Forget,
    ForgetOutcome, Message, RecallQuery, ScoreKind,
};
use memory::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlScopePage, SqlScopesQuery, SqlUsage,
    SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use memory::{
    Capabilities, Error, Health, HealthStatus, MemoryLayer, Provider, Result, RunContext, Scope, ScopeId,
    SqlDialect, SqlFacet, TenantId,
};

#[derive(Debug, Default)]
pub(super) struct Fake {
    /// Only facts, with the minimum a layer must serve.
    bare: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    facts: BTreeMap<Scope, Vec<Fact>>,
    ids: usize,
    transactions: BTreeMap<TxId, u32>,
    /// Statements with the transaction they ran in.
    ran: Vec<(String, Option<TxId>)>,
    last_options: Option<StatementOptions>,
    last_run: Option<String>,
    last_credentials: Vec<String>,
}

impl Fake {
    pub(super) fn bare() -> Self {
        Self { bare: true, ..Self::default() }
    }

    pub(super) fn ran(&self) -> Vec<(String, Option<String>)> {
        let state = self.state.lock().unwrap();
        state
            .ran
            .iter()
            .map(|(sql, tx)| (sql.clone(), tx.as_ref().map(|tx| tx.as_str().to_owned())))
            .collect()
    }

    pub(super) fn last_options(&self) -> StatementOptions {
        self.state.lock().unwrap().last_options.clone().unwrap()
    }

    pub(super) fn last_run(&self) -> String {
        self.state.lock().unwrap().last_run.clone().unwrap()
    }

    /// The credentials of the last `recall`.
    pub(super) fn last_credentials(&self) -> Vec<String> {
        self.state.lock().unwrap().last_credentials.clone()
    }

    /// Like an idle reaper.
    pub(super) fn lose_transactions(&self) {
        self.state.lock().unwrap().transactions.clear();
    }

    fn statement(&self, run: &RunContext, sql: &str, options: StatementOptions) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        state.last_run = Some(run.run.to_string());
        if let Some(tx) = &options.tx
            && !state.transactions.contains_key(tx)
        {
            return Err(lost());
        }
        state.ran.push((sql.to_owned(), options.tx.clone()));
        state.last_options = Some(options);
        Ok(())
    }

    fn end(&self, tx: &TxId) -> Result<TxState> {
        let mut state = self.state.lock().unwrap();
        let depth = state.transactions.get_mut(tx).ok_or_else(lost)?;
        *depth -= 1;
        let depth = *depth;
        if depth == 0 {
            state.transactions.remove(tx);
        }
        Ok(TxState::new(tx.clone(), depth))
    }
}

fn lost() -> Error {
    Error::transaction_lost("the transaction is no longer open; roll back and begin again")
}

#[async_trait]
impl Provider for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.memory_layer = true;
        if self.bare {
            return capabilities;
        }
        capabilities.layer_events = true;
        capabilities.layer_forget = true;
        capabilities.layer_verbatim = true;
        capabilities.layer_metadata = true;
        capabilities.layer_threshold = true;
        capabilities.layer_ids = true;
        capabilities.sql = true;
        capabilities.sql_dialect = Some(SqlDialect::Sqlite);
        capabilities.sql_transactions = true;
        capabilities
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        Some(self)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        (!self.bare).then_some(self)
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "in memory"))
    }

    async fn end_run(&self, _: &TenantId, _: &ScopeId) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl MemoryLayer for Fake {
    async fn add(
        &self,
        _: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        let mut state = self.state.lock().unwrap();
        let mut ids = Vec::new();
        for message in messages {
            state.ids += 1;
            let id = FactId::new(format!("fact-{}", state.ids))?;
            let mut fact = Fact::new(id.clone(), message.content.clone());
            fact.metadata = options.metadata.clone();
            (fact.score, fact.score_kind) = (Some(0.5), ScoreKind::Similarity);
            state.facts.entry(scope.clone()).or_default().push(fact);
            ids.push(id);
        }
        Ok(AddOutcome::new(if options.infer {
            AddStatus::Pending(Some(EventId::new(format!("event-{}", state.ids))?))
        } else {
            AddStatus::Done(ids)
        }))
    }

    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let mut state = self.state.lock().unwrap();
        state.last_credentials = run.credentials.values().map(|secret| secret.expose().to_owned()).collect();
        let words: Vec<&str> = query.text.split_whitespace().collect();
        let facts = state.facts.get(scope).into_iter().flatten();
        Ok(facts
            .filter(|fact| words.iter().any(|word| fact.memory.contains(word)))
            .filter(|fact| query.threshold.is_none_or(|least| fact.score >= Some(least)))
            .take(query.top_k)
            .cloned()
            .collect())
    }

    /// An event ends immediately, with its number as the fact, or in failure if the text says so.
    async fn event(&self, _: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus> {
        let state = self.state.lock().unwrap();
        let fact = id.as_str().replace("event", "fact");
        match state.facts.get(scope).into_iter().flatten().find(|known| known.id.as_str() == fact) {
            Some(known) if known.memory.contains("[fail]") => Ok(EventStatus::Failed("no words".to_owned())),
            Some(known) => Ok(EventStatus::Done(vec![known.id.clone()])),
            None => Err(Error::not_found("this scope has no such event")),
        }
    }

    async fn forget(&self, _: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        let mut state = self.state.lock().unwrap();
        let facts = state.facts.entry(scope.clone()).or_default();
        let before = facts.len();
        let mut outcome = ForgetOutcome::default();
        match what {
            Forget::All => facts.clear(),
            Forget::Ids(ids) => {
                outcome.not_found =
                    ids.iter().filter(|id| !facts.iter().any(|fact| fact.id == **id)).cloned().collect();
                facts.retain(|fact| !ids.contains(&fact.id));
            }
            other => unreachable!("{other:?}"),
        }
        outcome.forgotten = Some((before - facts.len()).try_into().unwrap());
        Ok(outcome)
    }

    async fn facts(&self, _: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        let state = self.state.lock().unwrap();
        let seen: usize =
            query.cursor.as_deref().unwrap_or("0").parse().map_err(|_| Error::invalid("cursor"))?;
        let facts = state.facts.get(scope).cloned().unwrap_or_default();
        let page: Vec<Fact> = facts.iter().skip(seen).take(query.limit).cloned().collect();
        let behind = seen + page.len();
        Ok(FactsPage::new(page, (behind < facts.len()).then(|| behind.to_string())))
    }
}

/// Answers a query with one row per argument, in a column `value`.
#[async_trait]
impl SqlFacet for Fake {
    async fn exec(
        &self,
        run: &RunContext,
        _: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        self.statement(run, sql, options)?;
        let mut outcome = ExecOutcome::default();
        outcome.rows_affected = args.len().try_into().unwrap();
        if sql.contains("RETURNING") {
            outcome.returning = Some(rows(args));
        }
        Ok(outcome)
    }

    async fn query(
        &self,
        run: &RunContext,
        _: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        self.statement(run, sql, options)?;
        Ok(rows(args))
    }

    async fn begin(&self, _: &RunContext, _: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        let mut state = self.state.lock().unwrap();
        if let Some(parent) = parent {
            let depth = state.transactions.get_mut(parent).ok_or_else(lost)?;
            *depth += 1;
            return Ok(TxState::new(parent.clone(), *depth));
        }
        state.ids += 1;
        let tx = TxId::new(format!("tx-{}", state.ids));
        state.transactions.insert(tx.clone(), 1);
        Ok(TxState::new(tx, 1))
    }

    async fn commit(&self, _: &RunContext, _: &Scope, tx: &TxId) -> Result<TxState> {
        self.end(tx)
    }

    async fn rollback(&self, _: &RunContext, _: &Scope, tx: &TxId) -> Result<TxState> {
        self.end(tx)
    }

    async fn describe_tables(&self, _: &RunContext, _: &Scope) -> Result<Vec<TableInfo>> {
        Ok(Vec::new())
    }

    async fn sql_scopes(&self, _: &TenantId, _: SqlScopesQuery) -> Result<SqlScopePage> {
        Err(Error::internal("not asked by the tool"))
    }

    async fn drop_sql_scope(&self, _: &Scope) -> Result<bool> {
        Err(Error::internal("not asked by the tool"))
    }

    async fn sql_usage(&self, _: &Scope) -> Result<SqlUsage> {
        Ok(SqlUsage::default())
    }

    async fn dump(&self, _: &Scope) -> Result<DumpStream> {
        Err(Error::internal("not asked by the tool"))
    }

    async fn restore(&self, _: &Scope, _: DumpStream, _: RestoreOptions) -> Result<RestoreOutcome> {
        Err(Error::internal("not asked by the tool"))
    }
}

fn rows(args: &[SqlValue]) -> Rows {
    let mut rows = Rows::default();
    rows.columns = vec!["value".to_owned()];
    rows.rows = args.iter().map(|arg| vec![arg.clone()]).collect();
    rows
}

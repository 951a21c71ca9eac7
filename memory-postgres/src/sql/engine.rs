//! The SQL facet of one provider: its sessions, the administrator, open transactions, and the keeper task.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use memory_core::{Error, ErrorKind, Figure, Result, ScopeKind};
use memory_sql::{Ended, WriteLock};
use memory_validator::{Mode, Stages};
use tokio::time::Instant;
use tokio_postgres::CancelToken;
use tokio_postgres::types::Type;

use crate::sql::admin::administrator::{Admin, NewScope};
use crate::sql::admin::setup::{self, Exposure, Found};
use crate::sql::config::SqlConfig;
use crate::sql::names::Key;
use crate::sql::pool::{Leased, Place, Pool, ScopeState};
use crate::sql::protocol::exchange::Cancel;
use crate::sql::protocol::{self, Ending, Session};
use crate::sql::quota::watch::Watch;
use crate::sql::statement::parameter_types::ParameterTypes;
use crate::sql::statement::verdicts::{Judged, Verdicts};
use crate::store::hex::Hex;
use crate::store::scope_ref::kind_number;

use crate::config::PostgresConfig;
use crate::connect::{Address, Connections, Tls};
use crate::error::{closed, state_of};
use crate::store::Store;

/// Longest deadline of a call.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Sessions of one role on the server, over all replicas.
const SESSIONS_OF_A_ROLE: i32 = 64;

/// The SQLSTATE of a database that waits for the decision whether to remove it.
const WAITS: &str = "MM003";
/// How often to repair a role for one session.
const REPAIRS: u32 = 3;
/// After this many refusals because of too many sessions, the role's limit is checked.
const CROWDED: u32 = 10;

/// The state of the SQL facet.
pub(crate) struct Engine {
    pub(crate) config: SqlConfig,
    pub(crate) admin: Arc<Admin>,
    pub(crate) pool: Pool,
    pub(crate) verdicts: Verdicts,
    pub(crate) parameter_types: ParameterTypes,
    pub(crate) transactions: Transactions,
    pub(crate) watch: Arc<Watch>,
    pub(crate) found: Found,
    /// The key/value store of the same scopes; `None` for an operator's commands.
    pub(crate) entries: Option<Arc<Store>>,
    key: Key,
    address: Address,
    tls: Tls,
    settings: Vec<String>,
    stages: OnceLock<Stages>,
    closed: AtomicBool,
    keeper: Mutex<Option<tokio::task::AbortHandle>>,
}

/// What an open transaction keeps between two calls.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) leased: Leased,
    pub(crate) guard: WriteLock,
    /// Whether the session's timeouts were lowered for a statement.
    pub(crate) is_limited: bool,
}

pub(crate) type Transaction = memory_sql::Transaction<Held, Arc<Cancel>>;
pub(crate) type Transactions = memory_sql::Transactions<Held, Arc<Cancel>>;

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Engine {
    /// Connects as the administrator and sets up the database.
    /// Fails with `invalid_argument` for a configuration out of range or without a key; the server's errors.
    pub(crate) async fn open(
        config: SqlConfig,
        base_dir: Option<&Path>,
        entries: Option<Arc<Store>>,
    ) -> Result<Arc<Self>> {
        config.check()?;
        let key = config.key(base_dir)?;
        let of_admin = administrator(&config, base_dir)?;
        let address = of_admin.address()?;
        let tls = Tls::new(&address.tls)?;
        let admin = Arc::new(Admin { connections: Connections::new(&of_admin)? });
        let found = setup::prepare(&admin, &config.shared).await?;
        warn_of_exposures(&found);
        let rows = admin.look("SELECT nextval('mem_sql.generations')", &[]).await?;
        let nonce: i64 = rows.first().map(|row| row.get(0)).unwrap_or_default();
        let settings = settings(&config, &found);
        let idle = Duration::from_millis(config.tx_idle_ms);
        let most = config.max_transactions.min((config.connections - config.connections.div_ceil(8)).max(1));
        Ok(Arc::new(Self {
            pool: Pool::new(config.connections, config.connections_per_scope),
            verdicts: Verdicts::new(config.verdict_bytes, &config.shared),
            parameter_types: ParameterTypes::default(),
            transactions: Transactions::new(most, idle, format!("{nonce:x}")),
            watch: Watch::new(Arc::clone(&admin)),
            admin,
            found,
            entries,
            key,
            address,
            tls,
            settings,
            stages: OnceLock::new(),
            closed: AtomicBool::new(false),
            keeper: Mutex::default(),
            config,
        }))
    }

    pub(crate) fn exposures(&self) -> &[Exposure] {
        &self.found.exposures
    }

    pub(crate) fn stages(&self) -> Stages {
        *self.stages.get_or_init(|| Stages::ALL)
    }

    /// Checks a statement of a scope of this kind; one of the host's own is only read as far as it must be to run.
    /// Fails as [`Verdicts::judge_in`].
    pub(crate) async fn judge(&self, kind: ScopeKind, own: &str, sql: &str, mode: Mode) -> Result<Judged> {
        match kind {
            ScopeKind::Host => self.verdicts.of_own(sql),
            _ => self.verdicts.judge_in(own, sql, mode, self.stages()).await,
        }
    }

    #[cfg(feature = "lab")]
    pub(crate) fn set_stages(&self, stages: Stages) {
        let _ = self.stages.set(stages);
    }

    /// The deadline of a call that starts now.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Instant {
        let default = Duration::from_millis(self.config.statement_timeout_ms);
        Instant::now() + timeout.unwrap_or(default).min(LONGEST)
    }

    pub(crate) fn figures(&self) -> [Figure; 8] {
        let ((reused, opened), (hits, misses)) = (self.pool.uses(), self.verdicts.uses());
        let (known, asked) = self.parameter_types.uses();
        [
            Figure::gauge("postgres_sql_sessions_idle", "Idle sessions of scopes' roles.", self.pool.idle()),
            Figure::counter("postgres_sql_session_hits_total", "Uses of an idle session.", reused),
            Figure::counter("postgres_sql_session_misses_total", "Uses that found no idle session.", opened),
            Figure::counter(
                "postgres_sql_parameter_types_hits_total",
                "Statements with arguments whose types were known.",
                known,
            ),
            Figure::counter(
                "postgres_sql_parameter_types_misses_total",
                "Those whose types were not known.",
                asked,
            ),
            Figure::gauge("postgres_sql_transactions", "Open SQL transactions.", self.transactions.open()),
            Figure::counter("postgres_sql_verdict_hits_total", "SQL texts whose verdict was known.", hits),
            Figure::counter(
                "postgres_sql_verdict_misses_total",
                "SQL texts whose verdict was not known.",
                misses,
            ),
        ]
    }

    /// Starts the keeper task, which ends idle transactions, unless it is running.
    /// Fails with `unavailable` once closed.
    pub(crate) fn wake(self: &Arc<Self>) -> Result<()> {
        if self.is_closed() {
            return Err(closed());
        }
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_ref().is_none_or(tokio::task::AbortHandle::is_finished) {
            let engine = Arc::downgrade(self);
            *keeper = Some(tokio::spawn(keep(engine)).abort_handle());
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A session of the scope. Creates its schema and role if missing.
    pub(crate) async fn session(
        self: &Arc<Self>,
        state: &Arc<ScopeState>,
        deadline: Instant,
    ) -> Result<Leased> {
        let (mut repairs, mut crowded) = (0, 0);
        loop {
            let generation = self.ensure_database(state, deadline, false).await?;
            let (budget, turn) = match self.pool.place(state, deadline).await? {
                Place::Resting(mut leased) => {
                    if leased.session.is_sound() {
                        return Ok(*leased);
                    }
                    // It may have ended because its database was dropped.
                    state.forget(generation);
                    self.pool.retire(*leased);
                    continue;
                }
                Place::Empty { budget, turn } => (budget, turn),
            };
            match self.connect(state, generation, deadline).await {
                Ok(session) => return Ok(Pool::lease(state, session, budget, turn)),
                Err(error) => {
                    self.pool.give_up(budget, turn);
                    match state_of(&error) {
                        // Somebody dropped the role or changed its password, or a replica with another key is repairing
                        // it right now.
                        Some("28P01" | "28000") if repairs < REPAIRS => {
                            repairs += 1;
                            self.ensure_database(state, deadline, true).await?;
                        }
                        // Other replicas use up the role's limit, or the server has no connection left.
                        Some("53300") if Instant::now() < deadline => {
                            crowded += 1;
                            if crowded == CROWDED {
                                // Or somebody lowered the role's limit.
                                self.ensure_database(state, deadline, true).await?;
                            }
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                        Some("28P01" | "28000") => {
                            return Err(Error::unavailable(
                                "the server refuses the login of a scope's role; check pg_hba.conf, which must allow roles \
                                 that begin with `mem_r_` to log in with scram-sha-256",
                            )
                            .with_source(error));
                        }
                        _ => return Err(error),
                    }
                }
            }
        }
    }

    /// The generation of the scope's database. Creates it if missing, and repairs it with `repair`.
    async fn ensure_database(
        self: &Arc<Self>,
        state: &Arc<ScopeState>,
        deadline: Instant,
        repair: bool,
    ) -> Result<i64> {
        if let (Some(generation), false) = (state.generation(), repair) {
            return Ok(generation);
        }
        let work = async {
            let _one = state.making.lock().await;
            if let (Some(generation), false) = (state.generation(), repair) {
                return Ok(generation);
            }
            loop {
                let found = if repair { None } else { self.admin.find(&state.hex).await? };
                let generation = match found {
                    Some(generation) => Ok(generation),
                    None => self.admin.provision(&self.newly(state), &self.key).await,
                };
                match generation {
                    Ok(generation) => {
                        state.set_generation(Some(generation));
                        return Ok(generation);
                    }
                    // Somebody is evicting the scope or ending its run: this use forces the decision now.
                    Err(error) if state_of(&error) == Some(WAITS) => {
                        self.settled_if_waiting(state).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        match tokio::time::timeout_at(deadline, work).await {
            Ok(done) => done,
            Err(_) => Err(Error::timeout(
                "the scope's database could not be created before the deadline; nothing was done, try again",
            )),
        }
    }

    fn newly<'a>(&'a self, state: &'a ScopeState) -> NewScope<'a> {
        let scope = &state.scope;
        NewScope {
            hex: &state.hex,
            tenant: scope.tenant.as_str(),
            kind: kind_number(scope.kind),
            id: scope.id.as_str(),
            settings: &self.settings,
            connections: SESSIONS_OF_A_ROLE,
        }
    }

    /// Gives every role the password derived from the current key; returns how many there are. If the server fails,
    /// some roles may already have the new password; it can be run again.
    pub(crate) async fn rekey(&self) -> Result<u64> {
        let (mut after, mut count) = (String::new(), 0);
        loop {
            let page = "SELECT hex, tenant, kind, id FROM mem_sql.scopes WHERE hex > $1 AND leaving IS NULL ORDER BY hex LIMIT 200";
            let rows = self.admin.look(page, &[(&after, Type::TEXT)]).await?;
            let Some(last) = rows.last() else { return Ok(count) };
            after = last.get(0);
            for row in &rows {
                let (hex, tenant, id): (String, String, String) = (row.get(0), row.get(1), row.get(3));
                let new = NewScope {
                    hex: &Hex::known(hex),
                    tenant: &tenant,
                    kind: row.get(2),
                    id: &id,
                    settings: &self.settings,
                    connections: SESSIONS_OF_A_ROLE,
                };
                match self.admin.provision(&new, &self.key).await {
                    Ok(_) => count += 1,
                    // It is being removed, or the next login repairs it.
                    Err(error) if state_of(&error) == Some(WAITS) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    async fn connect(&self, state: &ScopeState, generation: i64, deadline: Instant) -> Result<Session> {
        let role = state.hex.role();
        let mut address = self.address.for_user(&role, self.key.password(&role).as_bytes());
        address.base_mut().options(options(&self.settings, &state.hex.schema()));
        let mut refusal = None;
        for host in 0..address.hosts.len() {
            let opening = async {
                let mut opened = protocol::connect(&address, &self.tls, host).await?;
                opened.session.generation = generation;
                // Sent and answered together with the first statement.
                opened.session.query("SELECT mem_sql.process()");
                opened.session.asks_pid = true;
                Ok::<_, Error>(opened)
            };
            match tokio::time::timeout_at(deadline, opening).await {
                Ok(Ok(opened)) if opened.is_standby => {
                    refusal.get_or_insert_with(|| {
                        Error::unavailable("the PostgreSQL server is a standby; there is no primary now")
                    });
                }
                Ok(Ok(protocol::Opened { mut session, token, .. })) => {
                    session.set_ending(Box::new(Beside {
                        token,
                        address,
                        tls: self.tls.clone(),
                        host,
                        admin: Arc::clone(&self.admin),
                    }));
                    return Ok(session);
                }
                Ok(Err(error)) => {
                    if refusal.is_none() || error.kind() != ErrorKind::Unavailable {
                        refusal = Some(error);
                    }
                }
                Err(_) => {
                    return Err(Error::timeout(
                        "the PostgreSQL server did not answer before the deadline; nothing was done, try again",
                    ));
                }
            }
        }
        Err(refusal.unwrap_or_else(|| Error::internal("an address without hosts")))
    }

    /// Cancels statements, and rolls back open transactions.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.abort();
        }
        for transaction in self.transactions.matching(|_| true) {
            drop(self.transactions.end(&transaction, Ended::RunOver));
        }
        self.pool.close();
        self.admin.connections.close();
    }
}

/// The keeper task: rolls back idle transactions until the engine is dropped or closed.
async fn keep(engine: Weak<Engine>) {
    loop {
        let pause = {
            let Some(engine) = engine.upgrade() else { return };
            if engine.is_closed() {
                return;
            }
            memory_sql::Engine::end_idle(&engine);
            engine.transactions.idle_check_interval()
        };
        tokio::time::sleep(pause).await;
    }
}

/// Cancels a session's statements over another connection.
struct Beside {
    token: CancelToken,
    address: Address,
    tls: Tls,
    host: usize,
    admin: Arc<Admin>,
}

impl Ending for Beside {
    fn cancel(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let asked = protocol::cancel(self.token.clone(), self.address.clone(), self.tls.clone(), self.host);
        Box::pin(async move {
            let is_cancelled =
                matches!(tokio::time::timeout(Duration::from_secs(2), asked).await, Ok(Ok(())));
            if !is_cancelled {
                tracing::debug!("a statement could not be cancelled");
            }
            is_cancelled
        })
    }

    fn end(&self, pid: i32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move { self.admin.terminate(&[pid]).await })
    }
}

/// The settings of every session of a scope's role.
fn settings(config: &SqlConfig, found: &Found) -> Vec<String> {
    let mut path = vec!["$schema".to_owned(), "mem_ext".to_owned()];
    path.extend(found.vector.iter().filter(|schema| *schema != "mem_ext").cloned());
    path.extend(config.shared.iter().cloned());
    // A dead replica must not hold a scope's lock longer than a live one may.
    let idle = config.tx_idle_ms.saturating_mul(2).max(10_000);
    let mut settings = vec![
        format!("search_path = {}", path.join(", ")),
        format!("statement_timeout = {}", config.statement_timeout_ms),
        format!("lock_timeout = {}", config.statement_timeout_ms),
        format!("idle_in_transaction_session_timeout = {idle}"),
        format!("work_mem = '{}kB'", config.work_mem_kib),
        "maintenance_work_mem = '32MB'".to_owned(),
        "jit = off".to_owned(),
        "max_parallel_workers_per_gather = 0".to_owned(),
        "max_parallel_maintenance_workers = 0".to_owned(),
        "client_min_messages = warning".to_owned(),
        "bytea_output = hex".to_owned(),
        "extra_float_digits = 1".to_owned(),
        "datestyle = 'ISO, YMD'".to_owned(),
        "intervalstyle = postgres".to_owned(),
        "timezone = UTC".to_owned(),
        "standard_conforming_strings = on".to_owned(),
        "row_security = on".to_owned(),
        "default_transaction_isolation = 'read committed'".to_owned(),
    ];
    if found.sees_clients_go {
        // So that a killed replica holds its scope's lock no longer than this.
        settings.push("client_connection_check_interval = 1000".to_owned());
    }
    if found.is_superuser {
        settings.push(format!("temp_file_limit = '{}MB'", config.temp_file_mib));
        settings.push("log_statement = none".to_owned());
        settings.push("log_min_error_statement = panic".to_owned());
    }
    settings
}

/// The settings as connection options, which override those that a role could change for itself.
fn options(settings: &[String], schema: &str) -> String {
    let of_superusers = ["temp_file_limit", "log_statement", "log_min_error_statement"];
    settings
        .iter()
        .filter_map(|setting| setting.split_once(" = "))
        .filter(|(name, _)| !of_superusers.contains(name))
        .map(|(name, value)| {
            format!("-c {name}={}", value.replace('\'', "").replace("$schema", schema).replace(' ', "\\ "))
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The configuration of the administrator's connections.
/// Fails with `invalid_argument` for a configuration out of range.
pub(crate) fn administrator(config: &SqlConfig, base_dir: Option<&Path>) -> Result<PostgresConfig> {
    let mut of_admin = PostgresConfig::new(config.url.clone()).with_pool_size(4);
    of_admin.password_env.clone_from(&config.password_env);
    of_admin.readers = 1;
    of_admin.base_dir = base_dir.map(Path::to_path_buf);
    of_admin.check().map(|()| of_admin)
}

/// Warns about what the server lets scopes see of each other.
fn warn_of_exposures(found: &Found) {
    if found.exposures.is_empty() {
        return;
    }
    let objects: Vec<&str> = found.exposures.iter().map(|exposure| exposure.object.as_str()).collect();
    tracing::warn!(
        objects = objects.join(", "),
        "the administrator of agents' SQL is not a superuser: the engine lets every scope read these catalogs, so only \
         the validator keeps names of other scopes private; `memory postgres doctor` explains each"
    );
}

/// Runs work to its end, even if the caller goes away.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::internal("a task for SQL ended early; please report it").with_source(error)),
    }
}

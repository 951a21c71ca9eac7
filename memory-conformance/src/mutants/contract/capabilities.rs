//! CAP, ERR: what a provider reports about itself and its errors.

use memory_core::{
    Capabilities, Consistency, Error, ErrorKind, Health, HealthStatus, Next, Reply, Request, Result, Retry,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::peek;

mutants! {
    |memory, request, next|
    "truth.stats-unserved": ["CAP-3"], "stats are advertised and refused"
        => over(Request::Stats { .. } => Err(Error::unsupported("stats", next.provider().name())));
    "truth.cas-served-unadvertised": ["CAP-3"], "preconditions are not advertised and served"
        => advertise(|_, inner| inner.compare_and_set = false);
    "truth.quotas-served-unadvertised": ["CAP-3"], "quotas are not advertised and served"
        => advertise(|_, inner| inner.quotas = false);
    "truth.stats-served-unadvertised": ["CAP-3"], "stats are not advertised and served" => advertise(|_, inner| inner.stats = false);
    "truth.words-served-unadvertised": ["CAP-3"], "search by words is not advertised and served"
        => advertise(|_, inner| inner.lexical_search = false);
    "truth.vectors-served-unadvertised": ["CAP-4"], "vectors are not advertised and served"
        => advertise(|_, inner| { inner.vector_search = false; inner.embedding = memory_core::EmbeddingOwner::None; });
    "truth.kv-served-unadvertised": ["CAP-1"], "the facet is not advertised and handed out" => advertise(|_, inner| *inner = Capabilities::none());
    "truth.refusal-names-nothing": ["CAP-3"], "a refusal names neither operation nor provider"
        => both(|_, inner| inner.stats = false, refusal_names_nothing);
    "truth.capabilities-waver": ["CAP-5"], "capabilities differ from call to call"
        => advertise(|memory, inner| {
            let mut memory = memory.lock();
            memory.flag = !memory.flag;
            if memory.flag {
                inner.consistency = Consistency::Eventual;
            }
        });
    "truth.contradiction": ["CAP-2"], "vectors are advertised without an embedder"
        => advertise(|_, inner| inner.embedding = memory_core::EmbeddingOwner::None);
    "truth.health-down": ["CAP-6"], "a freshly opened provider reports that it is down"
        => instead(Request::Health {} => Ok(Reply::Health(Health::new(HealthStatus::Down, "not connected"))));
    "truth.max-value-lies": ["VAL-3"], "a larger value limit is advertised than holds" => both(|_, inner| inner.max_value_bytes *= 2, stores_less);
    "truth.max-top-k-lies": ["SRC-7"], "a search returns fewer hits than top_k allows" => results(|_, results| results.hits.truncate(100));
    "error.leaks-value": ["ERR-2"], "an error quotes the stored value" => around(leaks_value);
    "error.all-internal": ["ERR-1"], "every error is `internal`" => refuse(|_, error| Error::internal(error.message().to_owned()));
    "error.says-nothing": ["ERR-1"], "an error has no message" => refuse(|_, error| worded(&error, error.kind(), String::new()));
    "error.conflict-is-final": ["ERR-3"], "a conflict says never to retry"
        => refuse(|_, error| if error.kind() == ErrorKind::Conflict { error.with_retry(Retry::Never) } else { error });
    "error.always-retry": ["ERR-3"], "every error says to retry" => refuse(|_, error| error.with_retry(Retry::Now));
    "error.wrong-type-is-invalid": ["INC-3", "UPD-6"], "a value of the wrong type is `invalid_argument`"
        => refuse(|_, error| {
            if error.kind() == ErrorKind::WrongType {
                worded(&error, ErrorKind::InvalidArgument, error.message().to_owned())
            } else {
                error
            }
        });
    "error.limit-untold": ["VAL-3"], "an error about a limit gives no figures" => refuse_ahead(|_, error| {
        if error.kind() == ErrorKind::TooLarge {
            Error::new(ErrorKind::TooLarge, error.message().to_owned())
        } else {
            error
        }
    });
}

async fn refusal_names_nothing(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Stats { .. } => Err(Error::new(ErrorKind::Unsupported, "not served")),
        request => next.run(request).await,
    }
}

async fn stores_less(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let limit = next.provider().capabilities().max_value_bytes;
    match &request {
        Request::Set { value, .. } if value.len_bytes() > limit => {
            Err(Error::too_large("value", value.len_bytes(), limit, "bytes"))
        }
        _ => next.run(request).await,
    }
}

async fn leaks_value(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let about = match &request {
        Request::Set { scope, key, .. }
        | Request::Increment { scope, key, .. }
        | Request::Update { scope, key, .. } => peek(&next, scope, key).await?,
        _ => None,
    };
    match (next.run(request).await, about) {
        (Err(error), Some(entry)) => {
            let message = format!("{}; stored is {}", error.message(), entry.value.as_str());
            let mut leaky = Error::new(error.kind(), message).with_retry(error.retry());
            for (name, value) in error.details() {
                leaky = leaky.with_detail(name, value.clone());
            }
            Err(leaky)
        }
        (result, _) => result,
    }
}

fn worded(error: &Error, kind: ErrorKind, message: String) -> Error {
    error.details().iter().fold(Error::new(kind, message).with_retry(error.retry()), |all, (name, value)| {
        all.with_detail(name, value.clone())
    })
}

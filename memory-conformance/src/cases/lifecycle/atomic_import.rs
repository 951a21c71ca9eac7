//! EXP, SCO: scopes imported entirely or not at all, and the tenants with scopes.

use memory_core::{
    Atomicity, Entry, Error, ErrorKind, ImportOptions, ImportOutcome, OnExisting, Quota, Record, Result,
    Scope, ScopeId, ScopeKind, TenantId,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::{Cx, json, key};
use crate::stream;

pub(crate) const CASES: &[Case] = &[
    case!("export.whole.stores-all", [Kv, AtomicImport], ["EXP-12", "EXP-4"], |cx, scope: Scope| {
        let given = records(cx, &names(MANY))?;
        let outcome = import(cx, &scope, Atomicity::Scope, given.iter().cloned().map(Ok).collect()).await?;
        expect_eq!(outcome.created, MANY as u64, "records created");
        expect_eq!(cx.export(&scope).await?, given, "the records, versions and all");
    }),
    // A malformed record, an existing key, a failing stream.
    case!("export.whole.nothing-after-an-error", [Kv, AtomicImport], ["EXP-12"], |cx| {
        let given = records(cx, &names(MANY))?;
        let mut unversioned = Record::from(Entry::new(key("z")?, json("1")?, 1, cx.now()));
        unversioned.entry.version = 0;
        let there = Record::from(Entry::new(key("there")?, json("2")?, 1, cx.now()));
        let failed =
            || Error::new(ErrorKind::Corrupt, "line 701 is broken; restore the file and import again");
        for (what, kind, last) in [
            ("a malformed record", ErrorKind::InvalidArgument, Ok(unversioned)),
            ("a key that is there", ErrorKind::Conflict, Ok(there)),
            ("a stream that fails", ErrorKind::Corrupt, Err(failed())),
        ] {
            let scope = cx.scope()?;
            cx.set(&scope, "there", "1").await?;
            let all = given.iter().cloned().map(Ok).chain([last]).collect();
            let error = expect_kind!(
                import(cx, &scope, Atomicity::Scope, all).await,
                kind,
                "an all-or-nothing import with {what}"
            );
            // An error of the stream is passed on unchanged; an error of a record names it.
            if kind != ErrorKind::Corrupt {
                let index = error.details().get("index").and_then(serde_json::Value::as_u64);
                expect_eq!(index, Some(MANY as u64), "details.index, with {what}");
            }
            expect_eq!(cx.all_keys(&scope).await?, ["there"], "the keys after {what}");
            cx.set(&scope, "next", "1").await?;
        }
    }),
    case!("export.whole.nothing-over-quota", [Kv, AtomicImport, Quotas], ["EXP-12"], |cx, scope: Scope| {
        let options = ImportOptions::default()
            .with_atomicity(Atomicity::Scope)
            .with_quota(Quota { max_entries: Some(MANY as u64 - 1), max_bytes: None });
        let all = records(cx, &names(MANY))?.into_iter().map(Ok).collect();
        let result = cx.kv().import_scope(&scope, stream::records(all), options).await;
        expect_kind!(result, ErrorKind::QuotaExceeded, "an import of one record more than the quota");
        expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys after it");
    }),
    case!(
        "export.replacement.takes-the-place",
        [Kv, AtomicImport],
        ["EXP-13"],
        |cx, scope: Scope, other: Scope| {
            for scope in [&scope, &other] {
                cx.fill(scope, &[("0001", "\"old\""), ("old", "1")]).await?;
            }
            let all = records(cx, &names(3))?.into_iter().map(Ok).collect();
            let outcome = import(cx, &scope, Atomicity::Replacement, all).await?;
            expect_eq!(outcome.created, 3, "records created");
            expect_eq!(cx.all_keys(&scope).await?, ["0000", "0001", "0002"], "the keys of the scope");
            expect_eq!(cx.live(&scope, "0001").await?.value, json("1")?, "a key that was there before");
            expect_eq!(cx.all_keys(&other).await?, ["0001", "old"], "the keys of another scope");
            import(cx, &scope, Atomicity::Replacement, Vec::new()).await?;
            expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys after a replacement by nothing");
        }
    ),
    case!("export.replacement.versions-unique", [Kv, AtomicImport], ["EXP-13", "EXP-8"], |cx| {
        for kind in ScopeKind::ALL {
            let (scope, mut last) = (cx.scope_of(kind)?, 0);
            for _ in 0..3 {
                let before = cx.set(&scope, "0000", "\"old\"").await?.version;
                check!(before > last, "version {before} came after version {last}");
                let all = records(cx, &names(1))?.into_iter().map(Ok).collect();
                import(cx, &scope, Atomicity::Replacement, all).await?;
                last = cx.live(&scope, "0000").await?.version;
                check!(last > before, "a record that replaced version {before} has version {last}");
            }
        }
    }),
    case!("export.replacement.failed-leaves-all", [Kv, AtomicImport], ["EXP-13", "EXP-12"], |cx| {
        leaves_all(cx, Atomicity::Replacement).await?;
    }),
    case!(
        "export.mirror.holds-what-it-was-given",
        [Kv, AtomicImport],
        ["EXP-15"],
        |cx, scope: Scope, other: Scope| {
            for scope in [&scope, &other] {
                cx.fill(scope, &[("changed", "1"), ("gone", "1"), ("kept", "1")]).await?;
            }
            let mut all = cx.export(&scope).await?;
            let kept = all.iter().find(|record| record.entry.key.as_str() == "kept").cloned();
            all.retain(|record| record.entry.key.as_str() != "gone");
            for record in &mut all {
                if record.entry.key.as_str() == "changed" {
                    record.entry.value = json("2")?;
                }
            }
            all.push(Record::from(Entry::new(key("new")?, json("1")?, 1, cx.now())));
            let options = ImportOptions::default()
                .with_on_existing(OnExisting::Replace)
                .with_atomicity(Atomicity::Mirror);
            let mirror = |all: Vec<Record>| {
                cx.kv().import_scope(&scope, stream::records(all.into_iter().map(Ok).collect()), options)
            };
            let outcome = mirror(all).await?;
            let counts = (outcome.created, outcome.replaced, outcome.skipped);
            expect_eq!(counts, (1, 1, 1), "records created, replaced and skipped");
            expect_eq!(cx.all_keys(&scope).await?, ["changed", "kept", "new"], "the keys of the scope");
            expect_eq!(
                cx.live(&scope, "changed").await?.value,
                json("2")?,
                "an entry that said something else"
            );
            let exported = cx.export(&scope).await?;
            let found = exported.into_iter().find(|record| record.entry.key.as_str() == "kept");
            expect_eq!(found, kept, "an entry that said the same, with its version and its vectors");
            expect_eq!(cx.all_keys(&other).await?, ["changed", "gone", "kept"], "the keys of another scope");
            mirror(Vec::new()).await?;
            expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys after mirroring an empty stream");
        }
    ),
    case!("export.mirror.expired-record-is-none", [Kv, AtomicImport], ["EXP-15"], |cx, scope: Scope| {
        cx.fill(&scope, &[("expired", "1"), ("kept", "1")]).await?;
        let mut all = cx.export(&scope).await?;
        for record in &mut all {
            if record.entry.key.as_str() == "expired" {
                record.entry.expires_at = Some(record.entry.updated_at);
            }
        }
        let options =
            ImportOptions::default().with_on_existing(OnExisting::Replace).with_atomicity(Atomicity::Mirror);
        let all = stream::records(all.into_iter().map(Ok).collect());
        let outcome = cx.kv().import_scope(&scope, all, options).await?;
        expect_eq!((outcome.expired, outcome.skipped), (1, 1), "records expired and skipped");
        expect_eq!(cx.all_keys(&scope).await?, ["kept"], "the keys of the scope");
    }),
    case!("export.mirror.failed-leaves-all", [Kv, AtomicImport], ["EXP-15", "EXP-12"], |cx| {
        leaves_all(cx, Atomicity::Mirror).await?;
    }),
    case!("export.records.line-feeds", [Kv], ["EXP-14"], |cx, scope: Scope, copy: Scope| {
        let value = "{\n  \"a\": [\r\n1\t]\n}";
        cx.set(&scope, "k", value).await?;
        let mut records = Vec::new();
        for record in cx.export(&scope).await? {
            let line = record.to_line()?;
            check!(!line.contains('\n'), "a record takes more than one line");
            records.push(Record::from_line(&line)?);
        }
        cx.import(&copy, records, OnExisting::Fail).await?;
        expect_eq!(cx.text(&copy, "k").await?.as_deref(), Some(value), "the value that came by a line");
    }),
    case!("scope.tenants.in-order", [Kv, Tenants], ["SCO-6"], |cx| {
        let tenants = of_tenants(cx).await?;
        let last = tenants.last().cloned().unwrap_or_else(|| cx.tenant());
        let mut found = from_to(cx, None, &last, 1_000).await?;
        found.retain(|tenant| tenants.contains(tenant));
        expect_eq!(found, tenants, "the tenants with contents");
    }),
    case!("scope.tenants.pages", [Kv, Tenants], ["SCO-7"], |cx| {
        of_tenants(cx).await?;
        // Both start with the case's own tenant, so hardly any other lies in between.
        let later = [cx.tenant_below("/x")?, cx.tenant_below("x")?];
        let mut found = from_to(cx, Some(&cx.tenant()), &cx.tenant_below("x")?, 1).await?;
        found.retain(|tenant| later.contains(tenant));
        expect_eq!(found, later, "the tenants after the case's own, one a page");
        for (limit, kind) in [(0, ErrorKind::InvalidArgument), (1_001, ErrorKind::TooLarge)] {
            expect_kind!(cx.provider().tenants(None, limit).await, kind, "a page of {limit} tenants");
        }
    }),
];

/// More records than a provider is likely to import in one step.
const MANY: usize = 700;

fn records(cx: &Cx, names: &[String]) -> Result<Vec<Record>> {
    names
        .iter()
        .zip(1..)
        .map(|(name, version)| Ok(Record::from(Entry::new(key(name)?, json("1")?, version, cx.now()))))
        .collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{at:04}")).collect()
}

async fn import(
    cx: &Cx,
    scope: &Scope,
    atomicity: Atomicity,
    records: Vec<Result<Record>>,
) -> Result<ImportOutcome> {
    let options = ImportOptions::default().with_on_existing(OnExisting::Fail).with_atomicity(atomicity);
    cx.kv().import_scope(scope, stream::records(records), options).await
}

/// After an import whose stream failed.
async fn leaves_all(cx: &Cx, atomicity: Atomicity) -> CaseResult {
    let scope = cx.scope()?;
    cx.fill(&scope, &[("a", "1"), ("b", "2")]).await?;
    let before = cx.export(&scope).await?;
    let mut all: Vec<Result<Record>> = records(cx, &names(MANY))?.into_iter().map(Ok).collect();
    all.push(Err(Error::new(ErrorKind::Corrupt, "line 701 is broken; restore the file and import again")));
    expect_kind!(
        import(cx, &scope, atomicity, all).await,
        ErrorKind::Corrupt,
        "an import with a failing stream"
    );
    expect_eq!(cx.export(&scope).await?, before, "the entries after it");
    Ok(())
}

/// A scope with an entry in each of these tenants.
async fn of_tenants(cx: &Cx) -> CaseResult<Vec<TenantId>> {
    let mut tenants = vec![cx.tenant(), cx.other_tenant()?, cx.tenant_below("x")?, cx.tenant_below("/x")?];
    for tenant in &tenants {
        for kind in [ScopeKind::Agent, ScopeKind::User] {
            let scope = Scope::new(tenant.clone(), kind, ScopeId::new("a")?);
            cx.fill(&scope, &[("k", "1")]).await?;
        }
    }
    tenants.sort();
    Ok(tenants)
}

/// The tenants after `after` up to `last`, possibly including those of other cases.
async fn from_to(
    cx: &Cx,
    after: Option<&TenantId>,
    last: &TenantId,
    limit: usize,
) -> CaseResult<Vec<TenantId>> {
    let mut found: Vec<TenantId> = Vec::new();
    loop {
        let page = cx.provider().tenants(found.last().or(after), limit).await?;
        check!(page.len() <= limit, "a page of {limit} tenants has {}", page.len());
        let mut before = found.last().or(after).cloned();
        for tenant in &page {
            check!(
                before.as_ref().is_none_or(|before| before < tenant),
                "the tenants are out of order, or one is there twice"
            );
            before = Some(tenant.clone());
        }
        let ended = page.len() < limit || page.iter().any(|tenant| tenant >= last);
        found.extend(page);
        if ended {
            return Ok(found);
        }
    }
}

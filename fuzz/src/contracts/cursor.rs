//! Cursors: no text panics, or is a position in a listing it was not made for.
//!
//! Lines: tenant, id, prefix, key; the rest is a cursor from outside.

use memory_core::{Cursor, Key, Scope, ScopeId, ScopeKind, TenantId};

/// Tries one cursor.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let home = Scope::agent("t", "a").expect("a scope");
    foreign(&Cursor::from_text(&*text), &home, "");

    let mut lines = text.splitn(5, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (tenant, id, prefix, key, outside) = (line(), line(), line(), line(), line());
    let (Ok(tenant), Ok(id)) = (TenantId::new(tenant), ScopeId::new(id)) else { return };
    foreign(&Cursor::from_text(outside), &home, prefix);
    for kind in ScopeKind::ALL {
        let scope = Scope::new(tenant.clone(), kind, id.clone());
        scopes(&scope);
        kinds_in_names(&scope);
        if let Ok(key) = Key::new(key) {
            keys(&scope, prefix, &key);
            tampered(&Cursor::after_key(&scope, prefix, &key), outside, &home);
        }
    }
}

/// A foreign text is refused, or equals a cursor that this listing makes.
fn foreign(cursor: &Cursor, scope: &Scope, prefix: &str) {
    if let Ok(key) = cursor.key(scope, prefix) {
        assert_eq!(Cursor::after_key(scope, prefix, &key), *cursor);
    }
    if let Ok((kind, id)) = cursor.scope(&scope.tenant) {
        assert_eq!(Cursor::after_scope(&scope.tenant, kind, &id), *cursor);
    }
    let json = serde_json::to_string(cursor).expect("writes");
    assert_eq!(serde_json::from_str::<Cursor>(&json).expect("reads"), *cursor);
}

fn keys(scope: &Scope, prefix: &str, key: &Key) {
    let cursor = Cursor::after_key(scope, prefix, key);
    assert_eq!(cursor.key(scope, prefix).expect("its own listing"), *key);
    let longer = format!("{prefix}x");
    assert!(cursor.key(scope, &longer).is_err());
    assert!(cursor.scope(&scope.tenant).is_err());
    for other in others(scope) {
        assert!(cursor.key(&other, prefix).is_err(), "{other}");
    }
}

fn scopes(scope: &Scope) {
    let cursor = Cursor::after_scope(&scope.tenant, scope.kind, &scope.id);
    let position = cursor.scope(&scope.tenant).expect("its own listing");
    assert_eq!(position, (scope.kind, scope.id.clone()));
    assert!(cursor.key(scope, "").is_err());
    for other in others(scope).into_iter().filter(|other| other.tenant != scope.tenant) {
        assert!(cursor.scope(&other.tenant).is_err(), "{other}");
    }
}

/// The kind's name may be part of the tenant or the id.
fn kinds_in_names(scope: &Scope) {
    let Scope { tenant, kind, id } = scope;
    let parts = (format!("{kind}{id}"), format!("{tenant}{kind}"));
    if let (Ok(longer_id), Ok(longer_tenant)) = (ScopeId::new(parts.0), TenantId::new(parts.1)) {
        let (a, b) = (Scope::new(tenant.clone(), *kind, longer_id), Scope::new(longer_tenant, *kind, id.clone()));
        assert_ne!(a.digest(), b.digest(), "{a} and {b}");
    }
}

/// Scopes that differ in one part, or in where one part ends and the next begins.
fn others(scope: &Scope) -> Vec<Scope> {
    let (tenant, id) = (scope.tenant.as_str(), scope.id.as_str());
    let mut parts = vec![
        (tenant.to_owned(), format!("{id}x")),
        (format!("{tenant}x"), id.to_owned()),
        (id.to_owned(), tenant.to_owned()),
    ];
    let joined = format!("{tenant}{id}");
    parts.extend(
        (1..joined.len()).filter(|at| joined.is_char_boundary(*at)).take(8).map(|at| {
            let (tenant, id) = joined.split_at(at);
            (tenant.to_owned(), id.to_owned())
        }),
    );
    let mut others: Vec<Scope> = parts
        .into_iter()
        .filter_map(|(tenant, id)| Some((TenantId::new(tenant).ok()?, ScopeId::new(id).ok()?)))
        .flat_map(|(tenant, id)| ScopeKind::ALL.map(|kind| Scope::new(tenant.clone(), kind, id.clone())))
        .collect();
    others.extend(ScopeKind::ALL.map(|kind| Scope { kind, ..scope.clone() }));
    others.retain(|other| other != scope);
    for other in &others {
        assert_ne!(other.digest(), scope.digest(), "{other}");
    }
    others
}

/// A cursor with a changed part does not become another scope's.
fn tampered(cursor: &Cursor, piece: &str, home: &Scope) {
    let text = cursor.as_str();
    for at in [0, 1, 8, 11, text.len() / 2] {
        let Some((head, tail)) = text.split_at_checked(at) else { continue };
        let rest = tail.get(piece.len()..).unwrap_or_default();
        foreign(&Cursor::from_text(format!("{head}{piece}{rest}")), home, "");
    }
}

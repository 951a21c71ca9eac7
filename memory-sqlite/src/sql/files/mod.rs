//! Where scopes' databases lie: a folder for each tenant, in it one for each scope, named by digests.
//!
//! `<root>/<32 hex digits of the tenant's SHA-256>/<64 hex digits of the scope's digest>/` holds `scope.json`, which says
//! whose it is, and `data.db`. The first is there before the second, whole. Folders are private (0700), files too (0600).
//! A symbolic link below the root is never followed: what should be a folder or a file must be one.

mod first_page;
mod folders;
mod identity;
mod list;
mod place;
mod root;

pub(crate) use folders::discard;
pub(crate) use place::Place;
pub(crate) use root::Files;

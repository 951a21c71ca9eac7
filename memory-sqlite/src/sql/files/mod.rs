//! Where scopes' databases are: a folder per tenant, in it one per scope, named by digests.
//!
//! `<root>/<32 hex digits of the tenant's SHA-256>/<64 hex digits of the scope's digest>/` holds `scope.json`, the
//! owner, and `data.db`. The first is complete before the second exists. Folders are private (0700), and so are files
//! (0600). A symbolic link below the root is never followed: folders and files must be ordinary ones.

mod first_page;
mod folders;
mod identity;
mod list;
mod place;
mod root;

pub(crate) use folders::discard;
pub(crate) use place::Place;
pub(crate) use root::Files;

//! The ways in which the oracle itself can be broken, where a mutant cannot do it from outside.

/// Who looks at an entry, and must not see it once it has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eyes {
    Get,
    GetMany,
    List,
    Search,
    Stats,
    Scopes,
    Export,
    Import,
    Quota,
    Set,
    Delete,
    Increment,
    Update,
    Drop,
}

/// One defect. Each is consulted in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Expired entries are seen by these eyes.
    Sees(Eyes),
    /// The millisecond of the expiry still counts as live.
    ExpiryInclusive,
    /// Overwriting keeps the version.
    VersionStays,
    /// A key that begins anew begins at version 1.
    VersionPerLife,
    /// Dropping a scope forgets its versions.
    VersionsEndWithDrop,
    /// `created_at` moves with every write.
    CreatedAtMoves,
    /// `updated_at` stays where it was.
    UpdatedAtStays,
    /// An entry over an expired one inherits its birth and its accesses.
    BirthSurvivesExpiry,
    /// `Keep` over an expired entry keeps its expiry.
    KeepRevivesExpiry,
    /// Overwriting resets the access count.
    CountEndsWithWrite,
    /// A retry counts as the same without a look at metadata, source and text.
    RetryLooksAtValueOnly,
    /// A retry counts as the same whatever the lifetime.
    RetryIgnoresLifetime,
    /// A write that shrinks an over-full scope is refused.
    QuotaBlocksShrinking,
    /// Each item of a bulk insert is checked against the scope as it was before.
    QuotaPerItem,
    /// Search statistics are taken over every scope.
    StatisticsOfAllScopes,
    /// Search statistics are those of the entries that match the filter.
    StatisticsOfMatches,
    /// Search hits are no accesses.
    SearchDoesNotCount,
    /// Age counts from the creation.
    AgeFromCreation,
    /// Overwriting keeps the vector of the old text.
    StaleVectorStays,
    /// Imported entries get versions of their own.
    ImportRenumbers,
    /// Imported entries keep versions that the key had before.
    ImportReusesVersions,
    /// A record that says nothing new is stored again.
    ImportStoresSame,
}

/// The defect of a store, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults(Option<Fault>);

impl Faults {
    pub(crate) const fn only(fault: Fault) -> Self {
        Self(Some(fault))
    }

    pub(crate) fn has(self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }
}

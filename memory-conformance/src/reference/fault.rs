//! The defects inside the reference provider that a mutant cannot cause from outside.

use memory_core::Op;

/// An operation that must not see an expired entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
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

/// One defect. Each is checked in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This operation sees expired entries.
    Sees(Viewer),
    /// An entry is still live in its expiry millisecond.
    ExpiryInclusive,
    /// Search alone finds an entry in the millisecond of its expiry.
    SearchExpiryInclusive,
    /// Overwriting keeps the version.
    VersionStays,
    /// A recreated key starts at version 1.
    VersionPerLife,
    /// Dropping a scope resets its versions.
    VersionsEndWithDrop,
    /// Evicting a scope resets its versions.
    VersionsEndWithEviction,
    /// Reads do not count as uses.
    ReadsAreNoUse,
    /// Closing a handle loses the access counts.
    CloseLosesCounts,
    /// Closing a handle ends the store.
    CloseEndsTheStore,
    /// A read snapshot shows later writes.
    MomentMoves,
    /// `created_at` changes with every write.
    CreatedAtMoves,
    /// `updated_at` never changes.
    UpdatedAtStays,
    /// An entry over an expired one inherits its creation time and accesses.
    BirthSurvivesExpiry,
    /// `Keep` over an expired entry keeps its expiry.
    KeepRevivesExpiry,
    /// Overwriting resets the access count.
    CountEndsWithWrite,
    /// A retry ignores metadata, source and text.
    RetryLooksAtValueOnly,
    /// A retry ignores the lifetime.
    RetryIgnoresLifetime,
    /// A row check fails unless the row is the scope's newest.
    DriftRowSeesScope,
    /// A refused write changes the scope's token.
    DriftRefusalMoves,
    /// A delete does not change the scope's token.
    DriftDeleteStays,
    /// Writing what is already stored is refused after drift.
    DriftStoredRefused,
    /// A counted read changes the scope's token.
    DriftReadMoves,
    /// The first write leaves the scope without a generation.
    DriftFromZero,
    /// All scopes share one token.
    DriftOfAllScopes,
    /// A write with a precondition is checked for drift too.
    DriftWithExpect,
    /// A write that shrinks an over-full scope is refused.
    QuotaBlocksShrinking,
    /// Each item of a bulk insert is checked against the scope before the call.
    QuotaPerItem,
    /// Search statistics cover all scopes.
    StatisticsOfAllScopes,
    /// Search statistics cover only entries that match the filter.
    StatisticsOfMatches,
    /// Search hits are not counted as accesses.
    SearchDoesNotCount,
    /// Age is measured from creation.
    AgeFromCreation,
    /// Overwriting keeps the old vector.
    StaleVectorStays,
    /// Erasing leaves no tombstone.
    EraseLeavesNoTombstone,
    /// An erased scope restarts at version 1.
    EraseForgetsVersions,
    /// Every scope starts above the versions of any erased scope.
    EraseRaisesOthers,
    /// Scopes of runs stay when their tenant is erased.
    EraseLeavesRuns,
    /// Erasing a scope leaves its expired entries.
    EraseKeepsExpired,
    /// The last of two tombstones wins.
    BuryReplaces,
    /// An imported tombstone may be in the future.
    BuryUnclamped,
    /// An imported tombstone deletes existing entries.
    BuryErases,
    /// Imported entries get new versions.
    ImportRenumbers,
    /// A record reuses an earlier version of the key.
    ImportReusesVersions,
    /// A replacement resets the versions of a run.
    ReplacedRunsBeginAnew,
    /// An unchanged record is stored again.
    ImportStoresSame,
    /// A mirroring import keeps an entry whose record has expired.
    MirrorKeepsExpired,
    /// An atomic import stores record by record.
    ImportInSteps,
    /// A replacing record keeps the old vectors.
    ImportKeepsOldVectors,
    /// This operation does not check the length of stored vectors.
    DimensionUnchecked(Op),
    /// Vectors of another length are refused after the entry is written.
    DimensionCheckedLate,
    /// The embedder's reply is not checked.
    RepliesUnchecked,
    /// Queries are embedded as documents.
    QueryAsDocument,
    /// Documents are embedded as queries.
    DocumentAsQuery,
    /// The text is embedded before the write, even if that is then refused.
    EmbedsRefusedWrites,
    /// A retry that finds its result stored embeds again.
    RetryEmbedsAgain,
    /// Blank texts are embedded.
    EmbedsBlank,
    /// The value is embedded instead of the explicit text.
    EmbedsValue,
    /// This operation does not embed what it wrote.
    NotEmbedded(Op),
    /// A bulk insert embeds only its first item.
    BulkEmbedsFirst,
    /// A late vector is stored over a newer write.
    LateVectorLands,
    /// A late vector of a re-embedding is stored over a newer write.
    LateReembedLands,
    /// Vectors of different models are compared.
    ModelsMeet,
    /// Near-duplicates are found across models.
    DedupAcrossModels,
    /// Similarity is the dot product.
    DotProduct,
    /// Vector hits are not counted as accesses.
    VectorSearchDoesNotCount,
    /// Hybrid candidates are the best hundred of each side.
    PoolOfHundred,
    /// Hybrid candidates are all hits of both sides.
    PoolOfAll,
    /// A hybrid candidate gets only the similarities of the side that found it.
    PoolSidesAlone,
    /// Hybrid scores are scaled over the whole scope.
    ScaledOverScope,
    /// Hybrid scores are scaled over what passes the threshold.
    ScaledOverThreshold,
    /// Re-embedding counts as a write.
    ReembedTouches,
    /// Re-embedding keeps the other model's vector.
    ReembedKeepsOthers,
    /// Re-embedding repeats what is already embedded.
    ReembedRepeats,
    /// Re-embedding removes other models' vectors before it calls the embedder.
    ReembedClearsFirst,
    /// Re-embedding stops at the first refused text.
    ReembedEndsAtRefusal,
    /// Re-embedding is refused if the stored vectors have another length.
    ReembedRefusesOtherLength,
    /// Refused texts count against a step's limit.
    RefusalsFillTheStep,
    /// Re-embedding uses the search text even if another was embedded.
    ReembedForgetsText,
    /// A dry run calls the embedder.
    DryRunEmbeds,
    /// Re-embedding skips entries without any vector.
    ReembedLeavesOutBare,
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

//! The ways in which the oracle itself can be broken, where a mutant cannot do it from outside.

use memory_core::Op;

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
    /// Search alone finds an entry in the millisecond of its expiry.
    SearchExpiryInclusive,
    /// Overwriting keeps the version.
    VersionStays,
    /// A key that begins anew begins at version 1.
    VersionPerLife,
    /// Dropping a scope forgets its versions.
    VersionsEndWithDrop,
    /// Evicting a scope forgets its versions.
    VersionsEndWithEviction,
    /// Reads are no use of a scope.
    ReadsAreNoUse,
    /// A moment shows the store as it is.
    MomentMoves,
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
    /// A row that was seen is refused unless it is the scope's newest.
    DriftRowSeesScope,
    /// A refused write moves the scope's token.
    DriftRefusalMoves,
    /// A delete leaves the scope's token.
    DriftDeleteStays,
    /// What is stored already is refused where something drifted.
    DriftStoredRefused,
    /// A read that counts moves the scope's token.
    DriftReadMoves,
    /// The first change leaves the scope without a generation.
    DriftFromZero,
    /// Every scope's token moves with any.
    DriftOfAllScopes,
    /// A write with a precondition is compared with what was seen, too.
    DriftWithExpect,
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
    /// What is erased leaves no tombstone.
    EraseLeavesNoTombstone,
    /// A scope that begins anew after it was erased begins at version 1.
    EraseForgetsVersions,
    /// Every scope begins behind the versions of any that was erased.
    EraseRaisesOthers,
    /// Scopes of runs stay when their tenant is erased.
    EraseLeavesRuns,
    /// Expired entries of an erased scope stay.
    EraseKeepsExpired,
    /// Of two tombstones of one target the one that came last holds.
    BuryReplaces,
    /// A tombstone from elsewhere may lie in the future.
    BuryUnclamped,
    /// A tombstone from elsewhere takes away what is there.
    BuryErases,
    /// Imported entries get versions of their own.
    ImportRenumbers,
    /// Imported entries keep versions that the key had before.
    ImportReusesVersions,
    /// A record that says nothing new is stored again.
    ImportStoresSame,
    /// An import that is to be whole stores record by record.
    ImportInSteps,
    /// A record that replaces an entry leaves the old vectors there.
    ImportKeepsOldVectors,
    /// This operation does not look at the length of the vectors that are stored.
    DimensionUnchecked(Op),
    /// Vectors of another length are refused when the entry is already written.
    DimensionCheckedLate,
    /// What the embedder answers is taken as it is.
    RepliesUnchecked,
    /// Queries are embedded as documents.
    QueryAsDocument,
    /// Documents are embedded as queries.
    DocumentAsQuery,
    /// The embedder is asked before the write, also where it is refused then.
    EmbedsRefusedWrites,
    /// A retry that finds its result stored embeds once more.
    RetryEmbedsAgain,
    /// Blank texts are embedded.
    EmbedsBlank,
    /// The value is embedded where there is an explicit text.
    EmbedsValue,
    /// This operation does not embed what it wrote.
    NotEmbedded(Op),
    /// A bulk insert embeds its first item alone.
    BulkEmbedsFirst,
    /// A write's vector is stored whatever came between.
    LateVectorLands,
    /// A re-embedding's vector is stored whatever came between.
    LateReembedLands,
    /// Vectors of any model are compared with the query's.
    ModelsMeet,
    /// Near-duplicates are told by vectors of any model.
    DedupAcrossModels,
    /// Similarity is the dot product.
    DotProduct,
    /// Hits of a search by vectors are no accesses.
    VectorSearchDoesNotCount,
    /// Hybrid search takes the best hundred of each side.
    PoolOfHundred,
    /// Hybrid search takes all of both sides.
    PoolOfAll,
    /// A candidate of hybrid search has only the similarities by which it is among the best.
    PoolSidesAlone,
    /// Hybrid search scales over the whole scope.
    ScaledOverScope,
    /// Hybrid search scales over what passes the threshold.
    ScaledOverThreshold,
    /// Re-embedding is a write of the entry.
    ReembedTouches,
    /// Re-embedding leaves the vector of the other model there.
    ReembedKeepsOthers,
    /// Re-embedding takes what has been embedded already.
    ReembedRepeats,
    /// Re-embedding removes the vectors of other models before it asks the embedder.
    ReembedClearsFirst,
    /// Re-embedding ends at the first text that the embedder refuses.
    ReembedEndsAtRefusal,
    /// Re-embedding is refused where the vectors that are stored have another length.
    ReembedRefusesOtherLength,
    /// Texts that the embedder refuses count against a step's limit.
    RefusalsFillTheStep,
    /// Re-embedding takes the search text where another was embedded.
    ReembedForgetsText,
    /// A dry run asks the embedder.
    DryRunEmbeds,
    /// Re-embedding leaves out entries without a vector of any model.
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

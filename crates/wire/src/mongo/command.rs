//! The effect of each command, as a table.
//!
//! A command that is not in [`TABLE`] counts as a write to everything
//! ([`super::request::Request::effect`]). Names are compared case-sensitively, as servers do;
//! aliases have rows of their own.

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// As it stands first in the command's body.
    pub name: &'static str,
    /// Its effect on the data.
    pub effect: Effect,
    /// The field that names what it operates on.
    pub place: Place,
    /// The name's first eight bytes as one number, which orders as the bytes do: a lookup then
    /// compares numbers, and whole names only where these are equal.
    prefix: u64,
}

/// The effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Answers from one collection's documents and changes nothing.
    Read {
        /// The field with the filter.
        filter: &'static str,
    },
    /// A read, unless a stage of `pipeline` is `$out` or `$merge`, see [`super::touch::touches`].
    /// It may read other collections too.
    Pipeline,
    /// Changes documents, or what reads of them answer.
    Write(Scope),
    /// Continues a cursor, or ends it.
    Cursor,
    /// Ends a transaction: its writes become visible, or are discarded.
    TransactionEnd,
    /// Changes the user of the connection.
    Authentication,
    /// Describes the server, and starts compression and authentication.
    Handshake,
    /// Concerns sessions only.
    Session,
    /// Changes no document, and its reply contains none: forward it.
    Other,
}

/// The scope of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// New documents.
    Documents {
        /// The array or kind-1 section with the documents.
        list: &'static str,
    },
    /// The documents that a list of filters selects.
    Filters {
        /// The array or kind-1 section with one entry for each write.
        list: &'static str,
        /// The entry's field with the filter.
        filter: &'static str,
    },
    /// The documents that one filter selects.
    Filter {
        /// The body's field with the filter.
        filter: &'static str,
    },
    /// Inserts, updates and deletes of several collections.
    Operations {
        /// The array or kind-1 section with the operations.
        list: &'static str,
        /// The array or kind-1 section with the namespaces they count into.
        namespaces: &'static str,
    },
    /// The whole collection.
    Collection,
    /// The named collection and the one it becomes.
    Rename {
        /// The body's field with the new namespace.
        to: &'static str,
    },
    /// The whole database.
    Database,
    /// Every database.
    Everything,
}

/// The place where a command names its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The first element is the collection's name; the database is `$db`.
    Collection,
    /// The first element is `database.collection`.
    Namespace,
    /// This field is the collection's name; the database is `$db`.
    Field(&'static str),
    /// It names no collection; the database is `$db`.
    Database,
}

impl Command {
    /// The row of `name`, or `None` for a command this table does not know.
    pub fn lookup(name: &str) -> Option<&'static Self> {
        let wanted = prefix(name.as_bytes());
        let order = |row: &Self| row.prefix.cmp(&wanted).then_with(|| row.name.cmp(name));
        let at = TABLE.binary_search_by(order).ok()?;
        TABLE.get(at)
    }
}

const fn row(name: &'static str, effect: Effect, place: Place) -> Command {
    Command { name, effect, place, prefix: prefix(name.as_bytes()) }
}

/// Bytes a name does not have count as zero.
const fn prefix(name: &[u8]) -> u64 {
    let mut prefix = 0;
    let mut rest = name;
    let mut missing = 8;
    while let [first, behind @ ..] = rest
        && missing > 0
    {
        prefix = prefix << 8 | *first as u64;
        rest = behind;
        missing -= 1;
    }
    // A shift by all 64 bits would overflow; it is asked for only by the empty name, which is zero.
    if missing == 8 { 0 } else { prefix << (8 * missing) }
}

/// Every command of MongoDB 3.6 to 8.0 that a client may send, sorted by name.
///
/// Where a command's scope depends on more than its own fields, the row has the widest: `mapReduce`
/// may write to another database; a change of users or of the read concern may change which data a
/// connection may read.
#[rustfmt::skip]
pub static TABLE: &[Command] = &[
    row("abortMoveCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("abortReshardCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("abortTransaction", Effect::TransactionEnd, Place::Database),
    row("abortUnshardCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("addShard", Effect::Write(Scope::Everything), Place::Database),
    row("addShardToZone", Effect::Other, Place::Database),
    row("aggregate", Effect::Pipeline, Place::Collection),
    row("analyze", Effect::Other, Place::Namespace),
    row("analyzeShardKey", Effect::Other, Place::Namespace),
    row("applyOps", Effect::Write(Scope::Everything), Place::Database),
    row("authenticate", Effect::Authentication, Place::Database),
    row("autoCompact", Effect::Other, Place::Database),
    row("balancerCollectionStatus", Effect::Other, Place::Namespace),
    row("balancerStart", Effect::Other, Place::Database),
    row("balancerStatus", Effect::Other, Place::Database),
    row("balancerStop", Effect::Other, Place::Database),
    row("buildInfo", Effect::Other, Place::Database),
    row("buildinfo", Effect::Other, Place::Database),
    row("bulkWrite", Effect::Write(Scope::Operations { list: "ops", namespaces: "nsInfo" }), Place::Database),
    row("checkMetadataConsistency", Effect::Other, Place::Database),
    row("cleanupOrphaned", Effect::Write(Scope::Collection), Place::Namespace),
    row("cleanupStructuredEncryptionData", Effect::Write(Scope::Collection), Place::Collection),
    row("clearJumboFlag", Effect::Other, Place::Namespace),
    row("cloneCollectionAsCapped", Effect::Write(Scope::Database), Place::Database),
    row("collMod", Effect::Write(Scope::Collection), Place::Collection),
    row("collStats", Effect::Other, Place::Collection),
    row("collstats", Effect::Other, Place::Collection),
    row("commitReshardCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("commitTransaction", Effect::TransactionEnd, Place::Database),
    row("compact", Effect::Write(Scope::Collection), Place::Collection),
    row("compactStructuredEncryptionData", Effect::Write(Scope::Collection), Place::Collection),
    row("configureCollectionBalancing", Effect::Other, Place::Namespace),
    row("configureQueryAnalyzer", Effect::Other, Place::Namespace),
    row("connPoolStats", Effect::Other, Place::Database),
    row("connectionStatus", Effect::Other, Place::Database),
    row("convertToCapped", Effect::Write(Scope::Collection), Place::Collection),
    row("coordinateCommitTransaction", Effect::TransactionEnd, Place::Database),
    row("count", Effect::Read { filter: "query" }, Place::Collection),
    row("create", Effect::Write(Scope::Collection), Place::Collection),
    row("createIndexes", Effect::Write(Scope::Collection), Place::Collection),
    row("createRole", Effect::Write(Scope::Everything), Place::Database),
    row("createSearchIndexes", Effect::Write(Scope::Collection), Place::Collection),
    row("createUser", Effect::Write(Scope::Everything), Place::Database),
    row("currentOp", Effect::Other, Place::Database),
    row("dataSize", Effect::Other, Place::Namespace),
    row("datasize", Effect::Other, Place::Namespace),
    row("dbHash", Effect::Other, Place::Database),
    row("dbStats", Effect::Other, Place::Database),
    row("dbhash", Effect::Other, Place::Database),
    row("dbstats", Effect::Other, Place::Database),
    row("delete", Effect::Write(Scope::Filters { list: "deletes", filter: "q" }), Place::Collection),
    row("deleteIndexes", Effect::Write(Scope::Collection), Place::Collection),
    row("distinct", Effect::Read { filter: "query" }, Place::Collection),
    row("doTxn", Effect::Write(Scope::Everything), Place::Database),
    row("drop", Effect::Write(Scope::Collection), Place::Collection),
    row("dropAllRolesFromDatabase", Effect::Write(Scope::Everything), Place::Database),
    row("dropAllUsersFromDatabase", Effect::Write(Scope::Everything), Place::Database),
    row("dropDatabase", Effect::Write(Scope::Database), Place::Database),
    row("dropIndexes", Effect::Write(Scope::Collection), Place::Collection),
    row("dropRole", Effect::Write(Scope::Everything), Place::Database),
    row("dropSearchIndex", Effect::Write(Scope::Collection), Place::Collection),
    row("dropUser", Effect::Write(Scope::Everything), Place::Database),
    row("emptycapped", Effect::Write(Scope::Collection), Place::Collection),
    row("enableSharding", Effect::Write(Scope::Everything), Place::Database),
    row("endSessions", Effect::Session, Place::Database),
    row("explain", Effect::Other, Place::Database),
    row("features", Effect::Other, Place::Database),
    row("find", Effect::Read { filter: "filter" }, Place::Collection),
    row("findAndModify", Effect::Write(Scope::Filter { filter: "query" }), Place::Collection),
    row("findandmodify", Effect::Write(Scope::Filter { filter: "query" }), Place::Collection),
    row("flushRouterConfig", Effect::Other, Place::Database),
    row("fsync", Effect::Other, Place::Database),
    row("fsyncUnlock", Effect::Other, Place::Database),
    row("getClusterParameter", Effect::Other, Place::Database),
    row("getCmdLineOpts", Effect::Other, Place::Database),
    row("getDefaultRWConcern", Effect::Other, Place::Database),
    row("getDiagnosticData", Effect::Other, Place::Database),
    row("getFreeMonitoringStatus", Effect::Other, Place::Database),
    row("getLastError", Effect::Other, Place::Database),
    row("getLog", Effect::Other, Place::Database),
    row("getMore", Effect::Cursor, Place::Field("collection")),
    row("getParameter", Effect::Other, Place::Database),
    row("getShardMap", Effect::Other, Place::Database),
    row("getShardVersion", Effect::Other, Place::Namespace),
    row("getlasterror", Effect::Other, Place::Database),
    row("getnonce", Effect::Authentication, Place::Database),
    row("grantPrivilegesToRole", Effect::Write(Scope::Everything), Place::Database),
    row("grantRolesToRole", Effect::Write(Scope::Everything), Place::Database),
    row("grantRolesToUser", Effect::Write(Scope::Everything), Place::Database),
    row("hello", Effect::Handshake, Place::Database),
    row("hostInfo", Effect::Other, Place::Database),
    row("insert", Effect::Write(Scope::Documents { list: "documents" }), Place::Collection),
    row("invalidateUserCache", Effect::Write(Scope::Everything), Place::Database),
    row("isMaster", Effect::Handshake, Place::Database),
    row("isdbgrid", Effect::Other, Place::Database),
    row("ismaster", Effect::Handshake, Place::Database),
    row("killAllSessions", Effect::Session, Place::Database),
    row("killAllSessionsByPattern", Effect::Session, Place::Database),
    row("killCursors", Effect::Cursor, Place::Collection),
    row("killOp", Effect::Other, Place::Database),
    row("killSessions", Effect::Session, Place::Database),
    row("listCollections", Effect::Other, Place::Database),
    row("listCommands", Effect::Other, Place::Database),
    row("listDatabases", Effect::Other, Place::Database),
    row("listIndexes", Effect::Other, Place::Collection),
    row("listShards", Effect::Other, Place::Database),
    row("lockInfo", Effect::Other, Place::Database),
    row("logRotate", Effect::Other, Place::Database),
    row("logout", Effect::Authentication, Place::Database),
    row("mapReduce", Effect::Write(Scope::Everything), Place::Database),
    row("mapreduce", Effect::Write(Scope::Everything), Place::Database),
    row("mergeAllChunksOnShard", Effect::Write(Scope::Collection), Place::Namespace),
    row("mergeChunks", Effect::Write(Scope::Collection), Place::Namespace),
    row("moveChunk", Effect::Write(Scope::Collection), Place::Namespace),
    row("moveCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("movePrimary", Effect::Write(Scope::Everything), Place::Database),
    row("moveRange", Effect::Write(Scope::Collection), Place::Namespace),
    row("ping", Effect::Other, Place::Database),
    row("planCacheClear", Effect::Other, Place::Collection),
    row("planCacheClearFilters", Effect::Other, Place::Collection),
    row("planCacheListFilters", Effect::Other, Place::Collection),
    row("planCacheSetFilter", Effect::Other, Place::Collection),
    row("profile", Effect::Other, Place::Database),
    row("reIndex", Effect::Write(Scope::Collection), Place::Collection),
    row("refineCollectionShardKey", Effect::Write(Scope::Collection), Place::Namespace),
    row("refreshSessions", Effect::Session, Place::Database),
    row("removeQuerySettings", Effect::Other, Place::Database),
    row("removeShard", Effect::Write(Scope::Everything), Place::Database),
    row("removeShardFromZone", Effect::Other, Place::Database),
    row("renameCollection", Effect::Write(Scope::Rename { to: "to" }), Place::Namespace),
    row("replSetAbortPrimaryCatchUp", Effect::Other, Place::Database),
    row("replSetFreeze", Effect::Other, Place::Database),
    row("replSetGetConfig", Effect::Other, Place::Database),
    row("replSetGetStatus", Effect::Other, Place::Database),
    row("replSetInitiate", Effect::Write(Scope::Everything), Place::Database),
    row("replSetMaintenance", Effect::Other, Place::Database),
    row("replSetReconfig", Effect::Write(Scope::Everything), Place::Database),
    row("replSetResizeOplog", Effect::Other, Place::Database),
    row("replSetStepDown", Effect::Write(Scope::Everything), Place::Database),
    row("replSetStepUp", Effect::Write(Scope::Everything), Place::Database),
    row("replSetSyncFrom", Effect::Other, Place::Database),
    row("reshardCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("revokePrivilegesFromRole", Effect::Write(Scope::Everything), Place::Database),
    row("revokeRolesFromRole", Effect::Write(Scope::Everything), Place::Database),
    row("revokeRolesFromUser", Effect::Write(Scope::Everything), Place::Database),
    row("rolesInfo", Effect::Other, Place::Database),
    row("rotateCertificates", Effect::Other, Place::Database),
    row("saslContinue", Effect::Authentication, Place::Database),
    row("saslStart", Effect::Authentication, Place::Database),
    row("serverStatus", Effect::Other, Place::Database),
    row("setAllowMigrations", Effect::Other, Place::Database),
    row("setClusterParameter", Effect::Write(Scope::Everything), Place::Database),
    row("setDefaultRWConcern", Effect::Write(Scope::Everything), Place::Database),
    row("setFeatureCompatibilityVersion", Effect::Write(Scope::Everything), Place::Database),
    row("setFreeMonitoring", Effect::Other, Place::Database),
    row("setIndexCommitQuorum", Effect::Other, Place::Collection),
    row("setParameter", Effect::Write(Scope::Everything), Place::Database),
    row("setProfilingFilterGlobally", Effect::Other, Place::Database),
    row("setQuerySettings", Effect::Other, Place::Database),
    row("setUserWriteBlockMode", Effect::Other, Place::Database),
    row("shardCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("shardConnPoolStats", Effect::Other, Place::Database),
    row("shardingState", Effect::Other, Place::Database),
    row("shutdown", Effect::Write(Scope::Everything), Place::Database),
    row("split", Effect::Write(Scope::Collection), Place::Namespace),
    row("startSession", Effect::Session, Place::Database),
    row("top", Effect::Other, Place::Database),
    row("transitionFromDedicatedConfigServer", Effect::Write(Scope::Everything), Place::Database),
    row("transitionToDedicatedConfigServer", Effect::Write(Scope::Everything), Place::Database),
    row("unshardCollection", Effect::Write(Scope::Collection), Place::Namespace),
    row("update", Effect::Write(Scope::Filters { list: "updates", filter: "q" }), Place::Collection),
    row("updateRole", Effect::Write(Scope::Everything), Place::Database),
    row("updateSearchIndex", Effect::Write(Scope::Collection), Place::Collection),
    row("updateUser", Effect::Write(Scope::Everything), Place::Database),
    row("updateZoneKeyRange", Effect::Other, Place::Namespace),
    row("usersInfo", Effect::Other, Place::Database),
    row("validate", Effect::Write(Scope::Collection), Place::Collection),
    row("validateDBMetadata", Effect::Other, Place::Database),
    row("whatsmyuri", Effect::Other, Place::Database),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_lookup_finds_every_row() {
        for row in TABLE {
            assert_eq!(Command::lookup(row.name), Some(row));
        }
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn names_are_case_sensitive_and_unknown_ones_are_not_found() {
        assert_eq!(Command::lookup("Find"), None);
        assert_eq!(Command::lookup(""), None);
        assert_eq!(Command::lookup("zzz"), None);
    }
}

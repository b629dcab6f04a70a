//! Names that the programs and user space share: build.rs makes a C header of them.

/// What a switch does, one bit each, in this order; [`super::rules::bits`] computes them.
pub const RULES: [&str; 19] = [
    "IS_TOR",
    "ADMITS_ALL",
    "LEARNS_SOURCES",
    "LEARNS_PROMOTIONS",
    "SENDS_LEARNING",
    "TAKES_HIT_TAG",
    "SPILLS",
    "PROMOTES",
    "INVALIDATES",
    "TIMESTAMP_VECTOR",
    "SPINES_ONLY_PROMOTE",
    "PROMOTE_WITHOUT_ACCESS_BIT",
    "CORES_FILL_EMPTY_LINES",
    "TORS_FILL_EMPTY_LINES",
    "TORS_LEARN_SOURCES_FROM_FABRIC_ONLY",
    "TORS_IGNORE_SPILLOVER",
    "ONE_TAG",
    "LEARNING_PACKET_FOR_ANY",
    "ONE_SHOT_VECTOR",
];

/// Counters of a program: name, and what is counted.
pub const COUNTS: [(&str, &str); 13] = [
    ("PACKETS", "tunnelled packets that passed"),
    ("HITS", "resolved here"),
    ("LEARNING", "learning packets generated"),
    ("INVALIDATIONS", "invalidation packets generated"),
    ("SENT", "of both, sent: not those for this switch itself"),
    ("UNSENT", "of both, without a route"),
    ("ARRIVED", "learning and invalidation packets for this switch"),
    ("INVALIDATED", "invalidation packets that passed or arrived"),
    ("MISDELIVERED", "packets returned by a server that does not have the machine"),
    ("UNKNOWN", "packets to an address that no gateway knows, dropped"),
    ("FORGED", "packets of a host with what only switches send, dropped"),
    ("MALFORMED", "packets that contradict themselves, dropped"),
    ("NO_ROOM", "packets without room for the option"),
];

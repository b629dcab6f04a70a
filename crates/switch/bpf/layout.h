// Data shared by kernel and user space. src/layout.rs is the same in Rust; both assert the sizes,
// and tests write every field on one side and read it on the other.
#pragma once
#include "kernel.h"

enum {
    KEY_BYTES_MAX = 250,      // memcached's limit; NetCache's own keys are 16 or hashed to it
    KEY_BYTES_BUFFER = 256,
    VALUE_BYTES_MAX = 1408,   // 11 units: fits a reply over IPv6 with a VLAN tag at MTU 1500
    UNIT_BYTES = 128,
    UNITS_MAX = VALUE_BYTES_MAX / UNIT_BYTES,
    PAYLOAD_BYTES_MAX = 2048, // of one segment; longer ones are not read
    LEASES_MAX = 1024,        // servers that speak NetCache's protocol
    SERVER_INTERFACES_MAX = 8,
    FLUSHES_MAX = 8,          // recorded flush_all commands with a delay
    ENTRIES_DEFAULT = 65536,
};

enum protocol { PROTOCOL_NONE = 0, PROTOCOL_NETCACHE = 1, PROTOCOL_MEMCACHE = 2 };

struct name {
    u8 bytes[16];
};

// One cached key. It may be served while valid_version == version: a write raises version with one
// atomic addition, which makes the entry invalid and gives the write its tag at the same time; only
// the value of that write makes it valid again.
//
// A get of NetCache's protocol reads only the first cache line.
struct entry {
    u64 version;
    u64 valid_version;
    struct name name;
    u8 server[16];      // IPv4 as ::ffff:a.b.c.d
    u32 place;          // position of its units
    u16 bitmap;         // register arrays that hold a unit of it
    u16 lease;          // NetCache: number of the server's lease
    u16 value_bytes;
    u16 value_sum;      // ones' complement sum of the value, so that a reply need not compute it
    u16 port;           // of the server, network order
    u8 key_bytes;
    u8 kind;            // protocol, KIND_ABSENT

    u64 epoch;          // memcached: served only in the epoch of its fill
    u64 expires_ns;     // coarse monotonic clock; no memcached item is served after it
    u64 writing;        // claimed while a value is stored
    u64 ask_from_ns;    // memcached: not requested before this time
    u8 key[KEY_BYTES_BUFFER];
    u64 leaves;         // memcached: will be removed, not requested again
    u8 unused[24];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct entry) == 384, "layout.rs");

enum { KIND_PROTOCOL = 3, KIND_ABSENT = 4 };  // NetCache: the key has no value

struct line {
    u8 bytes[64];
};

// The lookup table: a cache line for each value of the first bits of the hash, with room for 8
// keys. The word of a key is its tag and the number of its entry; 0 is empty.
enum { BUCKET_WORDS = 8 };
struct bucket {
    u64 words[BUCKET_WORDS];
};

struct slot {
    u64 words[VALUE_BYTES_MAX / 8];
};

struct unit {
    u64 words[UNIT_BYTES / 8];
};

// A flush_all that takes effect between these two times. An item that the server sent before the
// second is not served from the first on.
struct flush {
    u64 from_ns, until_ns;
};

// State for all entries; all but the last field is for memcached.
struct shared {
    u64 epoch;             // an increase drops all items: flush_all, packets not understood
    u64 fills_blocked_ns;  // no fill before this time
    u64 watched_ns;        // all segments since this time were seen; 0: none yet
    u64 datagrams;         // 1: a datagram that may be a write was seen since the maps were created
    u64 wall_ns;           // wall clock minus monotonic clock
    struct flush flushes[FLUSHES_MAX];
    u32 server_interfaces[SERVER_INTERFACES_MAX];  // for messages of agents; 0: none
};
_Static_assert(sizeof(struct shared) == 200, "layout.rs");

enum report_kind { REPORT_HOT = 1, REPORT_STALE = 2 };

struct report {
    struct name name;
    u64 hash;
    u32 kind;
    u32 estimate;
    u32 place;             // REPORT_STALE: number of the entry in `entries`
    u16 port;
    u16 key_bytes;
    u8 protocol;
    u8 unused[7];
    u8 server[16];
    u8 key[KEY_BYTES_BUFFER];
};
_Static_assert(sizeof(struct report) == 320, "layout.rs");

// A connection, or one request datagram: its number is then in the upper half of `transport`.
struct flow_key {
    u8 client[16];
    u8 server[16];
    u16 client_port;
    u16 server_port;
    u32 transport;
} __attribute__((aligned(8)));

// Instead of a time: request the key again when the reply to the write has left. Until then the
// write holds the key (holds.h).
#define ANSWERED (~0ull)
// Instead of a time: never, since no reply will come. The key is removed, and may become cached
// again.
#define LEAVES (~1ull)

// State of reading a server's replies: the first bytes of the current line, and the number in it as
// far as read.
struct heard {
    u64 word;
    u32 bytes;             // read of the line
    u32 blanks;            // in the line so far
    u32 number;
    u32 value_bytes;       // remaining before the next line
};

enum { FLOW_BITS = 15, FLOWS = 1 << FLOW_BITS, FLOW_WRITES = 16 };

// Number of unanswered requests assumed for a connection whose beginning was not seen.
enum { UNSEEN_MAX = 64 };

// The unanswered requests of a connection. Replies are numbered from 1, and come in the order of
// the requests. Ingress writes all fields except those about replies, which egress writes.
struct flow {
    struct flow_key key;
    u64 at_ns;                  // time of the last packet in either direction; 0: the place is free
    u64 asked;                  // number of the last expected reply
    u64 answered;               // number of the last reply that has left
    u64 noted;                  // last reply that a write waits for
    u64 lost;                   // last reply that a write with unknown key waits for
    u64 barrier;                // reply to an mn that was sent while no other mn was unanswered
    u32 barriers;               // number of mn sent
    u32 barriers_answered;
    u32 first, next;            // TCP sequence numbers: of its first byte, of the next one
    u32 next_answer;            // TCP sequence number of the server's next byte
    u32 writes;                 // number of writes recorded; the last FLOW_WRITES are kept
    u8 spoke, spoken;           // `next` and `next_answer` are known
    u8 unclear;                 // replies cannot be counted: each drops all items
    u8 cut;                     // the last segment ended in a command whose keys are not known
    u8 binary;                  // uses memcached's binary protocol
    u8 shared;                  // by two connections that had unanswered requests at the same time
    u8 unseen;                  // its beginning was not seen: `asked` is up to UNSEEN_MAX too high
    u8 displaced;               // a connection that waited lost this place, and may continue
    u32 flush_at, flush_read;   // state of an incomplete line that may be a flush_all
    u64 flush_from_ns;          // of a delayed flush_all without a reply so far, and its delay
    u32 flush_seconds, unused;
    struct heard heard;
    u64 until[FLOW_WRITES];     // the reply that each write waits for
    struct name names[FLOW_WRITES];
};
_Static_assert(sizeof(struct flow) == 552, "layout.rs");

// For each write of a connection that holds its key: a unique number in the upper half, and the
// number of the hold. 0: no hold. The side that sets it to 0 ends the hold.
struct holds {
    u64 of[FLOW_WRITES];
};

// Number of unanswered writes that hold a key. The number of a hold is the first bits of the key's
// name; keys may share one.
enum { HOLD_BITS = 15, HOLDS = 1 << HOLD_BITS, HOLDS_IN_LINE = 8 };
struct held {
    u64 writes[HOLDS_IN_LINE];
};

enum counter {
    COUNT_PACKETS,     // to a configured port
    COUNT_HIT,
    COUNT_MISS,        // not in the lookup table
    COUNT_INVALID,     // cached, but a write is in progress, or not filled yet
    COUNT_EXPIRED,     // the lease or lifetime has ended
    COUNT_WRITE,       // made a cached key invalid
    COUNT_UPDATE,      // values stored by update packets
    COUNT_SUPERSEDED,  // update packets older than a later write
    COUNT_FLUSH,       // all memcached items dropped
    COUNT_OPAQUE,      // to a configured port, but not understood: passed
    COUNT_TORN,        // a write arrived while the value was copied: passed
    COUNT_REPORT,
    COUNT_REPORT_LOST, // the ring buffer was full
    COUNT_ANSWERED,    // replies to writes that passed
    COUNT_NO_ROOM,     // the driver left no room after the packet for the reply: passed
    COUNT_FORGED,      // NetCache messages from a side that may not send them: dropped
    COUNTERS,
};

// Counters of one processor, and the state of its sampling.
struct processor {
    u64 drawn;
    u64 counts[COUNTERS];
};
_Static_assert(sizeof(struct processor) == 136, "layout.rs");

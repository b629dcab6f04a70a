// What kernel and user space share. src/layout.rs is the same in Rust; both assert the sizes, and
// tests write every field on one side and read it on the other.
#pragma once
#include "kernel.h"

enum {
    KEY_BYTES_MAX = 250,      // memcached's limit; NetCache's own keys are 16 or hashed to it
    KEY_BYTES_BUFFER = 256,
    VALUE_BYTES_MAX = 1408,   // 11 units: what a reply over IPv6 with a VLAN tag carries at MTU 1500
    UNIT_BYTES = 128,
    UNITS_MAX = VALUE_BYTES_MAX / UNIT_BYTES,
    PAYLOAD_BYTES_MAX = 2048, // of one segment; longer ones are not read
    LEASES_MAX = 1024,        // servers that speak NetCache's protocol
    SERVER_INTERFACES_MAX = 8,
    FLUSHES_MAX = 8,          // flush_all with a delay that may be remembered
    ENTRIES_DEFAULT = 65536,
};

enum protocol { PROTOCOL_NONE = 0, PROTOCOL_NETCACHE = 1, PROTOCOL_MEMCACHE = 2 };

struct name {
    u8 bytes[16];
};

// One cached key. It may be served while valid_version == version: a write raises version with one
// atomic addition, which makes the entry invalid and gives the write its tag at the same time; only
// the value of that very write makes it valid again.
//
// What a get of NetCache's protocol reads is the first line.
struct entry {
    u64 version;
    u64 valid_version;
    struct name name;
    u8 server[16];      // IPv4 as ::ffff:a.b.c.d
    u32 place;          // where its units are
    u16 bitmap;         // which register arrays hold a unit of it
    u16 lease;          // NetCache: which server's lease
    u16 value_bytes;
    u16 value_sum;      // ones' complement sum of the value, so that a reply needs no pass over it
    u16 port;           // of the server, network order
    u8 key_bytes;
    u8 kind;            // protocol, KIND_ABSENT

    u64 epoch;          // memcached: served only in the epoch it was filled in
    u64 expires_ns;     // by the coarse monotonic clock; no memcached item outlives it
    u64 writing;        // claimed by whoever stores a value
    u64 ask_from_ns;    // memcached: not asked for before
    u8 key[KEY_BYTES_BUFFER];
    u64 leaves;         // memcached: not asked for any more
    u8 unused[24];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct entry) == 384, "layout.rs");

enum { KIND_PROTOCOL = 3, KIND_ABSENT = 4 };  // NetCache: the value is that there is none

struct line {
    u8 bytes[64];
};

// The lookup table: a line for each value of the hash's first bits, with room for 8 keys. A key's
// word is its tag and the number of its entry; 0 is none.
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

// A flush_all that takes effect later: no sooner than the first, and no later than the second. What the
// server says of an item before the second is not served from the first on.
struct flush {
    u64 from_ns, until_ns;
};

// What holds for all entries; all but the last of memcached's.
struct shared {
    u64 epoch;             // raised by flush_all, and by whatever could not be understood
    u64 fills_blocked_ns;  // no fill before
    u64 watched_ns;        // every segment since then was seen; 0: none yet
    u64 datagrams;         // 1: one that may be a write was taken up, since the maps are there
    u64 wall_ns;           // what the wall clock is ahead of the monotonic one
    struct flush flushes[FLUSHES_MAX];
    u32 server_interfaces[SERVER_INTERFACES_MAX];  // where agents' messages come in; 0: none
};
_Static_assert(sizeof(struct shared) == 200, "layout.rs");

enum report_kind { REPORT_HOT = 1, REPORT_STALE = 2 };

struct report {
    struct name name;
    u64 hash;
    u32 kind;
    u32 estimate;
    u32 place;             // stale: of the entry in `entries`
    u16 port;
    u16 key_bytes;
    u8 protocol;
    u8 unused[7];
    u8 server[16];
    u8 key[KEY_BYTES_BUFFER];
};
_Static_assert(sizeof(struct report) == 320, "layout.rs");

// A connection; of datagrams, one request: its number is in the upper half of `transport`.
struct flow_key {
    u8 client[16];
    u8 server[16];
    u16 client_port;
    u16 server_port;
    u32 transport;
} __attribute__((aligned(8)));

// In place of a time to ask from: when the write's answer has left. Until then it holds the key (holds.h).
#define ANSWERED (~0ull)
// The same: never, since no answer will come. It leaves, and may come back.
#define LEAVES (~1ull)

// Where a server is in what it says: its line's first bytes, and what was read of the number in it.
struct heard {
    u64 word;
    u32 bytes;             // of the line
    u32 blanks;            // in it
    u32 number;
    u32 value_bytes;       // that come before the next line
};

enum { FLOW_BITS = 15, FLOWS = 1 << FLOW_BITS, FLOW_WRITES = 16 };

// Who goes on with a connection of which the beginning was not seen is taken to wait for so many answers.
enum { UNSEEN_MAX = 64 };

// What a connection asked for and has no answer to. Answers are numbered from 1, and come in the order of
// what they answer. Ingress writes all but what egress knows of the answers.
struct flow {
    struct flow_key key;
    u64 at_ns;                  // of the last packet either way; 0: nobody's
    u64 asked;                  // the last answer that is to come
    u64 answered;               // the last that has left
    u64 noted;                  // the last that a write waits for
    u64 lost;                   // the last that a write waits for of which the key is not known
    u64 barrier;                // the answer to an mn that was asked for when no other was
    u32 barriers;               // how many of them were asked for
    u32 barriers_answered;
    u32 first, next;            // sequence numbers: of the connection's first byte, of the next one
    u32 next_answer;            // of the server's next byte
    u32 writes;                 // noted since the start; the last FLOW_WRITES are kept
    u8 spoke, spoken;           // `next` and `next_answer` are known
    u8 unclear;                 // answers are not counted: each forgets everything
    u8 cut;                     // a segment ended where it was not clear what it writes
    u8 binary;                  // speaks memcached's binary protocol
    u8 shared;                  // by connections that had something to wait for at once
    u8 unseen;                  // its beginning was not: `asked` is UNSEEN_MAX too many, or fewer
    u8 displaced;               // somebody who waited lost this place, and may come back
    u32 flush_at, flush_read;   // a line that goes on with the next segment, and may be a flush_all
    u64 flush_from_ns;          // a delayed one that is not answered; its delay
    u32 flush_seconds, unused;
    struct heard heard;
    u64 until[FLOW_WRITES];     // the answer each of the writes waits for
    struct name names[FLOW_WRITES];
};
_Static_assert(sizeof(struct flow) == 552, "layout.rs");

// Of each of a connection's writes, if its key is held: a number of its own in the upper half, and the number of the
// key's hold. 0: it is not, or no more. Whoever makes it 0 ends the hold.
struct holds {
    u64 of[FLOW_WRITES];
};

// How many writes that wait hold a key; the number of a hold is of the first bits of its name. Keys may share one.
enum { HOLD_BITS = 15, HOLDS = 1 << HOLD_BITS, HOLDS_IN_LINE = 8 };
struct held {
    u64 writes[HOLDS_IN_LINE];
};

enum counter {
    COUNT_PACKETS,     // to a port of ours
    COUNT_HIT,
    COUNT_MISS,        // not in the lookup table
    COUNT_INVALID,     // there, but a write is on its way, or not filled yet
    COUNT_EXPIRED,     // lease or lifetime over
    COUNT_WRITE,       // that changed a cached key
    COUNT_UPDATE,      // values stored by update packets
    COUNT_SUPERSEDED,  // update packets a later write had overtaken
    COUNT_FLUSH,       // of everything of memcached's
    COUNT_OPAQUE,      // of ours, but not understood: passed
    COUNT_TORN,        // a write came while the value was copied: passed
    COUNT_REPORT,
    COUNT_REPORT_LOST, // the ring buffer was full
    COUNT_ANSWERED,    // answers to writes seen on their way out
    COUNT_NO_ROOM,     // the driver left no room behind the packet for a longer one: passed
    COUNT_FORGED,      // NetCache: whoever sent it may not: dropped
    COUNTERS,
};

// What one processor counts, and where its sampling is.
struct processor {
    u64 drawn;
    u64 counts[COUNTERS];
};
_Static_assert(sizeof(struct processor) == 136, "layout.rs");

// All maps, and the constants that user space sets before the programs are loaded.
#pragma once
#include "layout.h"

// Constants for the verifier, which removes branches that they rule out. Ports are in network
// order; 0 disables a protocol, except when compiled for testing.
#ifndef NETCACHE_PORT
#define NETCACHE_PORT 0
#define MEMCACHE_PORT 0
#endif
const volatile u16 netcache_port = HTONS(NETCACHE_PORT);
const volatile u16 memcache_port = HTONS(MEMCACHE_PORT);
const volatile u32 registers = 0;          // values in register arrays, not in fixed slots
const volatile u32 rows = ENTRIES_DEFAULT; // of each register array
const volatile u32 lookup_shift = 48;      // number of hash bits that do not select the bucket
const volatile u64 seed = 0;
const volatile u32 sampled_per_65536 = 65536;
const volatile u32 threshold = 128;
const volatile u32 sketch_rows = 4, sketch_bits = 16;
const volatile u32 filter_rows = 3, filter_bits = 18;
enum {
    // Time after a write without a reply until its key is requested again, and time without fills
    // after a packet that could not be interpreted: commands that passed have been applied by then.
    FILL_WAIT_NS = 50000000,
    UNCLEAR_WAIT_NS = 1000000000,
};
// A connection that continues after this time of silence has no unanswered requests.
static const u64 silent_ns = 60000000000;

#define LINES(bytes) ((bytes) / 64)

#define ARRAY(name, entries, what) \
    struct { OF_TYPE(MAP_ARRAY); OF_FLAGS(MAP_MMAPABLE); OF_ENTRIES(entries); OF_KEY(u32); OF_VALUE(what); } name MAP
ARRAY(lookup, ENTRIES_DEFAULT, struct bucket);
ARRAY(entries, ENTRIES_DEFAULT, struct entry);
ARRAY(slots, ENTRIES_DEFAULT, struct slot);
ARRAY(units, 1, struct unit);
ARRAY(leases, LEASES_MAX, u64);
ARRAY(shared, 1, struct shared);
ARRAY(counters, LINES(2 * ENTRIES_DEFAULT), struct line);
ARRAY(sketch, LINES(2 * 4 << 16), struct line);
ARRAY(filter, LINES((3 << 18) / 8), struct line);
ARRAY(flows, FLOWS, struct flow);
ARRAY(holds, FLOWS, struct holds);
ARRAY(held, HOLDS / HOLDS_IN_LINE, struct held);
#undef ARRAY

struct { OF_TYPE(MAP_RINGBUF); OF_ENTRIES(1 << 18); } reports MAP;
struct { OF_TYPE(MAP_PERCPU_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct processor); } processors MAP;

enum { LINES_MAX = 32, ITEMS_MAX = 16 };

// Working memory of one processor while it handles a packet.
struct scratch {
    u8 payload[PAYLOAD_BYTES_MAX];
    u8 payload_end[64];          // so that reading a word at the last byte stays in bounds
    u8 key[KEY_BYTES_BUFFER];
    struct report report;
    struct name name;
    struct flow_key flow_key;
    struct heard heard;
    u32 barriers_answered;
    u64 answered, barrier;       // the same fields of the flow whose reply is read
    u32 again;                   // the segment is a retransmission
    u32 gap;                     // bytes before the segment were not seen
    u32 flush_at, flush_seconds; // state of a line that may be a flush_all
    u64 hash;
    u32 payload_bytes;
    u32 key_bytes;
    u32 lines;
    u32 reply_bytes;
    u32 is_plain;                // a get that was not copied: `payload` is of an earlier packet
    u64 server_mix;              // distinguishes the names of equal keys of different servers
    u16 line[LINES_MAX];
    u32 item[ITEMS_MAX];         // entries of the keys of a get
    u64 item_version[ITEMS_MAX];
};
struct { OF_TYPE(MAP_PERCPU_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct scratch); } scratches MAP;

INLINE struct processor *this_processor(void)
{
    u32 zero = 0;
    return map_lookup(&processors, &zero);
}

// For code that needs the working memory only to count.
INLINE void count(u32 what)
{
    struct processor *self = this_processor();
    if (self)
        self->counts[what] += 1;
}

INLINE struct scratch *scratch_of_processor(void)
{
    u32 zero = 0;
    return map_lookup(&scratches, &zero);
}

// Runs another program repeatedly on the same request, for BPF_PROG_TEST_RUN: restores the request
// with the next key, then calls the program. The cost of the restoring is measured with a program
// that does nothing, and subtracted.
#include "kernel.h"
#include "operations.h"

enum {
    REQUEST_BYTES_MAX = 1152,
    OP_OFFSET = 14 + 20 + 8,
    KEY_OFFSET = OP_OFFSET + 8 + 4,
    VERSION_OFFSET = OP_OFFSET + 8 + 16,
};

struct request {
    u32 bytes;
    u32 keys;      // number of keys, a power of two
    u32 first;     // number of the first key
    u32 counter;
    u64 version;   // of the first put, if each put is followed by its update; else 0
    u8 frame[REQUEST_BYTES_MAX];
};

struct { OF_TYPE(MAP_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct request); } requests MAP;
struct { OF_TYPE(3); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(u32); } next MAP;

static long (*const tail_call)(void *context, void *programs, u32 number) = (void *)12;

SECTION("xdp") int again(struct xdp_md *context)
{
    u32 zero = 0;
    struct request *request = map_lookup(&requests, &zero);
    if (!request)
        return XDP_ABORTED;
    u64 there;
    __asm__ volatile("r1 = *(u32 *)(%1 + 0)\n%0 = *(u32 *)(%1 + 4)\n%0 -= r1"
                     : "=&r"(there) : "r"(context) : "r1");
    int delta = (int)request->bytes - (int)there;
    if (delta && xdp_adjust_tail(context, delta))
        return XDP_ABORTED;
    u8 *to, *end;
    __asm__ volatile("%0 = *(u32 *)(%1 + 0)" : "=r"(to) : "r"(context));
    __asm__ volatile("%0 = *(u32 *)(%1 + 4)" : "=r"(end) : "r"(context));
    u8 *start = to;
    u8 *from = request->frame;
    ROLLED
    for (u32 word = 0; word < REQUEST_BYTES_MAX / 8 - 1; word++) {
        if (to + 8 > end)
            break;
        *(u64 *)to = *(u64 *)from;
        to += 8;
        from += 8;
    }
    ROLLED
    for (u32 half = 0; half < 3; half++) {
        if (to + 2 > end)
            break;
        *(u16 *)to = *(u16 *)from;
        to += 2;
        from += 2;
    }
    if (request->keys && start + KEY_OFFSET + 4 <= end) {
        u32 number = (++request->counter * 2654435761u >> 7) & (request->keys - 1);
        *(u32 *)(start + KEY_OFFSET) = HTONL(number + request->first);
    }
    if (request->version && request->counter % 2 == 0 && start + VERSION_OFFSET + 8 <= end) {
        start[OP_OFFSET] = OP_UPDATE;
        *(u64 *)(start + VERSION_OFFSET) = __builtin_bswap64(request->version++);
    }
    tail_call(context, &next, 0);
    return XDP_ABORTED;
}

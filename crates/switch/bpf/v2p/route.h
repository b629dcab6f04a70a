// The next hop, by the kernel's own routes: ECMP by the outer ports where it is configured for that
// (net.ipv4.fib_multipath_hash_policy = 1).
#pragma once
#include "frame.h"

struct fib {
    u8 family, protocol;
    u16 source_port, destination_port;
    u16 bytes;
    u32 interface;
    u32 service;
    u32 source, unused_source[3];
    u32 destination, unused_destination[3];
    u16 vlan[2];
    u8 from[6], to[6];
};
_Static_assert(sizeof(struct fib) == 64, "the kernel's");

static long (*const fib_lookup)(void *context, struct fib *fib, int bytes, u32 flags) = (void *)69;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;

enum { AF_INET = 2 };

INLINE struct fib fib_of(const struct seen *seen, u32 source, u32 destination, u32 interface)
{
    return (struct fib){
        .family = AF_INET,
        .protocol = seen->protocol,
        .source_port = seen->source_port,
        .destination_port = seen->destination_port,
        .bytes = seen->bytes,
        .interface = interface,
        .source = source,
        .destination = destination,
    };
}

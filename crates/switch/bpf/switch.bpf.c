// The data plane: answers requests for cached keys, counts those for others, and passes everything
// else.
//
// Newest kernel features used, all in 5.15: atomic fetch-and-add and compare-and-swap (5.12),
// coarse clock (5.11), ring buffer and growing a packet (5.8), functions verified separately (5.6),
// mapped arrays (5.5).
#include "memcache.h"
#include "netcache.h"

SECTION("xdp") int serve(struct xdp_md *context)
{
    struct packet packet = {0};
    enum parsed parsed = parse(start_of(context), end_of(context), &packet);
    if (LIKELY(parsed == NOT_OURS))
        return XDP_PASS;
    if (parsed == UNCLEAR) {
        // It may be a write to memcached. For a NetCache write without a tag the agent requests
        // one.
        if (memcache_port && (!packet.destination || packet.destination == memcache_port))
            hidden(context, &packet);
        return XDP_PASS;
    }
    if (netcache_port && packet.destination == netcache_port && packet.transport == IP_UDP)
        return netcache(context, &packet);
    if (memcache_port && packet.destination == memcache_port)
        return memcache(context, &packet);
    return XDP_PASS;
}

enum { HEADERS_BYTES = 128 };

// Handles replies on egress: invalidates the keys that the connection has written once more, so
// that no value stored between the passing of a write and its application is served after its
// reply.
SECTION("classifier") int answered(struct __sk_buff *context)
{
    u32 wanted = context->len < HEADERS_BYTES ? context->len : HEADERS_BYTES;
    if (start_of_skb(context) + wanted > end_of_skb(context))
        skb_pull_data(context, wanted);
    struct packet packet = {0};
    struct scratch *scratch = scratch_of_processor();
    if (!scratch || parse(start_of_skb(context), end_of_skb(context), &packet) == NOT_OURS)
        return TC_ACT_OK;
    if (memcache_port && packet.source == memcache_port && packet.payload)
        answer(context, scratch, &packet);
    return TC_ACT_OK;
}

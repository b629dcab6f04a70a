// The data plane: answers what is cached, counts what is not, lets everything else pass.
//
// Newest kernel features used, all in 5.15: coarse clock (5.11), atomic fetch-and-add and
// compare-and-swap (5.12), ring buffer (5.8), growing a packet (5.8), mapped arrays (5.5).
#include "netcache.h"

SECTION("xdp") int serve(struct xdp_md *context)
{
    void *start = start_of(context), *end = end_of(context);
    struct packet packet = {0};
    enum parsed parsed = parse(start, end, &packet);
    if (parsed == NOT_OURS)
        return XDP_PASS;
    if (netcache_port && packet.destination == netcache_port && parsed == PARSED
        && packet.transport == IP_UDP)
        return netcache(context, &packet);
    return XDP_PASS;
}

SECTION("classifier") int answered(struct __sk_buff *context)
{
    (void)context;
    return TC_ACT_OK;
}

// policy::v2p::Switch, function by function; tests/v2p_switch_is_the_policys.rs compares every step
// of both. The behaviour of a role is in `rules`, which user space computes from Table 1.
#pragma once
#include "cache.h"
#include "header.h"

static u64 (*const now_ns)(void) = (void *)5;
static u32 (*const random_u32)(void) = (void *)7;

enum emit { EMIT_NOTHING, EMIT_LEARNING, EMIT_INVALIDATION };

struct outcome {
    u32 hit, emit, vip, pip, culprit;
};

INLINE void spill(struct header *header, u64 evicted)
{
    if (evicted && has(RULE_SPILLS)) {
        header->tag_vip = vip_of(evicted);
        header->tag_pip = pip_of(evicted);
        header->promotion = 0;
    }
}

INLINE int admits(const u64 *line, u32 vip)
{
    return has(RULE_ADMITS_ALL) || !cache_accessed(line) || cache_holds(line, vip);
}

INLINE void announce(struct outcome *outcome, u32 vip, u32 pip, int known)
{
    int wanted = has(RULE_SENDS_LEARNING) && (!known || has(RULE_LEARNING_PACKET_FOR_ANY));
    if (wanted && random_u32() <= learn_max) {
        outcome->emit = EMIT_LEARNING;
        outcome->vip = vip;
        outcome->pip = pip;
    }
}

INLINE void take_spilled(struct header *header)
{
    if (!header->tag_pip || header->promotion)
        return;
    u64 *line = line_of(header->tag_vip);
    if (line && !cache_accessed(line)) {
        u32 vip = header->tag_vip, pip = header->tag_pip;
        header->tag_vip = header->tag_pip = 0;
        spill(header, cache_put(line, vip, pip));
    }
}

INLINE void learn_at_tor(struct header *header, u64 *line)
{
    if (!has(RULE_TORS_IGNORE_SPILLOVER))
        take_spilled(header);
    if (header->from_fabric || !has(RULE_TORS_LEARN_SOURCES_FROM_FABRIC_ONLY)) {
        u64 *source = line_of(header->source_vip);
        if (!source)
            return;
        u64 evicted = cache_put(source, header->source_vip, header->source_pip);
        if (!has(RULE_TORS_IGNORE_SPILLOVER))
            spill(header, evicted);
    } else if (header->resolved && has(RULE_TORS_FILL_EMPTY_LINES)) {
        cache_put_if_free(line, header->destination_vip, header->destination_pip);
    }
}

INLINE void learn_destination(struct header *header, struct outcome *outcome, u64 *line)
{
    if (!header->resolved)
        return;
    u32 vip = header->destination_vip, pip = header->destination_pip;
    u64 is = READ_ONCE(*line);
    int known = line_holds(is, vip) && pip_of(is) == pip;
    if (!known && admits(line, vip))
        spill(header, cache_put(line, vip, pip));
    announce(outcome, vip, pip, known);
}

INLINE void learn_promotion(struct header *header)
{
    if (!header->promotion)
        return;
    u32 vip = header->tag_vip, pip = header->tag_pip;
    header->tag_vip = header->tag_pip = header->promotion = 0;
    u64 *line = line_of(vip);
    if (line && admits(line, vip))
        spill(header, cache_put(line, vip, pip));
}

INLINE void learn_at_core_as_published(struct header *header, u64 *line)
{
    if (!header->tag_pip) {
        if (header->resolved && has(RULE_CORES_FILL_EMPTY_LINES))
            cache_put_if_free(line, header->destination_vip, header->destination_pip);
        return;
    }
    u32 vip = header->tag_vip, pip = header->tag_pip;
    if (vip == header->destination_vip && !cache_accessed(line) && !cache_holds(line, vip)) {
        header->tag_vip = header->tag_pip = 0;
        spill(header, cache_put(line, vip, pip));
    }
}

INLINE void learn_tag_or_destination(struct header *header, struct outcome *outcome, u64 *line)
{
    u32 vip = header->destination_vip, pip = header->destination_pip;
    if (header->tag_pip) {
        vip = header->tag_vip;
        pip = header->tag_pip;
        line = line_of(vip);
    } else if (!header->resolved) {
        return;
    }
    if (!line || !admits(line, vip))
        return;
    u64 is = READ_ONCE(*line);
    announce(outcome, vip, pip, line_holds(is, vip) && pip_of(is) == pip);
    header->tag_vip = header->tag_pip = 0;
    spill(header, cache_put(line, vip, pip));
}

INLINE void learn(struct header *header, struct outcome *outcome, u64 *line)
{
    if (has(RULE_LEARNS_SOURCES)) {
        learn_at_tor(header, line);
    } else if (has(RULE_LEARNS_PROMOTIONS)) {
        if (has(RULE_ONE_TAG))
            learn_at_core_as_published(header, line);
        else
            learn_promotion(header);
    } else if (has(RULE_ONE_TAG)) {
        learn_tag_or_destination(header, outcome, line);
    } else {
        take_spilled(header);
        learn_destination(header, outcome, line);
    }
}

INLINE void promote(struct header *header, u32 pip)
{
    header->tag_vip = header->destination_vip;
    header->tag_pip = pip;
    header->promotion = 1;
}

INLINE int promote_unresolved(struct header *header, u64 *line)
{
    if (header->resolved)
        return 0;
    int in_use = cache_accessed(line);
    u32 pip = cache_get(line, header->destination_vip);
    if (!pip)
        return 0;
    if (in_use || has(RULE_PROMOTE_WITHOUT_ACCESS_BIT))
        promote(header, pip);
    return 1;
}

INLINE void resolve(struct header *header, struct outcome *outcome, u64 *line)
{
    int in_use = cache_accessed(line);
    u32 pip = cache_get(line, header->destination_vip);
    if (!pip)
        return;
    header->destination_pip = pip;
    header->resolved = outcome->hit = 1;
    header->hit = own_id + 1;
    int leaves_pod = pip < pod_first || pip >= pod_end;
    if (has(RULE_PROMOTES) && !has(RULE_SPINES_ONLY_PROMOTE) && leaves_pod
        && (in_use || has(RULE_PROMOTE_WITHOUT_ACCESS_BIT)))
        promote(header, pip);
}

// The timestamp vector: whether `culprit` may be sent another invalidation packet.
INLINE int due(u32 culprit)
{
    if (!has(RULE_TIMESTAMP_VECTOR))
        return 1;
    u64 *last = map_lookup(&vector, &culprit);
    if (!last)
        return 0;
    u64 was = READ_ONCE(*last), now = now_ns() + 1;
    int is_due = !was || (!has(RULE_ONE_SHOT_VECTOR) && now - was >= base_rtt_ns);
    if (is_due)
        WRITE_ONCE(*last, now);
    return is_due;
}

INLINE void correct(struct header *header, struct outcome *outcome, u64 *line)
{
    u32 vip = header->destination_vip, stale = header->misdelivered_from;
    u32 pip = cache_get(line, vip);
    if (pip == stale) {
        cache_invalidate(line, vip, stale);
    } else if (pip) {
        header->destination_pip = pip;
        header->resolved = 1;
    }
    if (!has(RULE_TAKES_HIT_TAG) || !header->hit)
        return;
    u32 culprit = header->hit - 1;
    header->hit = 0;
    if (has(RULE_INVALIDATES) && due(culprit)) {
        outcome->emit = EMIT_INVALIDATION;
        outcome->vip = vip;
        outcome->pip = stale;
        outcome->culprit = culprit;
    }
}

INLINE void process(struct header *header, struct outcome *outcome)
{
    u64 *line = line_of(header->destination_vip);
    if (!line)
        return;
    if (header->misdelivered_from) {
        correct(header, outcome, line);
        return;
    }
    if (has(RULE_PROMOTES) && has(RULE_SPINES_ONLY_PROMOTE) && promote_unresolved(header, line))
        return;
    learn(header, outcome, line);
    if (!header->resolved)
        resolve(header, outcome, line);
}

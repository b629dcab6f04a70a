// The maps of a SwitchV2P switch.
#pragma once
#include "config.h"

enum { ADDRESSES_MAX = 65536, VECTOR_MAX = 65535, WITHOUT_PREALLOCATION = 1 };
// The relation of an address to this switch.
enum { ADDRESS_GATEWAY = 1, ADDRESS_ATTACHED = 2 };

// The server or gateway at each interface of this ToR, by interface index; 0: none.
struct port {
    u32 address;
    u32 is_gateway;
};

// A line: virtual address in the low bits, physical address above it, access bit on top.
struct { OF_TYPE(MAP_ARRAY); OF_FLAGS(MAP_MMAPABLE); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(u64); } lines MAP;
struct { OF_TYPE(MAP_ARRAY); OF_FLAGS(MAP_MMAPABLE); OF_ENTRIES(VECTOR_MAX); OF_KEY(u32); OF_VALUE(u64); } vector MAP;
struct { OF_TYPE(MAP_HASH); OF_FLAGS(WITHOUT_PREALLOCATION); OF_ENTRIES(ADDRESSES_MAX); OF_KEY(u32); OF_VALUE(u32); } addresses MAP;
struct { OF_TYPE(MAP_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct port); } ports MAP;

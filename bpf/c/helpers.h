// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// What libbpf's headers would give, as far as it is used: map declarations, the
// helpers by their number in the kernel's interface, CO-RE reads.

#pragma once

#include "kernel.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

// Members of a map declaration: the loader reads their types from BTF.
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name

enum {
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_probe_read_kernel)(void *dst, __u32 size, const void *from) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *dst, __u32 size, const void *from) = (void *)115;
static void *(*const bpf_ringbuf_reserve)(void *ringbuf, __u64 size, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;

// READ copies a field of a kernel structure. Unlike a plain access it takes any
// address, not only one that the verifier followed from the tracepoint's arguments;
// a bad one reads as zero.
#define READ(src, field)                                                                   \
	({                                                                                 \
		typeof((src)->field) __v;                                                  \
		bpf_probe_read_kernel(&__v, sizeof(__v),                                   \
				      __builtin_preserve_access_index(&(src)->field));     \
		__v;                                                                       \
	})

// Keeps the compiler from tracing a value back to its origin, so that the bound
// just put on it stays in the register that the verifier looks at.
#define OPAQUE(x) asm volatile("" : "+r"(x))

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// What goes through the ring buffer.

#pragma once

#include "kernel.h"

// Longest name of a cgroup with its NUL (NAME_MAX + 1).
#define NAME_SIZE 256
// Room for the names of one record. A pod's container takes about 200 bytes,
// inside a nested node (kind, minikube) about 400.
#define NAMES_SIZE 1024
// Names sent at most. kind nests eight deep; of more, the ones at the root are
// left out.
#define NAMES_MAX 12

enum kind {
	KIND_STARTED = 1,
	KIND_EXITED = 2,
	KIND_EMPTY = 3,
};

// The names travel with every record, also with an exit: user space keeps no table
// that could be lost or grow, and can name a cgroup which is gone already.
struct record {
	__u64 ktime; // CLOCK_MONOTONIC, ns
	__u64 cgroup;
	__u32 hierarchy;
	__u32 tgid; // 0 for KIND_EMPTY
	enum kind kind;
	__u16 names_len;
	__u16 names_count;
	// The container's cgroup, then its ancestors without the root, each ended by a
	// NUL. The room of one more name lets the verifier see that a write at any
	// offset below NAMES_SIZE stays inside.
	char names[NAMES_SIZE + NAME_SIZE];
};

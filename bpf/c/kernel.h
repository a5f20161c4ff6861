// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// The few kernel structures the probe reads, each with no more than the fields it
// reads. preserve_access_index makes every access a CO-RE relocation: the loader
// puts in the offset which the running kernel's BTF gives, so order, size and
// neighbours do not matter here. What all kernels from 5.10 on share was chosen over
// shorter ways that they do not: the parent of a cgroup through self.parent,
// because kernfs_node.parent is __parent in newer kernels and cgroup.ancestors was
// ancestor_ids in older ones.

#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	// Inode number of the directory, v1 and v2, never used again for another
	// directory of the same hierarchy (64-bit kernels).
	__u64 id;
	const char *name;
};

struct cgroup_root {
	// 0 is the v2 hierarchy; others as in /proc/PID/cgroup.
	int hierarchy_id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	// Threads that have not begun to exit.
	atomic_t live;
};

struct mnt_namespace;

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct task_struct {
	int tgid;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct nsproxy *nsproxy;
};

#pragma clang attribute pop

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// Which container does a cgroup belong to?

#pragma once

#include "helpers.h"
#include "record.h"

// Levels looked at from a process's cgroup upwards. A container's own cgroup is at
// most a few below: crun makes one level, systemd inside of a container three or four.
#define WALK_MAX 12

#define ID_LEN 64
#define SCOPE_LEN 6  // ".scope"
#define CONMON_LEN 7 // "conmon-"

// A cgroup of any hierarchy: ids are unique in one hierarchy only.
struct cgroup_key {
	__u64 id;
	__u32 hierarchy;
	__u32 pad;
};

// The id of the container's cgroup each cgroup belongs to, 0 for none, so that
// a process costs one look-up instead of the walk. A cgroup's name and parent never
// change (only v1 can rename, and no runtime does) and ids are not used again,
// so nothing has to be taken out; the LRU does when room is needed.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct cgroup_key);
	__type(value, __u64);
} verdicts SEC(".maps");

// Eight characters at a time: are all of [0-9a-f]?
INLINE bool hex8(__u64 w)
{
	const __u64 ones = 0x0101010101010101ULL, high = 0x8080808080808080ULL;
	__u64 digit, letter;

	if (w & high)
		return false;
	// The high bit of a byte says: not below the first, and not above the last.
	digit = (w + ones * (0x80 - '0')) & ~(w + ones * (0x7f - '9'));
	letter = (w + ones * (0x80 - 'a')) & ~(w + ones * (0x7f - 'f'));
	return ((digit | letter) & high) == high;
}

INLINE bool equal(const char *a, const char *b, int len)
{
	for (int i = 0; i < len; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

// A container's cgroup is named by 64 hexadecimal digits, alone (cgroupfs driver),
// after a runtime's prefix and '-' (systemd driver: cri-containerd-ID.scope) or
// after ':' (slice:prefix:ID, a systemd path taken literally by the cgroupfs driver).
// conmon, the monitor of CRI-O and podman, has a scope of its own with the same id and is
// no container. User space parses the names again and may be stricter.
INLINE bool is_container(struct kernfs_node *kn)
{
	char name[NAME_SIZE], scope[SCOPE_LEN], before[CONMON_LEN];
	const char *from = READ(kn, name);
	__u64 id[ID_LEN / 8];
	long len;

	len = bpf_probe_read_kernel_str(name, sizeof(name), from) - 1; // without the NUL
	if (len < ID_LEN)
		return false;
	if (len >= ID_LEN + SCOPE_LEN) {
		if (bpf_probe_read_kernel(scope, sizeof(scope), from + len - SCOPE_LEN))
			return false;
		if (equal(scope, ".scope", SCOPE_LEN))
			len -= SCOPE_LEN;
	}
	if (bpf_probe_read_kernel(id, sizeof(id), from + len - ID_LEN))
		return false;
	for (int i = 0; i < ID_LEN / 8; i++)
		if (!hex8(id[i]))
			return false;
	if (len == ID_LEN)
		return true;
	if (bpf_probe_read_kernel(before, 1, from + len - ID_LEN - 1))
		return false;
	if (before[0] != '-' && before[0] != ':')
		return false;
	if (len < ID_LEN + CONMON_LEN)
		return true;
	if (bpf_probe_read_kernel(before, sizeof(before), from + len - ID_LEN - CONMON_LEN))
		return false;
	return !equal(before, "conmon-", CONMON_LEN);
}

INLINE struct cgroup *parent_of(struct cgroup *cgroup)
{
	struct cgroup_subsys_state *up = READ(cgroup, self.parent);

	return up ? READ(up, cgroup) : NULL;
}

// The innermost container's cgroup from cgroup upwards, 0 if there is none.
NOINLINE __u64 walk(struct cgroup *cgroup)
{
	for (int i = 0; i < WALK_MAX && cgroup; i++) {
		struct kernfs_node *kn = READ(cgroup, kn);

		if (is_container(kn))
			return READ(kn, id);
		cgroup = parent_of(cgroup);
	}
	return 0;
}

INLINE __u64 container_above(struct cgroup *cgroup, const struct cgroup_key *key)
{
	__u64 *known = bpf_map_lookup_elem(&verdicts, key), id;

	if (known)
		return *known;
	id = walk(cgroup);
	bpf_map_update_elem(&verdicts, key, &id, BPF_ANY);
	return id;
}

// Puts the names from the container's cgroup to the root into the record.
NOINLINE int add_names(struct record *rec, struct cgroup *cgroup)
{
	__u32 used = 0, count = 0;
	bool inside = false;

	for (int i = 0; i < WALK_MAX + NAMES_MAX && cgroup && count < NAMES_MAX; i++) {
		struct kernfs_node *kn = READ(cgroup, kn);
		struct cgroup *up = parent_of(cgroup);
		long len;

		if (!up)
			break;
		if (READ(kn, id) == rec->cgroup)
			inside = true;
		cgroup = up;
		if (!inside)
			continue;
		OPAQUE(used);
		if (used >= NAMES_SIZE)
			break;
		len = bpf_probe_read_kernel_str(rec->names + used, NAME_SIZE, READ(kn, name));
		if (len <= 0)
			break;
		used += len;
		count++;
	}
	rec->names_len = used;
	rec->names_count = count;
	return 0;
}

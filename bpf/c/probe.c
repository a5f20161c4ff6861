// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//
// Tells the start and the end of each container's workload, and nothing else.
//
// The workload of a container is the first process that execs in its cgroup (or below),
// whose parent is outside of the cgroup, because the runtime made it, and which has
// another mount namespace than this parent, as every container has whatever else it
// shares with the host. That leaves out
//
//   - the first stage of `runc init`, which is moved into the cgroup when its exec is nearly
//     done, so that the exec may be seen in the cgroup (it was, under load; runc before
//     1.2 execs twice, which makes it likelier): it still
//     has its parent's mounts. Stages end inside the cgroup before the workload begins;
//   - OCI startContainer hooks, which exec in the cgroup before the workload as children of
//     `runc init`;
//   - exec probes and `kubectl exec`, whose parent is outside as well, but which
//     come while the workload lives;
//   - whatever the workload itself starts.
//
// "PID 1 of its namespace" would be wrong: pods with hostPID or with a shared
// namespace have workloads that are not.
//
// While the remembered process lives it stays; an exec by itself (sh -c "exec …")
// changes nothing. Should it end, a later exec of the kind above takes its place: so
// a runtime whose stages deceive the rule costs two needless hints, not the real end.
//
// "The first" needs a container that was seen from its beginning, when its cgroup got its
// first process. Of one that is older than the probe, and that user space did not put in
// (it could not, or the entry was evicted), no exec says anything: only the end is told, when
// the cgroup empties. The price: one that got its `runc init` just before the probe was
// attached, and was not put in, has no start.
//
// Only tp_btf programs are used: they attach where kprobes are off, they get the
// kernel's own structures, which classic tracepoints' layouts hide (and these
// changed in 6.16 and 6.18), and the verifier checks their reads instead of a helper.

#include "container.h"
#include "helpers.h"
#include "record.h"

char _license[] SEC("license") = "Dual BSD/GPL";

// Set by the loader. With both, as on a hybrid host, v2 comes first, and a process that
// is in no container there is looked for in v1: most runtimes use both, some only v1.
const volatile bool use_v2 = true;
// Index of a v1 controller in css_set.subsys, or -1, and the number of its hierarchy.
const volatile __s32 v1_subsys = -1;
const volatile __u32 v1_hierarchy = 0;

// Records that found no room, and containers that could not be remembered.
__u64 lost;

// In nanoseconds: when a cgroup empties less than this after its workload's end was told, it
// is the same end.
const volatile __u64 same_end = 1000000000;

enum state {
	STATE_RUNNING = 0,
	// Put in by user space, which can't tell a container that was only created (`runc init`
	// waits for the start) from one that runs: the same process may exec its workload yet.
	STATE_SEEDED = 1,
	STATE_ENDED = 2,
	// The cgroup got its first process, and no workload execed yet.
	STATE_FRESH = 3,
};

struct workload {
	__u32 tgid;
	enum state state;
	__u64 ended; // when STATE_ENDED came, by bpf_ktime_get_ns
};

// The workload of each container, by the container's cgroup. An entry comes when the cgroup
// gets its first process, or from user space, and goes when it empties; LRU because a missed
// end must not fill the map for good. A live container whose entry was evicted has its last
// process's end told instead of its workload's, as one that was never put in.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct cgroup_key);
	__type(value, struct workload);
} workloads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
	__type(value, struct record);
} records SEC(".maps");

// Where a process is: its container's cgroup, and its own at or below that.
struct place {
	struct cgroup_key container;
	struct cgroup *cgroup;
};

INLINE bool find_v2(struct task_struct *task, struct place *at)
{
	// Plain accesses, which the verifier follows from the tracepoint's argument: every
	// exec and exit on the host pays for these, and a helper costs ten times as much.
	struct cgroup *cgroup = task->cgroups->dfl_cgrp;
	struct cgroup_key key = {.id = cgroup->kn->id};

	at->cgroup = cgroup;
	at->container = key;
	at->container.id = container_above(cgroup, &key);
	return at->container.id != 0;
}

INLINE bool find_v1(struct task_struct *task, struct place *at)
{
	// The index is not known when this is compiled, so the address is made by hand.
	const void *subsys = __builtin_preserve_access_index(&task->cgroups->subsys[0]);
	struct cgroup_subsys_state *css;
	struct cgroup *cgroup;
	struct kernfs_node *kn;
	struct cgroup_key key = {.hierarchy = v1_hierarchy};

	if (bpf_probe_read_kernel(&css, sizeof(css), subsys + v1_subsys * sizeof(css)) || !css)
		return false;
	cgroup = READ(css, cgroup);
	kn = READ(cgroup, kn);
	key.id = READ(kn, id);

	at->cgroup = cgroup;
	at->container = key;
	at->container.id = container_above(cgroup, &key);
	return at->container.id != 0;
}

INLINE bool find_container(struct task_struct *task, struct place *at)
{
	if (use_v2 && find_v2(task, at))
		return true;
	return v1_subsys >= 0 && find_v1(task, at);
}

// True for what an OCI runtime starts in a container's cgroup to become the container, or to run
// in it: not for its own helpers, nor for what is started from inside.
INLINE bool made_by_runtime(struct task_struct *task, const struct place *at)
{
	struct task_struct *maker = task->real_parent;
	struct place there;

	if (task->nsproxy->mnt_ns == maker->nsproxy->mnt_ns)
		return false;
	return !find_container(maker, &there) || there.container.id != at->container.id ||
	       there.container.hierarchy != at->container.hierarchy;
}

INLINE void count_lost(void)
{
	__sync_fetch_and_add(&lost, 1);
}

INLINE void tell(enum kind kind, const struct place *at, __u32 tgid)
{
	struct record *rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);

	if (!rec) {
		count_lost();
		return;
	}
	rec->ktime = bpf_ktime_get_ns();
	rec->cgroup = at->container.id;
	rec->hierarchy = at->container.hierarchy;
	rec->tgid = tgid;
	rec->kind = kind;
	add_names(rec, at->cgroup);
	bpf_ringbuf_submit(rec, 0);
}

SEC("tp_btf/sched_process_exec")
int on_exec(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct workload *known, running = {.state = STATE_RUNNING};
	struct place at;

	if (!find_container(task, &at))
		return 0;
	known = bpf_map_lookup_elem(&workloads, &at.container);
	if (!known)
		return 0; // this may be anything, a workload or an exec probe
	// An exec by another thread than the leader has taken over the leader's ids by now,
	// so the tgid holds for the life of the process.
	running.tgid = task->tgid;
	if (known->state == STATE_SEEDED && known->tgid == running.tgid) {
		known->state = STATE_RUNNING;
		tell(KIND_STARTED, &at, running.tgid);
		return 0;
	}
	if (known->state == STATE_RUNNING || known->state == STATE_SEEDED)
		return 0;
	if (!made_by_runtime(task, &at))
		return 0;

	// Not in place: an entry evicted at this moment may be another container's by now. Then
	// this fails, and the emptying of the cgroup will tell the end.
	if (bpf_map_update_elem(&workloads, &at.container, &running, BPF_EXIST))
		count_lost();
	tell(KIND_STARTED, &at, running.tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct workload *known;
	struct place at;
	__u32 tgid;

	// Every thread comes by here, and a leader may end long before the others: the
	// process ends with its last one, which need not be the leader. The tgid names
	// the process whichever thread this is. Two threads that end at the same time may
	// both see 0; kernels from 6.16 on pass the answer as an argument, older do not.
	if (task->signal->live.counter > 0)
		return 0;
	if (!find_container(task, &at))
		return 0;
	known = bpf_map_lookup_elem(&workloads, &at.container);
	tgid = task->tgid;
	if (!known || known->state == STATE_ENDED || known->state == STATE_FRESH || known->tgid != tgid)
		return 0;
	// Not atomic, because 5.10 has no compare-and-exchange: in the case above the end may
	// be told twice, which is harmless.
	known->ended = bpf_ktime_get_ns();
	known->state = STATE_ENDED;
	tell(KIND_EXITED, &at, tgid);
	return 0;
}

// A container's cgroup got its first process or lost its last one. With the first one it is known
// to be young, so that its next suitable exec is the workload's; the hierarchies of v1 tell
// this as well, though they have no cgroup.events.
//
// When the last one goes, mostly the workload's end was told a moment before, and this
// only forgets the entry. It is told when that was not so: the container is older than the probe
// or was evicted, or the workload never execed (restored by CRIU), failed to (no such
// program), or left the cgroup. Nor does an end that was told long ago count, because it
// may have been that of a `kubectl exec` in a container whose workload never execed; what this
// costs is a needless hint when a child survives its workload. Another is told on a hybrid
// host for a container that is in both hierarchies and older than the probe: v1 has no entry of it,
// and can't tell it from one that is in v1 alone.
// A surviving child may keep the cgroup populated for long: so this can't replace on_exit.
SEC("tp_btf/cgroup_notify_populated")
int on_populated(__u64 *ctx)
{
	// From the argument: since 7.x this may run long after the last process, in the idle task.
	struct cgroup *cgroup = (void *)ctx[0];
	int populated = (int)ctx[2];
	struct workload *known, fresh = {.state = STATE_FRESH};
	struct place at = {.cgroup = cgroup};
	bool told = false;

	// Each hierarchy tells for itself.
	at.container.hierarchy = cgroup->root->hierarchy_id;
	if (!(use_v2 && at.container.hierarchy == 0) &&
	    !(v1_subsys >= 0 && at.container.hierarchy == v1_hierarchy))
		return 0;
	if (!is_container(cgroup->kn))
		return 0;
	at.container.id = cgroup->kn->id;
	if (populated) {
		// What is known stays: it may have been put in by user space a moment ago.
		if (bpf_map_update_elem(&workloads, &at.container, &fresh, BPF_NOEXIST) &&
		    !bpf_map_lookup_elem(&workloads, &at.container))
			count_lost();
		return 0;
	}
	known = bpf_map_lookup_elem(&workloads, &at.container);
	if (known && known->state == STATE_ENDED)
		told = bpf_ktime_get_ns() - known->ended < same_end;
	else if (known && known->state == STATE_FRESH)
		// On a hybrid host most containers are in both, and v2 has the workload.
		told = use_v2 && at.container.hierarchy != 0;
	bpf_map_delete_elem(&workloads, &at.container);
	if (!told)
		tell(KIND_EMPTY, &at, 0);
	return 0;
}

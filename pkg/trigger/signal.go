package trigger

import (
	"context"
	"errors"
	"time"
)

// SourceName names a source of signals, as in the --triggers flag and the
// metrics' source label.
type SourceName string

// The sources this project has.
const (
	SourceCgroup SourceName = "cgroup"
	SourceEBPF   SourceName = "ebpf"
	SourceCRI    SourceName = "cri"
)

// Kind says what a signal announces.
type Kind string

// The kinds of signal.
const (
	// KindCreated: the runtime says that it has made the container.
	KindCreated Kind = "created"
	// KindStarted: the container's workload began to run.
	KindStarted Kind = "started"
	// KindExited: the container's workload, or its last process, ended.
	KindExited Kind = "exited"
	// KindCgroupAdded: a pod's or container's cgroup appeared.
	KindCgroupAdded Kind = "cgroup-added"
	// KindCgroupRemoved: a pod's or container's cgroup went.
	KindCgroupRemoved Kind = "cgroup-removed"
	// KindRemoved: the runtime says that it holds the container no more.
	KindRemoved Kind = "removed"
	// KindChanged: the runtime says that something changed, but not what.
	KindChanged Kind = "changed"
	// KindLost: signals were lost (a queue overflowed, a stream broke): anything
	// may have changed.
	KindLost Kind = "lost"
)

// Signal is a hint that it is worth looking at a pod now. It is never the source
// of an event. All fields but Source, Kind and At may be empty.
type Signal struct {
	Source SourceName
	Kind   Kind
	PodUID string
	// ContainerID may also be a sandbox's ID: its cgroup looks the same.
	ContainerID string
	// CgroupID is the inode number of the cgroup's directory, which is the
	// kernel's ID of the cgroup.
	CgroupID uint64
	// Foreign says that nothing about the cgroup's path tells of a CRI runtime: the
	// container may well be docker's or podman's, and never be listed.
	Foreign bool
	// At is when it happened, as near as the source can tell. It carries Go's
	// monotonic reading, so that differences survive a step of the wall clock.
	At time.Time
}

// Sink takes what a source has to say. Its methods never block and may be called
// from any goroutine.
type Sink interface {
	// Signal hands a signal over.
	Signal(Signal)
	// Up says that the source works from now on, until its Run returns.
	Up()
}

// Source watches one thing and turns what it sees into signals.
//
// Run watches until ctx ends and then returns nil, or until the source can't go
// on and then returns why. It leaves nothing behind: no goroutine, watch or
// descriptor. It may be called again after it returned. An error that wraps
// [ErrUnsupported] says that this host or runtime lacks what the source needs,
// so that trying again soon is pointless; after any other it is called again
// with backoff.
type Source interface {
	Name() SourceName
	Run(ctx context.Context, sink Sink) error
}

// ErrUnsupported marks an error of [Source.Run] as one that will last.
var ErrUnsupported = errors.New("not supported here")

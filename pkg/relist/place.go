package relist

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Place is where the kernel keeps a running container; see [event.Status].
type Place struct {
	CgroupPath string
	CgroupID   uint64
}

// Locate asks the kernel for the cgroup of a container that pid is said to be the
// first process of. ok is false if it is not, or not any more. It must be quick, and
// safe for concurrent use.
type Locate func(pid int, podUID, containerID string) (at Place, ok bool)

// answer is what the runtime, and for a running container the kernel, say of a
// container.
type answer struct {
	status *runtimeapi.ContainerStatus
	pid    int // 0: not known
	place  Place
}

// locate adds to an answer what the verbose part of the runtime's leads to.
func (e *Engine) locate(a *answer, id string, info map[string]string) {
	pid := infoPid(info["info"])
	if pid <= 0 {
		return
	}
	if at, ok := e.opts.Locate(pid, e.store.PodOf(id), id); ok {
		at.CgroupPath = validText(at.CgroupPath)
		a.pid, a.place = pid, at
	}
}

// infoPid reads the pid from the JSON that containerd and CRI-O put under "info"
// into the verbose part of a status. Most of that is the container's specification;
// the pid comes before it, and what follows is not read.
func infoPid(info string) int {
	dec := json.NewDecoder(strings.NewReader(info))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return 0
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0
		}
		if key == "pid" {
			var pid int
			if dec.Decode(&pid) != nil {
				return 0
			}
			return pid
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return 0
		}
	}
	return 0
}

// starts remembers what was told of containers at their start and can't be found
// out any more at their end. It is kept in the order of telling, not in that of
// listing: a removal is listed before the end is told.
type starts struct {
	mu sync.Mutex
	of map[string]*event.Status
}

// keep remembers what was told of a container that started, if it is of use.
func (s *starts) keep(id string, told *event.Status) {
	if told == nil || told.Pid == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]*event.Status)
	}
	s.of[id] = told
}

func (s *starts) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// complete returns st with what was told at the container's start; with st nil,
// that alone.
func (s *starts) complete(id string, st *event.Status) *event.Status {
	s.mu.Lock()
	at := s.of[id]
	s.mu.Unlock()
	switch {
	case at == nil:
		return st
	case st == nil:
		return at
	}
	out := *st
	out.Pid, out.CgroupPath, out.CgroupID = at.Pid, at.CgroupPath, at.CgroupID
	return &out
}

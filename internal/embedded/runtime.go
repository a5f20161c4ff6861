package embedded

import (
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is a container runtime in memory. Its methods are safe for use by
// several goroutines. Close it when done.
//
// The methods with a request and a response are the CRI's, subject to [Faults]
// and counted by [Runtime.Calls]; the others are neither.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	log    *slog.Logger
	faults *Faults
	calls  calls
	events hub

	// op serialises everything that happens to pods and containers, the calls of
	// the mirror included. Who lists never waits for it, and so never for a disk.
	op      sync.Mutex
	rng     *rand.Rand
	lag     Lag
	mirror  Mirror
	account func(id string, what Moment)
	number  uint64
	pid     int
	parents map[string]int // sandboxes in each parent cgroup
	names   map[string]*sandbox

	// mu guards what the CRI shows. It is written with op held as well, so that a
	// holder of op may read without it.
	mu         sync.RWMutex
	sandboxes  table[*sandbox]
	containers table[*container]

	version   string
	done      chan struct{}
	closeOnce sync.Once
}

// New makes a runtime that holds nothing yet.
func New(o Options) *Runtime {
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	r := &Runtime{
		log:        o.Logger,
		rng:        rand.New(rand.NewPCG(seed, 0)),
		lag:        o.Lag.withDefaults(),
		mirror:     o.Mirror,
		account:    o.Account,
		pid:        1000,
		parents:    map[string]int{},
		names:      map[string]*sandbox{},
		sandboxes:  newTable[*sandbox]("pod sandbox"),
		containers: newTable[*container]("container"),
		version:    o.Version,
		done:       make(chan struct{}),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.mirror == nil {
		r.mirror = noMirror{}
	}
	if r.version == "" {
		r.version = "0.0.0"
	}
	r.faults = newFaults(r.done)
	r.calls.init()
	r.events.init(o.EventBuffer)
	return r
}

// Close ends everything that is under way: timers, waiting calls, event
// streams. After it nothing happens any more, and calls of the CRI fail with
// Unavailable. It is safe to call it again.
func (r *Runtime) Close() error {
	r.closeOnce.Do(func() {
		close(r.done)
		r.events.close(errClosed())
		r.op.Lock()
		defer r.op.Unlock()
		for _, s := range r.sandboxes.order {
			s.drop()
		}
		for _, c := range r.containers.order {
			c.drop()
			c.stopLife()
		}
	})
	return nil
}

// Done is closed when the runtime is.
func (r *Runtime) Done() <-chan struct{} { return r.done }

// SetLag changes how far the CRI is behind the kernel, for what happens from now
// on.
func (r *Runtime) SetLag(l Lag) {
	r.op.Lock()
	defer r.op.Unlock()
	r.lag = l.withDefaults()
}

// Faults is where faults are switched on and off.
func (r *Runtime) Faults() *Faults { return r.faults }

// Counts says how many sandboxes and containers the runtime holds, in whatever
// state, and how many containers truly run.
func (r *Runtime) Counts() (sandboxes, containers, running int) {
	r.op.Lock()
	defer r.op.Unlock()
	for _, c := range r.containers.order {
		if c.phase == phaseRunning {
			running++
		}
	}
	return len(r.sandboxes.order), len(r.containers.order), running
}

func (r *Runtime) isClosed() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func errClosed() error {
	return status.Error(codes.Unavailable, "the embedded runtime was closed")
}

// phase is what is true of a container or sandbox, as its cgroup would show. The
// CRI's states follow it.
type phase int

const (
	phaseCreated phase = iota
	phaseRunning
	phaseExited
)

// idLength is that of a full ID: 64 hexadecimal digits, as all runtimes have.
const idLength = 64

func (r *Runtime) newID() (id string, number uint64) {
	var b [idLength / 2]byte
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	r.number++
	return hex.EncodeToString(b[:]), r.number
}

func (r *Runtime) newPid() int {
	r.pid++
	return r.pid
}

func (r *Runtime) draw(d Delay) time.Duration {
	return max(d(r.rng), 0)
}

// mirrored logs what the mirror could not do.
func (r *Runtime) mirrored(err error) {
	if err != nil {
		r.log.Warn("the mirror of the cgroups is no longer complete", "err", err)
	}
}

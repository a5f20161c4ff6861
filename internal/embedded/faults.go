package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Fault is something that goes wrong with calls of the CRI. Its parts take effect
// in the order of the fields. [Server.Stop], [Runtime.MarkUnknown],
// [Runtime.SetState] and [Runtime.Vanish] are the faults that are not of a call.
type Fault struct {
	// Method is the CRI's name of the call that it befalls, "ListContainers"; ""
	// befalls all.
	Method string
	// ID restricts it to calls about that container or sandbox: those that name
	// it, also in a list's filter; Mangle, to the items with that ID. "" is no
	// restriction. It is a full ID.
	ID string
	// Times is how many calls it befalls before it is spent; 0 is no limit. An
	// open stream counts when it is ended by Err or End.
	Times int

	// Delay holds up the call, or each event of a stream.
	Delay time.Duration
	// Hang holds up the call or the open streams until the fault is removed or the
	// caller gives up.
	Hang bool
	// Err fails the call, and ends open streams. Make it with grpc/status.
	Err error
	// Midway lets a streamed list give its first part before Err fails it.
	Midway bool
	// End ends open streams, and each new one at once, without an error: CRI-O does
	// that with pod events disabled.
	End bool
	// Mangle damages the answer: of the list calls (streamed or not), of
	// ContainerStatus and PodSandboxStatus, or the events of a stream.
	Mangle Mangle
}

// Faults holds the faults that are switched on in a [Runtime]. Its methods are
// safe for use by several goroutines, while calls are under way, which notice.
type Faults struct {
	done <-chan struct{}

	mu      sync.Mutex
	rules   []*rule
	changed chan struct{}
}

type rule struct {
	Fault
	left int
	gone chan struct{}
}

func newFaults(done <-chan struct{}) *Faults {
	return &Faults{done: done, changed: make(chan struct{})}
}

// Add switches a fault on, also for streams that are open. The function that it
// returns switches it off and lets go the calls that hang by it; calling that
// again does nothing. Add panics if the CRI has no such method.
func (f *Faults) Add(fault Fault) (remove func()) {
	if fault.Method != "" {
		mustBeMethod(fault.Method)
	}
	added := &rule{Fault: fault, left: fault.Times, gone: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, added)
	f.tell()
	return func() { f.remove(func(r *rule) bool { return r == added }) }
}

// Clear switches all faults off.
func (f *Faults) Clear() {
	f.remove(func(*rule) bool { return true })
}

func (f *Faults) remove(which func(*rule) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool {
		if !which(r) {
			return false
		}
		close(r.gone)
		return true
	})
	f.tell()
}

func (f *Faults) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (r *rule) spent() bool { return r.Times > 0 && r.left <= 0 }

// take uses up one of the rule's times. Faults.mu is held.
func (r *rule) take() {
	if r.Times > 0 {
		r.left--
	}
}

// befalls says whether the rule is for this call as a whole.
func (r *rule) befalls(method string, ids []string) bool {
	return !r.spent() && (r.Method == "" || r.Method == method) && (r.ID == "" || slices.Contains(ids, r.ID))
}

// damage is what the faults want done to an answer.
type damage struct {
	mangles []mangle
	midway  error
}

// enter lets a call suffer. Its context ending, it fails as gRPC does.
func (f *Faults) enter(ctx context.Context, method string, ids []string) (damage, error) {
	var d damage
	var suffered []*rule
	f.mu.Lock()
	for _, r := range f.rules {
		whole := r.befalls(method, ids)
		// Of a list, one item may be damaged though the call does not name it.
		item := r.Mangle != 0 && isList(method) && r.befalls(method, []string{r.ID})
		if !whole && !item {
			continue
		}
		r.take()
		if r.Mangle != 0 {
			d.mangles = append(d.mangles, mangle{r.ID, r.Mangle})
		}
		if whole {
			suffered = append(suffered, r)
		}
	}
	f.mu.Unlock()
	for _, r := range suffered {
		if r.Delay > 0 {
			if err := pause(ctx, r.Delay, f.done, r.gone); err != nil {
				return d, err
			}
		}
		if r.Hang {
			if err := pause(ctx, -1, f.done, r.gone); err != nil {
				return d, err
			}
		}
		switch {
		case r.Err == nil:
		case r.Midway && strings.HasPrefix(method, "Stream"):
			d.midway = r.Err
		default:
			return d, r.Err
		}
	}
	if err := ctx.Err(); err != nil {
		return d, status.FromContextError(err).Err()
	}
	return d, nil
}

// pause waits for d, for ever if that is negative, or until gone is closed.
func pause(ctx context.Context, d time.Duration, done, gone <-chan struct{}) error {
	var c <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		c = t.C
	}
	select {
	case <-c:
	case <-gone:
	case <-done:
		return errClosed()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

// streamFate is what the faults hold for a stream at this moment.
type streamFate struct {
	delay   time.Duration
	hang    bool
	end     bool
	err     error
	mangles []mangle
	// changed is closed when this may no longer be so.
	changed <-chan struct{}
}

func (f *Faults) stream(method string) streamFate {
	f.mu.Lock()
	defer f.mu.Unlock()
	fate := streamFate{changed: f.changed}
	for _, r := range f.rules {
		if r.spent() || r.Method != "" && r.Method != method {
			continue
		}
		if r.Mangle != 0 {
			fate.mangles = append(fate.mangles, mangle{r.ID, r.Mangle})
		}
		if r.ID != "" {
			continue
		}
		fate.delay += r.Delay
		if r.Hang {
			fate.hang = true
			break
		}
		if r.Err != nil || r.End {
			r.take()
			fate.err, fate.end = r.Err, true
			break
		}
	}
	return fate
}

// mustBeMethod panics on a name that the CRI does not have: a test with a fault
// that can never happen would pass for the wrong reason.
func mustBeMethod(name string) {
	for _, service := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		if slices.ContainsFunc(service.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == name }) ||
			slices.ContainsFunc(service.Streams, func(s grpc.StreamDesc) bool { return s.StreamName == name }) {
			return
		}
	}
	panic(fmt.Sprintf("embedded: the CRI has no method %q", name))
}

func isList(method string) bool {
	return strings.HasPrefix(method, "List") || strings.HasPrefix(method, "Stream")
}

package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
)

// Backend is what is served. Its methods are called from many goroutines.
type Backend interface {
	Watch(merge.WatchOptions) (*merge.Watcher, error)
	Snapshot() merge.Snapshot
	Stats() merge.Stats
	// Healthy is nil, or says what is wrong.
	Healthy() error
	Sources() []trigger.SourceStatus
	// RelistPeriod is the pause between relists of everything that now holds.
	RelistPeriod() time.Duration
	Runtime() Runtime
}

// Runtime names the container runtime. All but the endpoint is empty until the
// runtime has answered.
type Runtime struct {
	Endpoint   string `json:"endpoint"`
	Name       string `json:"name,omitempty"`
	Version    string `json:"version,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// StateDirectory is where the daemon keeps its state.
type StateDirectory struct {
	Path string `json:"path"`
	// Problem says why nothing is written; empty while all is well.
	Problem string `json:"problem,omitempty"`
}

// Options configures a [Server]. Backend is required.
type Options struct {
	Backend Backend
	Limits  Limits
	// Version is the program's.
	Version string
	// State tells of the state directory; nil: there is none.
	State func() StateDirectory
	// Registerer takes the metrics; nil: there are none.
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Limits bound what clients can take. 0 stands for the default.
type Limits struct {
	// Watchers is how many watches may be open at once.
	Watchers int
	// WatcherBuffer is how many bytes the kernel is asked to hold at most for a client
	// that does not read. gRPC itself adds up to 64 KiB a watch and net/http 6 KiB a
	// connection. What does not fit waits in the journal, and when that has gone on
	// without it, the watcher gets Expired.
	WatcherBuffer int
	// MessageSize bounds a gRPC message to a client, in bytes. One from a client is
	// bounded by it too, and by 1 MiB besides.
	MessageSize int
	// RequestsPerSecond bounds the requests and new watches of all clients together;
	// up to a second's worth may come at once.
	RequestsPerSecond float64
}

// The defaults and bounds of [Limits].
const (
	DefaultWatchers          = 1000
	DefaultWatcherBuffer     = 64 << 10
	DefaultMessageSize       = 4 << 20 // what gRPC clients take unless told otherwise
	DefaultRequestsPerSecond = 500

	maxWatchers      = 100_000
	minWatcherBuffer = 4 << 10
	maxWatcherBuffer = 16 << 20
	minMessageSize   = 64 << 10
	maxMessageSize   = 256 << 20

	maxRequestsPerSecond = 1_000_000
)

// ErrLimits marks the error for limits out of bounds.
var ErrLimits = errors.New("limit out of bounds")

// LimitError says which limit is out of bounds. It wraps [ErrLimits].
type LimitError struct {
	// Limit is the name of a field of [Limits].
	Limit string
	// Want says what it may be.
	Want string
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s: give %s", e.Limit, e.Want) }

// Unwrap returns [ErrLimits].
func (e *LimitError) Unwrap() error { return ErrLimits }

// Complete fills in the defaults and checks the limits. The error is a [LimitError].
func (l Limits) Complete() (Limits, error) {
	if l.Watchers == 0 {
		l.Watchers = DefaultWatchers
	}
	if l.WatcherBuffer == 0 {
		l.WatcherBuffer = DefaultWatcherBuffer
	}
	if l.MessageSize == 0 {
		l.MessageSize = DefaultMessageSize
	}
	if l.RequestsPerSecond == 0 {
		l.RequestsPerSecond = DefaultRequestsPerSecond
	}
	return l, l.Check()
}

// Check refuses limits out of bounds, with 0 for none of them. The error is a
// [LimitError].
func (l Limits) Check() error {
	for _, bound := range []struct {
		name               string
		value, least, most int
	}{
		{"Watchers", l.Watchers, 1, maxWatchers},
		{"WatcherBuffer", l.WatcherBuffer, minWatcherBuffer, maxWatcherBuffer},
		{"MessageSize", l.MessageSize, minMessageSize, maxMessageSize},
	} {
		if bound.value < bound.least || bound.value > bound.most {
			return &LimitError{bound.name, fmt.Sprintf("%d to %d, not %d", bound.least, bound.most, bound.value)}
		}
	}
	// Written so that NaN is refused as well.
	if within := l.RequestsPerSecond >= 1 && l.RequestsPerSecond <= maxRequestsPerSecond; !within {
		return &LimitError{"RequestsPerSecond", fmt.Sprintf("1 to %d, not %g", maxRequestsPerSecond, l.RequestsPerSecond)}
	}
	return nil
}

package pleg

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cri"
	"github.com/prometheus/client_golang/prometheus"
)

// Runtime is what a generator needs of a CRI runtime. [relist.Client] has it, and
// so has k8s.io/cri-client's RuntimeService.
type Runtime interface {
	relist.Runtime
	cri.Runtime
}

// The periods that hold where none is given.
const (
	DefaultRelistPeriod         = 10 * time.Second
	DefaultRelistPeriodDegraded = time.Second
)

// Options configures a [Generator]. Either Endpoint or Runtime is required; the
// zero value of everything else works.
type Options struct {
	// Endpoint is the runtime's CRI socket, as unix:///path. The generator connects
	// when the runtime is there, and again when it was away.
	Endpoint string
	// Runtime is used instead of an endpoint. The generator does not close it.
	Runtime Runtime

	// Triggers are the sources of signals to use: nil for all of them, an empty
	// slice for none.
	Triggers []trigger.SourceName
	// Sources are further sources of the program's own, each with a name of its own,
	// or, where one has the name of a trigger, a replacement for it.
	Sources []trigger.Source
	// CgroupRoot is the directory that the cgroup source watches. Empty: wherever
	// containers are found in the host's cgroup tree.
	CgroupRoot string

	// RelistPeriod is the time from the end of one relist of everything to the
	// start of the next while every trigger works; RelistPeriodDegraded while one is
	// down, has lost signals, or a periodic relist finds what no signal announced.
	// 0 means 10 seconds and one second. Without triggers RelistPeriod holds.
	RelistPeriod, RelistPeriodDegraded time.Duration
	// EarlyRelistRate bounds the early relists a second; those that keep the runtime
	// busy for long count more than once. 0 means 100.
	EarlyRelistRate float64
	// ListTimeout, StatusDeadline and HealthThreshold are explained at
	// [relist.Options].
	ListTimeout, StatusDeadline, HealthThreshold time.Duration

	// Epoch names this start in tokens and events; empty means a random name, which
	// it must be with a StateDir.
	Epoch string
	// StateDir is a directory of this generator's own, in which it keeps what it has
	// told, so that the next one started with it goes on from there: what changed
	// meanwhile is told, found by startup; what did not change is not told again;
	// tokens of before resume. It is made if need be. While it can't be written to, the
	// state is in memory only: see [Generator.StateProblem]. Empty: nothing is kept.
	StateDir string
	// JournalEvents and JournalBytes bound what is kept for watchers that are
	// behind; 0 means 16,384 events and 16 MiB.
	JournalEvents int
	JournalBytes  int64

	// OnEvent is called for each event, in order, when watchers can see it. It must be
	// quick, and must not call the generator.
	OnEvent func(*event.Event)
	// Registerer takes the metrics; nil: there are none.
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// AllTriggers are the triggers there are, in the order in which they are named.
func AllTriggers() []trigger.SourceName {
	return []trigger.SourceName{trigger.SourceCgroup, trigger.SourceEBPF, trigger.SourceCRI}
}

// ErrOptions marks an error of [New] that comes from unusable options.
var ErrOptions = errors.New("unusable options")

// complete checks the options and fills in what is not given.
func (o Options) complete() (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("%w: %w", ErrOptions, fmt.Errorf(format, args...))
	}
	switch {
	case o.Endpoint == "" && o.Runtime == nil:
		return bad("Endpoint or Runtime is required")
	case o.Endpoint != "" && o.Runtime != nil:
		return bad("Endpoint and Runtime exclude each other")
	case o.RelistPeriod < 0, o.RelistPeriodDegraded < 0:
		return bad("a relist period must be above 0")
	case o.Epoch != "" && o.StateDir != "":
		return bad("Epoch and StateDir exclude each other: with a state, each start has an epoch of its own")
	case o.EarlyRelistRate < 0, math.IsNaN(o.EarlyRelistRate):
		return bad("EarlyRelistRate must be above 0")
	case o.ListTimeout < 0, o.StatusDeadline < 0, o.HealthThreshold < 0:
		return bad("ListTimeout, StatusDeadline and HealthThreshold must be above 0")
	}
	if o.Triggers == nil {
		o.Triggers = AllTriggers()
	}
	for i, name := range o.Triggers {
		if !slices.Contains(AllTriggers(), name) {
			return bad("unknown trigger %q; there are %s", name, joinNames(AllTriggers()))
		}
		if slices.Contains(o.Triggers[:i], name) {
			return bad("trigger %q is named twice", name)
		}
	}
	for i, src := range o.Sources {
		if src == nil || !labelValue(string(src.Name())) {
			return bad("source %d has no name that could be a metric's label", i)
		}
		if slices.ContainsFunc(o.Sources[:i], func(other trigger.Source) bool { return other.Name() == src.Name() }) {
			return bad("two sources have the name %q", src.Name())
		}
	}
	if o.RelistPeriod == 0 {
		o.RelistPeriod = DefaultRelistPeriod
	}
	if o.RelistPeriodDegraded == 0 {
		o.RelistPeriodDegraded = DefaultRelistPeriodDegraded
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// labelValue reports whether a name can be a metric's label, and read in a log.
func labelValue(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func joinNames(names []trigger.SourceName) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/endpoint"
	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// Options are the settings of [Run], in the form in which a user writes them:
// one a command line flag.
type Options struct {
	RuntimeEndpoint      string
	Triggers             []string
	CgroupRoot           string
	RelistPeriod         time.Duration
	RelistPeriodDegraded time.Duration
	Output               string
	HTTP                 string // empty: no server
	LogLevel             string
	Agents
	StateDir string // empty: nothing is kept
	// JournalEvents and JournalBytes bound what is kept for watchers that are behind.
	JournalEvents int
	JournalBytes  int64

	// Stdout takes the events, Stderr the log.
	Stdout, Stderr *os.File
	Getenv         func(string) string
}

// DefaultHTTP is where metrics and health are served.
const DefaultHTTP = "127.0.0.1:9753"

// NoTriggers is the word for no trigger at all.
const NoTriggers = "none"

// ErrUsage marks an error that comes from unusable settings.
var ErrUsage = errors.New("usage")

// usageError marks an error without adding to what it says.
type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{ErrUsage, e.error} }

func usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// settings are options that have been checked.
type settings struct {
	Options
	choice   endpoint.Choice
	triggers []trigger.SourceName
	format   output.Format
	socket   string // for agents; empty: none
	group    int    // of the socket; -1: as it is
	log      *slog.Logger
}

// check refuses what can't work, before anything is started.
func (o Options) check(ctx context.Context) (*settings, error) {
	s := &settings{Options: o}
	var err error
	if s.log, err = newLogger(o.Stderr, o.LogLevel, o.Getenv); err != nil {
		return nil, err
	}
	if s.format, err = output.ParseFormat(o.Output); err != nil {
		return nil, usage("--output: %w", err)
	}
	if s.choice, err = (endpoint.Resolver{Getenv: o.Getenv}).Resolve(ctx, o.RuntimeEndpoint); err != nil {
		return nil, usage("--runtime-endpoint: %w", err)
	}
	if s.triggers, err = parseTriggers(o.Triggers); err != nil {
		return nil, err
	}
	if err := checkPeriod("--relist-period", o.RelistPeriod); err != nil {
		return nil, err
	}
	if err := checkPeriod("--relist-period-degraded", o.RelistPeriodDegraded); err != nil {
		return nil, err
	}
	if o.CgroupRoot != "" {
		if info, err := os.Stat(o.CgroupRoot); err != nil {
			return nil, usage("--cgroup-root: %w", err)
		} else if !info.IsDir() {
			return nil, usage("--cgroup-root: %s is not a directory", o.CgroupRoot)
		}
	}
	if err := checkHTTP(o.HTTP); err != nil {
		return nil, err
	}
	if err := checkJournal(o.JournalEvents, o.JournalBytes); err != nil {
		return nil, err
	}
	return s, s.checkAgents()
}

// checkJournal keeps a slip from taking the memory, or from leaving watchers none.
func checkJournal(events int, bytes int64) error {
	const (
		leastEvents, mostEvents = 16, 10_000_000
		leastBytes, mostBytes   = 64 << 10, 16 << 30
	)
	switch {
	case events < leastEvents || events > mostEvents:
		return usage("--journal-events: give %d to %d, not %d", leastEvents, mostEvents, events)
	case bytes < leastBytes || bytes > mostBytes:
		return usage("--journal-bytes: give %d to %d, not %d", leastBytes, mostBytes, bytes)
	}
	return nil
}

// leastPeriod keeps a slip of the unit (10 for 10s is refused by itself, but 10ns
// or 10us are not) from taking the runtime down.
const leastPeriod = 10 * time.Millisecond

func checkPeriod(flag string, d time.Duration) error {
	switch {
	case d <= 0:
		return usage("%s: %s is no period: give one above 0, such as 10s", flag, d)
	case d < leastPeriod:
		return usage("%s: %s is too short: the runtime needs about a millisecond for 300 containers; give at least %s", flag, d, leastPeriod)
	}
	return nil
}

// checkHTTP refuses what is no address, and addresses that others can reach:
// metrics tell which pods a node runs, and nothing here asks who wants to know.
func checkHTTP(addr string) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return usage("--http: %q is no address: give host:port, such as %s, or \"\" for no server", addr, DefaultHTTP)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usage("--http: %q is reachable from outside, and nothing here asks who may read it: give a loopback address such as %s, and put a proxy in front of it", addr, DefaultHTTP)
}

func parseTriggers(words []string) ([]trigger.SourceName, error) {
	out := []trigger.SourceName{}
	for _, word := range words {
		word = strings.TrimSpace(word)
		if word == NoTriggers && len(words) == 1 {
			return out, nil
		}
		known := false
		for _, name := range pleg.AllTriggers() {
			known = known || word == string(name)
		}
		switch {
		case word == NoTriggers:
			return nil, usage("--triggers: none can't be combined with others")
		case !known:
			return nil, usage("--triggers: there is no trigger %q: give some of cgroup, ebpf, cri, separated by commas, or none", word)
		}
		for _, have := range out {
			if string(have) == word {
				return nil, usage("--triggers: %s is named twice", word)
			}
		}
		out = append(out, trigger.SourceName(word))
	}
	if len(out) == 0 {
		return nil, usage("--triggers: give some of cgroup, ebpf, cri, separated by commas, or none")
	}
	return out, nil
}

// newLogger writes for people on a terminal and key=value lines elsewhere.
func newLogger(w *os.File, level string, getenv func(string) string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level: there is no level %q: give debug, info, warn or error", level)
	}
	if term.IsTerminal(int(w.Fd())) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: l, TimeFormat: "15:04:05.000", NoColor: !output.Coloured(getenv),
		})), nil
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

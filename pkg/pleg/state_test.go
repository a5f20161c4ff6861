package pleg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/state"
)

// restart ends the generator and returns what it told; run starts the next one.
func (s *stage) restart() []event.Event {
	s.t.Helper()
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.events
	s.events = nil
	return told
}

// TestRestartTellsWhatChangedMeanwhile lets containers begin, end and go while no
// generator runs.
func TestRestartTellsWhatChangedMeanwhile(t *testing.T) {
	for name, triggers := range map[string]func(*pleg.Options){
		"none": func(o *pleg.Options) { o.Triggers = noTriggers; o.RelistPeriod = 20 * time.Millisecond },
		"all":  func(o *pleg.Options) { o.Triggers = allTriggers },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			s := newStage(t)
			dir := filepath.Join(t.TempDir(), "state")
			with := func(o *pleg.Options) { triggers(o); o.StateDir = dir }
			s.run(with)
			s.relisted()
			sandbox, config := s.pod("job")
			stays := s.container(sandbox, config, "stays", 0, "run")
			ends := s.container(sandbox, config, "ends", 0, "run")
			goes := s.container(sandbox, config, "goes", 0, "run")
			over := s.container(sandbox, config, "over", 0, "exit", "0")
			gone, gonesConfig := s.pod("gone")
			inGone := s.container(gone, gonesConfig, "main", 0, "run")
			for _, id := range []string{stays, ends, goes, inGone} {
				s.await(id, event.ContainerStarted)
			}
			s.await(over, event.ContainerDied)
			token := s.g.Snapshot().Token
			before := s.restart()

			check(t, s.rt.Exit(ends, 7, ""))
			check(t, s.rt.Exit(goes, 0, ""))
			_, err := s.rt.Wait(ctx, goes)
			check(t, err)
			_, err = s.rt.Wait(ctx, ends)
			check(t, err)
			check(t, s.rt.Remove(ctx, goes))
			check(t, s.rt.RemovePod(ctx, gone))
			begins := s.container(sandbox, config, "begins", 0, "run")

			s.run(with)
			s.await(begins, event.ContainerStarted)
			s.await(gone, event.SandboxRemoved)
			s.await(goes, event.ContainerRemoved)
			died := s.await(ends, event.ContainerDied)
			if died.Status == nil || died.Status.ExitCode == nil || *died.Status.ExitCode != 7 {
				t.Errorf("no details: %+v", died)
			}
			s.relisted()
			told := slices.DeleteFunc(s.told(), func(e event.Event) bool { return e.Type == event.PodSync })
			for _, e := range told {
				if e.Detection.FoundBy != event.FoundStartup {
					t.Errorf("%s is found by %s", e.ID, e.Detection.FoundBy)
				}
				if slices.ContainsFunc(before, func(b event.Event) bool { return b.ID == e.ID }) {
					t.Errorf("%s is told again", e.ID)
				}
			}
			for id, want := range map[string][]event.Type{
				stays: nil, over: nil, sandbox: nil,
				ends:   {event.ContainerDied},
				goes:   {event.ContainerDied, event.ContainerRemoved},
				begins: {event.ContainerStarted},
				gone:   {event.SandboxDied, event.SandboxRemoved},
				inGone: {event.ContainerDied, event.ContainerRemoved},
			} {
				if got := eventtest.OfItem(told, id); !slices.Equal(got, want) {
					t.Errorf("of %.12s %v was told, want %v", id, got, want)
				}
			}

			// The token of before resumes with all that, and nothing else.
			w, err := s.g.Watch(merge.WatchOptions{Since: token})
			check(t, err)
			defer w.Close()
			sequence := token.Sequence
			for item, err := range w.All(ctx) {
				check(t, err)
				if item.Kind == merge.ItemSynced {
					break
				}
				sequence++
				if item.Kind != merge.ItemEvent || item.Event.Sequence != sequence {
					t.Fatalf("after %s: %s %+v", token, item.Kind, item.Event)
				}
			}
			if head := s.g.Snapshot().Token.Sequence; sequence != head || sequence == token.Sequence {
				t.Errorf("it resumes to %d of %d", sequence, head)
			}
			until(t, "it is written", func() bool { return s.metric("state_writes_total", "ok") > 0 })
			if n := s.metric("state_writes_total", "error"); n != 0 {
				t.Errorf("%v bad writes were counted", n)
			}
			if s.metric("state_healthy") != 1 || s.metric("state_bytes") == 0 || s.metric("state_write_duration_seconds") == 0 || s.g.StateProblem() != "" {
				t.Errorf("the state is said not to be kept: %s", s.g.StateProblem())
			}
		})
	}
}

// TestRestartWithARuntimeThatListsLess: a runtime that was restarted as well does not
// list a running container at first, and its cgroup shows that it runs.
func TestRestartWithARuntimeThatListsLess(t *testing.T) {
	s := newStage(t)
	dir := t.TempDir()
	with := func(o *pleg.Options) { o.Triggers, o.StateDir = onlyCgroup, dir }
	s.run(with)
	sandbox, config := s.pod("p")
	id := s.container(sandbox, config, "main", 0, "run")
	s.await(id, event.ContainerStarted)
	s.restart()
	check(t, s.rt.Vanish(id))
	check(t, s.rt.Vanish(sandbox))
	s.run(with)
	s.relisted()
	if s.metric("list_anomalies_total", "missing_but_alive") == 0 {
		t.Fatal("the runtime lists everything: nothing is tried")
	}
	check(t, s.rt.Reappear(id))
	check(t, s.rt.Reappear(sandbox))
	s.relisted()
	if told := s.told(); len(told) != 0 {
		t.Errorf("told %s", strings.Join(describe(told), "\n"))
	}
}

// TestStateThatCannotBeUsed: each case is an error that says so, or none.
func TestStateThatCannotBeUsed(t *testing.T) {
	s := newStage(t)
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "state.db"), []byte("something else"), 0o600))
	s.run(func(o *pleg.Options) { o.StateDir = dir })
	s.relisted()
	if n := s.count("moved aside", "foreign"); n != 1 {
		t.Errorf("the log says %d times that the file was moved aside", n)
	}
	opts := pleg.Options{Endpoint: s.server.Endpoint(), StateDir: dir}
	if _, err := pleg.New(opts); !errors.Is(err, state.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second generator gets %v", err)
	}
	s.stop()
	opts.Epoch = "e"
	if _, err := pleg.New(opts); !errors.Is(err, pleg.ErrOptions) {
		t.Errorf("an epoch of one's own: %v", err)
	}
	// What fails after the directory was taken frees it.
	opts.Epoch, opts.Endpoint = "", "tcp://nowhere"
	if _, err := pleg.New(opts); err == nil || errors.Is(err, state.ErrInUse) {
		t.Errorf("a wrong endpoint: %v", err)
	}
	s.run(func(o *pleg.Options) { o.StateDir = dir })
	s.relisted()
}

package view

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

func watchOptions(o Options) WatchOptions { return WatchOptions{Options: o} }

func TestWatchNDJSON(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{Epoch: "e"})
	b.Tell(event.ContainerStarted, "p1", "c1")
	stop := daemontest.Start(t, path, b)
	opts, r := options(t, path, "auto") // a pipe is no terminal
	o := watchOptions(opts)
	o.TokenFile = filepath.Join(t.TempDir(), "token")
	end := begin(t, func(ctx context.Context) error { return Watch(ctx, o) })
	out := read(t, r)
	out.expect(`\{"reset":\{\}\}`, `\{"pod":\{.*"c1".*\}\}`, `\{"synced":\{\},"token":"e-1"\}`)
	b.Tell(event.ContainerDied, "p1", "c1")
	out.expect(`\{"event":\{.*"id":"c1/ContainerDied".*\},"token":"e-2"\}`)
	token := func() string {
		data, err := os.ReadFile(o.TokenFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(data)
	}
	until(t, "the token is stored", func() bool { return token() == "e-2\n" })

	// The daemon is restarted, and the stream goes on.
	stop()
	b.Tell(event.ContainerRemoved, "p1", "c1")
	stop = daemontest.Start(t, path, b)
	out.expect(`\{"event":\{.*"id":"c1/ContainerRemoved".*\},"token":"e-3"\}`)
	if errs := errFile(t, o.Options); !strings.Contains(errs, "no connection to hybrid-pleg") || !strings.Contains(errs, "connected to hybrid-pleg") {
		t.Errorf("the log is %s", errs)
	}
	until(t, "the token is stored", func() bool { return token() == "e-3\n" })
	if err := end(); err != nil {
		t.Errorf("it ended with %v", err)
	}

	// Another one goes on where it was.
	b.Tell(event.ContainerStarted, "p1", "c2")
	end = begin(t, func(ctx context.Context) error { return Watch(ctx, o) })
	out.expect(`\{"event":\{.*"id":"c2/ContainerStarted".*\},"token":"e-4"\}`, `\{"synced":\{\},"token":"e-4"\}`)
	if err := end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(o.TokenFile))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the token there is %v, %v", entries, err)
	}
	stop()
}

func TestWatchForms(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{Epoch: "e"})
	b.Tell(event.ContainerStarted, "p1", "c1")
	daemontest.Start(t, path, b)

	opts, r := options(t, path, "table")
	end := begin(t, func(ctx context.Context) error { return Watch(ctx, watchOptions(opts)) })
	until(t, "it watches", func() bool { return b.Stats().Watchers == 1 })
	b.Tell(event.ContainerStarted, "p1", "c2")
	read(t, r).expect(`\d\d:\d\d:\d\d\.\d{3}  ● started       ns/name-p1/main +c2 .*`)
	if err := end(); err != nil {
		t.Error(err)
	}

	// Else the one that ended may be taken for the next.
	until(t, "nobody watches", func() bool { return b.Stats().Watchers == 0 })
	opts, r = options(t, path, "json")
	o := watchOptions(opts)
	o.NoSnapshot, o.Types, o.Subject = true, []string{"ContainerDied"}, "container"
	end = begin(t, func(ctx context.Context) error { return Watch(ctx, o) })
	until(t, "it watches", func() bool { return b.Stats().Watchers == 1 })
	b.Tell(event.ContainerStarted, "p1", "c3")
	b.Tell(event.ContainerDied, "p1", "c3")
	dec := json.NewDecoder(r)
	var l line
	if err := dec.Decode(&l); err != nil || l.Event == nil || l.Event.ID != "c3/ContainerDied" || l.Reset != nil {
		t.Errorf("%+v, %v", l, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestReaderGone has a reader that goes, as head does.
func TestReaderGone(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	b.Tell(event.ContainerStarted, "p1", "c1")
	daemontest.Start(t, path, b)
	opts, r := options(t, path, "ndjson")
	r.Close()
	if err := Watch(t.Context(), watchOptions(opts)); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestStuckReader has one that reads nothing: the end does not wait for it.
func TestStuckReader(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	daemontest.Start(t, path, b)
	opts, r := options(t, path, "ndjson")
	end := begin(t, func(ctx context.Context) error { return Watch(ctx, watchOptions(opts)) })
	until(t, "it watches", func() bool { return b.Stats().Watchers == 1 })
	for i := range 5000 {
		b.Tell(event.ContainerStarted, "p1", time.Duration(i).String())
	}
	if err := end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	r.Close() // lets go of the write
}

func TestUnusable(t *testing.T) {
	path := daemontest.SocketPath(t)
	daemontest.Start(t, path, daemontest.New(t, merge.Options{}))
	broken := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(broken, []byte("what is this"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		set  func(*WatchOptions)
		says string
	}{
		{"output", func(o *WatchOptions) { o.Output = "yaml" }, "give auto, table, wide, json or ndjson"},
		{"address", func(o *WatchOptions) { o.Address = "localhost:1" }, "--address: bad address"},
		{"selector", func(o *WatchOptions) { o.Selector = "a in b" }, "label selector"},
		{"namespace", func(o *WatchOptions) { o.Namespaces = []string{""} }, "namespaces: one is empty"},
		{"type", func(o *WatchOptions) { o.Types = []string{"Died"} }, "--type: bad filter: there is no event type \"Died\": give some of"},
		{"subject", func(o *WatchOptions) { o.Subject = "pod" }, "--subject: bad filter"},
		{"since", func(o *WatchOptions) { o.Since = "x" }, "--since: bad token"},
		{"both", func(o *WatchOptions) { o.Since, o.TokenFile = "e-1", broken }, "not both"},
		{"token file", func(o *WatchOptions) { o.TokenFile = broken }, "bad token"},
		{"token directory", func(o *WatchOptions) { o.TokenFile = filepath.Dir(broken) }, "--token-file: read"},
		{"timeout", func(o *WatchOptions) { o.ConnectTimeout = -1 }, "--connect-timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts, _ := options(t, path, "ndjson")
			o := watchOptions(opts)
			tt.set(&o)
			if err := Watch(t.Context(), o); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestNobody(t *testing.T) {
	path := daemontest.SocketPath(t)
	opts, _ := options(t, path, "ndjson")
	opts.ConnectTimeout = time.Millisecond
	for name, run := range map[string]func() error{
		"watch": func() error { return Watch(t.Context(), watchOptions(opts)) },
		"pods":  func() error { return Pods(t.Context(), PodsOptions{Options: opts}) },
	} {
		if err := run(); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "up?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if errs := errFile(t, opts); errs != "" {
		t.Errorf("it is told twice: %s", errs)
	}
}

// TestTokenNotStored has a place for the token that can't be written.
func TestTokenNotStored(t *testing.T) {
	path := daemontest.SocketPath(t)
	daemontest.Start(t, path, daemontest.New(t, merge.Options{}))
	opts, r := options(t, path, "ndjson")
	read(t, r)
	o := watchOptions(opts)
	o.TokenFile = filepath.Join(t.TempDir(), "missing", "token")
	if err := Watch(t.Context(), o); err == nil || !strings.Contains(err.Error(), "store the token") {
		t.Errorf("%v", err)
	}
}

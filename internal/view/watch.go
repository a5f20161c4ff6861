package view

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Watch shows what happens, until ctx ends. An error that wraps [ErrUsage] comes from
// the options, and nothing was started then.
func Watch(ctx context.Context, o WatchOptions) error {
	f, err := o.events()
	if err != nil {
		return err
	}
	since, err := o.since()
	if err != nil {
		return err
	}
	s, err := o.check(f)
	if err != nil {
		return err
	}
	defer s.client.Close()
	w := newWatching(s, o)
	return follow(ctx, s.client, client.WatchOptions{
		Since: since, Filter: s.filter, ConnectWithin: o.ConnectTimeout, OnConnection: w.status.link.set,
	}, w)
}

// watching shows events line by line, or updates as JSON.
type watching struct {
	screen     screen
	text       output.Writer // nil: JSON
	json       *json.Encoder
	buf        *bufio.Writer // of json
	noSnapshot bool
	tokenFile  string
	colour     bool

	state  *client.State
	status *status
	last   client.Update
	stored string
}

func newWatching(s *settings, o WatchOptions) *watching {
	w := &watching{
		screen:     screen{w: s.Stdout, width: s.text.Width, status: s.statusLine()},
		noSnapshot: o.NoSnapshot,
		tokenFile:  o.TokenFile,
		colour:     s.text.Colour,
		state:      client.NewState(),
		status:     &status{},
	}
	if s.format == Table || s.format == Wide {
		w.text = output.NewText(&w.screen, s.text)
		return w
	}
	w.buf = bufio.NewWriter(&w.screen)
	w.json = newJSON(w.buf, s.format)
	return w
}

func newJSON(w *bufio.Writer, f Format) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if f == JSON {
		enc.SetIndent("", "  ")
	}
	return enc
}

// line is an update as JSON: what /v1/events writes, and a reset.
type line struct {
	Reset    *struct{}        `json:"reset,omitempty"`
	Pod      *event.PodStatus `json:"pod,omitempty"`
	Synced   *struct{}        `json:"synced,omitempty"`
	Event    *event.Event     `json:"event,omitempty"`
	Bookmark *struct{}        `json:"bookmark,omitempty"`
	Token    string           `json:"token,omitempty"`
}

func lineOf(u client.Update) line {
	l := line{Pod: u.Pod, Event: u.Event, Token: u.Token.String()}
	switch u.Kind {
	case client.KindReset:
		l.Reset = &struct{}{}
	case client.KindSynced:
		l.Synced = &struct{}{}
	case client.KindBookmark:
		l.Bookmark = &struct{}{}
	}
	return l
}

func (w *watching) take(u client.Update) error {
	w.last = u
	w.status.take(u, time.Now())
	if w.screen.status {
		w.state.Apply(u)
	}
	if w.text != nil {
		if u.Kind == client.KindEvent {
			return w.text.Write(u.Event)
		}
		return nil
	}
	if w.noSnapshot && (u.Kind == client.KindReset || u.Kind == client.KindPod || u.Kind == client.KindSynced) {
		return nil
	}
	return w.json.Encode(lineOf(u))
}

// rest hands on what is written and then keeps the token of it.
func (w *watching) rest() error {
	if err := w.flush(); err != nil {
		return err
	}
	if token := w.last.Token; w.tokenFile != "" && token.String() != w.stored {
		if err := storeToken(w.tokenFile, token); err != nil {
			return err
		}
		w.stored = token.String()
	}
	return w.tick()
}

func (w *watching) flush() error {
	if w.text != nil {
		return w.text.Flush()
	}
	return w.buf.Flush()
}

func (w *watching) tick() error {
	if !w.screen.status {
		return nil
	}
	return w.screen.draw(w.status.line(w.state.Pods(), time.Now()), w.colour)
}

func (w *watching) end() error {
	return errors.Join(w.flush(), w.screen.clear())
}

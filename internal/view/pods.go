package view

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Pods shows the pods as they are and, if it is to follow, as they become, until ctx
// ends. An error that wraps [ErrUsage] comes from the options, and nothing was started
// then.
func Pods(ctx context.Context, o PodsOptions) error {
	s, err := o.check(client.Filter{})
	if err != nil {
		return err
	}
	defer s.client.Close()
	p := newListing(s, o.Follow)
	err = follow(ctx, s.client, client.WatchOptions{
		Filter: s.filter, ConnectWithin: o.ConnectTimeout, OnConnection: p.reached,
	}, p)
	if errors.Is(err, errShown) {
		return nil
	}
	return err
}

// errShown ends a listing that does not follow.
var errShown = errors.New("all pods are shown")

// listing shows pods, and those that change again.
type listing struct {
	screen screen
	buf    *bufio.Writer
	table  *output.PodTable // nil: JSON
	json   *json.Encoder
	format Format
	colour bool
	follow bool
	notes  io.Writer

	state  *client.State
	status *status
	synced bool
	// changed are the pods to show again, in the order in which they changed.
	changed []event.Pod
}

func newListing(s *settings, follow bool) *listing {
	p := &listing{
		screen: screen{w: s.Stdout, width: s.text.Width, status: follow && s.statusLine()},
		follow: follow,
		notes:  s.Stderr,
		format: s.format,
		colour: s.text.Colour,
		state:  client.NewState(),
		status: &status{},
	}
	p.buf = bufio.NewWriter(&p.screen)
	if s.format == Table || s.format == Wide {
		p.table = output.NewPodTable(p.buf, output.PodTableOptions{Wide: s.text.Wide, Colour: s.text.Colour})
	} else {
		p.json = newJSON(p.buf, s.format)
	}
	return p
}

// reached notes how the stream stands. Of a daemon that has trouble, the pods need not
// be those that there are.
func (p *listing) reached(n client.Connection) {
	p.status.link.set(n)
	if n.Err == nil && n.Info.Unhealthy != "" && !p.screen.status {
		fmt.Fprintf(p.notes, "hybrid-pleg: the daemon is not healthy, so this may not be all: %s\n", n.Info.Unhealthy)
	}
}

// page is the pods as JSON: what /v1/pods writes.
type page struct {
	Pods  []event.PodStatus `json:"pods"`
	Token string            `json:"token"`
}

func (p *listing) list(pods []event.PodStatus, token string) error {
	if p.format != JSON {
		return p.show(pods)
	}
	if pods == nil {
		pods = []event.PodStatus{}
	}
	return p.json.Encode(page{pods, token})
}

func (p *listing) show(pods []event.PodStatus) error {
	if p.table != nil {
		return p.table.Write(pods)
	}
	for i := range pods {
		if err := p.json.Encode(&pods[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *listing) take(u client.Update) error {
	p.status.take(u, time.Now())
	p.state.Apply(u)
	switch u.Kind {
	case client.KindReset:
		p.synced, p.changed = false, nil
	case client.KindSynced:
		p.synced = true
		if err := p.list(p.state.Pods(), u.Token.String()); err != nil || p.follow {
			return err
		}
		return cmp.Or(p.buf.Flush(), errShown)
	case client.KindEvent:
		for i := range p.changed {
			if p.changed[i].UID == u.Event.Pod.UID {
				return nil
			}
		}
		p.changed = append(p.changed, u.Event.Pod)
	}
	return nil
}

// rest shows the pods that changed as they are now. One of which nothing is left has
// neither sandboxes nor containers.
func (p *listing) rest() error {
	if p.synced && len(p.changed) > 0 {
		now := make(map[string]event.PodStatus)
		for _, pod := range p.state.Pods() {
			now[pod.Pod.UID] = pod
		}
		again := make([]event.PodStatus, len(p.changed))
		for i, name := range p.changed {
			var there bool
			if again[i], there = now[name.UID]; !there {
				again[i] = event.PodStatus{Pod: name}
			}
		}
		p.changed = nil
		if err := p.show(again); err != nil {
			return err
		}
	}
	if err := p.buf.Flush(); err != nil {
		return err
	}
	return p.tick()
}

func (p *listing) tick() error {
	if !p.screen.status {
		return nil
	}
	return p.screen.draw(p.status.line(p.state.Pods(), time.Now()), p.colour)
}

func (p *listing) end() error {
	return errors.Join(p.buf.Flush(), p.screen.clear())
}

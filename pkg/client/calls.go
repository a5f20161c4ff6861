package client

import (
	"context"
	"fmt"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// List returns the pods that the filter picks, as told so far, in the order of
// namespace, name and UID. Events after its token tell all that changed since. A
// list of many pods comes in pages, and the later ones may show a later state.
func (c *Client) List(ctx context.Context, f Filter) (merge.Snapshot, error) {
	pods, _, err := f.split()
	if err != nil {
		return merge.Snapshot{}, err
	}
	snapshot, err := c.line.list(ctx, pods)
	return snapshot, c.explain(ctx, err, c.line.lastDial())
}

func (l *line) list(ctx context.Context, f *hybridplegv1.Filter) (s merge.Snapshot, err error) {
	req := &hybridplegv1.ListPodsRequest{Filter: f}
	for {
		page, err := l.page(ctx, req)
		if err != nil {
			return merge.Snapshot{}, err
		}
		if s.Token.IsZero() {
			if s.Token, err = merge.ParseToken(page.GetToken()); err != nil {
				return merge.Snapshot{}, fmt.Errorf("%w: %w", errProtocol, err)
			}
		}
		for _, m := range page.GetPods() {
			p, err := wire.ToPod(m)
			if err != nil {
				return merge.Snapshot{}, fmt.Errorf("%w: %w", errProtocol, err)
			}
			s.Pods = append(s.Pods, p)
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return s, nil
		}
	}
}

func (l *line) page(ctx context.Context, req *hybridplegv1.ListPodsRequest) (*hybridplegv1.ListPodsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.api.ListPods(ctx, req)
}

// Get returns one pod as told so far, and the place in the stream of events that it
// shows. The error wraps [ErrNotFound] where there is none.
func (c *Client) Get(ctx context.Context, uid string) (event.PodStatus, merge.Token, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := c.line.api.GetPod(call, &hybridplegv1.GetPodRequest{Uid: uid})
	if err != nil {
		return event.PodStatus{}, merge.Token{}, c.explain(ctx, err, c.line.lastDial())
	}
	pod, err := wire.ToPod(got.GetPod())
	if err != nil {
		return event.PodStatus{}, merge.Token{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	token, err := merge.ParseToken(got.GetToken())
	if err != nil {
		return event.PodStatus{}, merge.Token{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return pod, token, nil
}

// Info is what a daemon tells about itself.
type Info struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Runtime is the container runtime; its name and version are empty until it
	// answered.
	Runtime Runtime  `json:"runtime"`
	Sources []Source `json:"sources,omitempty"`
	// RelistPeriod is the pause between relists of everything that now holds, in
	// nanoseconds in JSON.
	RelistPeriod time.Duration `json:"relistPeriod"`
	// Token is the place after the last event, OldestToken the earliest that can be
	// gone on from.
	Epoch       string `json:"epoch"`
	Token       string `json:"token"`
	OldestToken string `json:"oldestToken"`
	// Unhealthy says why the daemon is not healthy; empty when it is.
	Unhealthy string `json:"unhealthy,omitempty"`
	// StateDirectory is empty where none is kept; StateProblem says why nothing is
	// written to it.
	StateDirectory string `json:"stateDirectory,omitempty"`
	StateProblem   string `json:"stateProblem,omitempty"`
	Watchers       int    `json:"watchers"`
}

// Runtime names a container runtime.
type Runtime struct {
	Endpoint   string `json:"endpoint"`
	Name       string `json:"name,omitempty"`
	Version    string `json:"version,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// Source is one of the daemon's triggers. Reason says why it is down.
type Source struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Reason string `json:"reason,omitempty"`
}

// Info asks the daemon about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	info, err := c.line.info(ctx)
	return info, c.explain(ctx, err, c.line.lastDial())
}

func (l *line) info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := l.api.GetInfo(ctx, &hybridplegv1.GetInfoRequest{})
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Version:   m.GetVersion(),
		StartedAt: instant(m.GetStartedAt()),
		Runtime: Runtime{
			Endpoint: m.GetRuntime().GetEndpoint(), Name: m.GetRuntime().GetName(),
			Version: m.GetRuntime().GetVersion(), APIVersion: m.GetRuntime().GetApiVersion(),
		},
		RelistPeriod:   m.GetRelistPeriod().AsDuration(),
		Epoch:          m.GetEpoch(),
		Token:          m.GetToken(),
		OldestToken:    m.GetOldestToken(),
		Unhealthy:      m.GetUnhealthy(),
		StateDirectory: m.GetStateDirectory().GetPath(),
		StateProblem:   m.GetStateDirectory().GetProblem(),
		Watchers:       int(m.GetWatchers()),
	}
	for _, s := range m.GetSources() {
		info.Sources = append(info.Sources, Source{Name: s.GetName(), Up: s.GetUp(), Reason: s.GetReason()})
	}
	return info, nil
}

func instant(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

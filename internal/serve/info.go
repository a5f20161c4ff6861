package serve

import (
	"strings"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// info is what the server tells about itself; the JSON is that of /v1/info.
type info struct {
	Version        string          `json:"version"`
	StartedAt      time.Time       `json:"startedAt"`
	Runtime        Runtime         `json:"runtime"`
	Sources        []sourceInfo    `json:"sources"`
	RelistPeriod   string          `json:"relistPeriod"`
	Epoch          string          `json:"epoch"`
	Token          string          `json:"token"`
	OldestToken    string          `json:"oldestToken"`
	Unhealthy      string          `json:"unhealthy,omitempty"`
	StateDirectory *StateDirectory `json:"stateDirectory,omitempty"`
	Watchers       int             `json:"watchers"`

	period time.Duration
}

type sourceInfo struct {
	Name   string `json:"name"`
	Up     bool   `json:"up"`
	Reason string `json:"reason,omitempty"`
}

func (s *Server) info() *info {
	stats := s.backend.Stats()
	period := s.backend.RelistPeriod()
	in := &info{
		Version:      s.version,
		StartedAt:    s.started,
		Runtime:      s.backend.Runtime(),
		Sources:      []sourceInfo{},
		RelistPeriod: period.String(),
		Epoch:        stats.Token.Epoch,
		Token:        stats.Token.String(),
		OldestToken:  stats.OldestToken.String(),
		Watchers:     s.watches.count(),
		period:       period,
	}
	for _, st := range s.backend.Sources() {
		source := sourceInfo{Name: string(st.Name), Up: st.Up}
		if st.Err != nil {
			source.Reason = text(st.Err)
		}
		in.Sources = append(in.Sources, source)
	}
	if err := s.backend.Healthy(); err != nil {
		in.Unhealthy = text(err)
	}
	if s.state != nil {
		state := s.state()
		state.Problem = strings.ToValidUTF8(state.Problem, "\uFFFD")
		in.StateDirectory = &state
	}
	return in
}

// text is what an error says, fit for a message: a path in it may be of any bytes.
func text(err error) string { return strings.ToValidUTF8(err.Error(), "\uFFFD") }

func (in *info) proto() *hybridplegv1.GetInfoResponse {
	m := &hybridplegv1.GetInfoResponse{
		Version:   in.Version,
		StartedAt: timestamppb.New(in.StartedAt),
		Runtime: &hybridplegv1.Runtime{
			Endpoint: in.Runtime.Endpoint, Name: in.Runtime.Name,
			Version: in.Runtime.Version, ApiVersion: in.Runtime.APIVersion,
		},
		RelistPeriod: durationpb.New(in.period),
		Epoch:        in.Epoch,
		Token:        in.Token,
		OldestToken:  in.OldestToken,
		Unhealthy:    in.Unhealthy,
		Watchers:     int32(in.Watchers),
	}
	for _, source := range in.Sources {
		m.Sources = append(m.Sources, &hybridplegv1.Source{Name: source.Name, Up: source.Up, Reason: source.Reason})
	}
	if in.StateDirectory != nil {
		m.StateDirectory = &hybridplegv1.StateDirectory{Path: in.StateDirectory.Path, Problem: in.StateDirectory.Problem}
	}
	return m
}

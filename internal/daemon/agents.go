package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/prometheus/client_golang/prometheus"
)

// Agents are the settings of serving agents.
type Agents struct {
	// Listen is the endpoint of the socket; empty: none.
	Listen string
	// ListenIfPossible: nobody asked for the socket. Where it can't be made, for want of
	// permission, the daemon goes on without.
	ListenIfPossible bool
	ListenGroup      string // by name or number; empty: as it is
	// HTTPAPI is a TCP address; empty: none.
	HTTPAPI string
	TLS     serve.TLSFiles
	Limits  serve.Limits
}

// limitFlag is the flag of a limit, by the field of [serve.Limits].
func limitFlag(field string) string {
	switch field {
	case "Watchers":
		return "--max-watchers"
	case "WatcherBuffer":
		return "--watcher-buffer"
	case "MessageSize":
		return "--max-message-size"
	case "RequestsPerSecond":
		return "--max-requests-per-second"
	default:
		return field
	}
}

// checkAgents refuses what can't work.
func (s *settings) checkAgents() (err error) {
	if s.Listen != "" {
		if s.socket, err = serve.SocketPath(s.Listen); err != nil {
			return usage("--listen: %w", err)
		}
	} else if s.ListenGroup != "" {
		return usage("--listen-group is for the socket, and there is none with --listen \"\"")
	}
	if s.group, err = serve.GroupID(s.ListenGroup); err != nil {
		return usage("--listen-group: %w", err)
	}
	switch {
	case s.HTTPAPI == "" && !s.TLS.IsZero():
		return usage("--tls-cert, --tls-key and --tls-client-ca are for --http-api, which is not given")
	case s.HTTPAPI != "":
		if err := serve.CheckHTTP(s.HTTPAPI, s.TLS); errors.Is(err, serve.ErrNeedsTLS) {
			return usage("--http-api: %w (--tls-cert, --tls-key, --tls-client-ca)", err)
		} else if err != nil {
			return usage("--http-api: %w", err)
		}
	}
	if limit, ok := errors.AsType[*serve.LimitError](s.Limits.Check()); ok {
		return usage("%s: give %s", limitFlag(limit.Limit), limit.Want)
	}
	return nil
}

// listenAgents takes the places where agents are served, before anything runs.
func (s *settings) listenAgents(ctx context.Context) (ls serve.Listeners, err error) {
	if s.socket != "" {
		switch ls.Local, err = serve.ListenSocket(ctx, s.socket, s.group); {
		case err == nil:
		case s.ListenIfPossible && !errors.Is(err, serve.ErrInUse) && !errors.Is(err, serve.ErrForeign):
			ls.Local = nil
			s.log.Info("doing without a socket for agents: it can't be made; give --listen another, or \"\" for none", "err", err)
		default:
			return ls, fmt.Errorf("--listen %s: %w (or --listen \"\" for none)", s.Listen, err)
		}
	}
	if s.HTTPAPI != "" {
		if ls.HTTP, err = serve.ListenHTTP(ctx, s.HTTPAPI, s.TLS, s.log); err != nil {
			closeAgents(ls)
			return serve.Listeners{}, fmt.Errorf("--http-api %s: %w", s.HTTPAPI, err)
		}
	}
	return ls, nil
}

// closeAgents closes listeners that are not served; those that were are closed
// already.
func closeAgents(ls serve.Listeners) {
	if ls.Local != nil {
		_ = ls.Local.Close()
	}
	if ls.HTTP != nil {
		_ = ls.HTTP.Close()
	}
}

// newAgents makes the server for agents; nil when there is nowhere to serve.
func (s *settings) newAgents(g *pleg.Generator, ls serve.Listeners, registry prometheus.Registerer) (*serve.Server, error) {
	if ls.Local == nil && ls.HTTP == nil {
		return nil, nil
	}
	opts := serve.Options{
		Backend: generator{g, s.choice.Endpoint}, Limits: s.Limits, Version: version.Number(),
		Registerer: registry, Log: s.log,
	}
	if s.StateDir != "" {
		opts.State = func() serve.StateDirectory {
			return serve.StateDirectory{Path: s.StateDir, Problem: g.StateProblem()}
		}
	}
	return serve.New(opts)
}

// generator is what is served.
type generator struct {
	*pleg.Generator
	endpoint string
}

// Runtime implements [serve.Backend].
func (g generator) Runtime() serve.Runtime {
	v := g.RuntimeVersion()
	return serve.Runtime{Endpoint: g.endpoint, Name: v.Name, Version: v.Version, APIVersion: v.APIVersion}
}

// agentAttrs tell in the log where agents are served.
func agentAttrs(ls serve.Listeners) (attrs []any) {
	if ls.Local != nil {
		attrs = append(attrs, "listen", "unix://"+ls.Local.Addr().String())
	}
	if ls.HTTP != nil {
		scheme := "http://"
		if ls.HTTP.Secure() {
			scheme = "https://"
		}
		attrs = append(attrs, "http_api", scheme+ls.HTTP.Addr().String())
	}
	return attrs
}

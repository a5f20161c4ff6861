package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// listen takes the address for metrics and health before anything runs; nil when
// there is to be no server.
func (s *settings) listen(ctx context.Context) (net.Listener, error) {
	if s.HTTP == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.HTTP)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w; choose another address, or --http \"\" for no server", s.HTTP, err)
	}
	return l, nil
}

// closeListener closes one that is not served; one that was is closed already.
func closeListener(l net.Listener) {
	if l != nil {
		_ = l.Close()
	}
}

// serveWeb serves until ctx ends. A client that sends or reads too slowly is cut off.
func serveWeb(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

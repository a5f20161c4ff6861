package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
)

// cmdServe listens on a socket until the script ends.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	kind, path := args[0], ts.MkAbs(args[1])
	if kind == "cri" {
		serveCRI(ts, path)
		return
	}
	l, err := net.Listen("unix", path)
	ts.Check(err)
	switch kind {
	case "grpc":
		srv := grpc.NewServer()
		go func() { _ = srv.Serve(l) }()
		ts.Defer(srv.Stop)
	case "http":
		srv := &http.Server{Handler: http.NotFoundHandler()}
		go func() { _ = srv.Serve(l) }()
		ts.Defer(func() { srv.Close() })
	case "silent":
		ts.Defer(func() { l.Close() })
	case "dead":
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		ts.Check(l.Close())
	default:
		ts.Fatalf("there is no %s to serve", kind)
	}
}

// cmdAsk fetches a page from a daemon's socket, once somebody answers there.
func cmdAsk(ts *testscript.TestScript, neg bool, args []string) {
	socket := ts.MkAbs(args[0])
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	poll(ts, nil, func() string {
		resp, err := client.Get("http://daemon" + args[1])
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(resp.Status+"\n"+string(body)), 0o600))
		return ""
	})
}

// serveCRI serves a runtime with one pod that has one container.
func serveCRI(ts *testscript.TestScript, path string) {
	ctx := context.Background()
	rt := embedded.New(embedded.Options{})
	ts.Defer(func() { rt.Close() })
	pod := embedded.PodConfig("shop", "web-0", "7e57ab1e-0000-4000-8000-000000000001", 0, embedded.Burstable)
	sandbox, err := rt.RunPod(ctx, pod)
	ts.Check(err)
	id, err := rt.Create(ctx, sandbox, embedded.ContainerConfig(pod, "api", 0, "registry.example/web:1", "run"))
	ts.Check(err)
	ts.Check(rt.Start(ctx, id))
	server, err := embedded.Serve(ctx, rt, path)
	ts.Check(err)
	ts.Defer(func() { server.Close() })
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// wants fails unless err has a code and says something.
func wants(t *testing.T, err error, code codes.Code, says string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%v\nwant %s: %s", err, code, says)
	}
}

// items receives until n items have come, written as "pod:p000 synced@0 event@1:…".
func items(t *testing.T, stream grpc.ServerStreamingClient[hybridplegv1.WatchResponse], n int) string {
	t.Helper()
	var out []string
	for range n {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		out = append(out, brief(m))
	}
	return strings.Join(out, " ")
}

func brief(m *hybridplegv1.WatchResponse) string {
	_, at, _ := strings.Cut(m.GetToken(), "-")
	switch x := m.Item.(type) {
	case *hybridplegv1.WatchResponse_Pod:
		return "pod:" + x.Pod.GetPod().GetName()
	case *hybridplegv1.WatchResponse_Synced:
		return "synced@" + at
	case *hybridplegv1.WatchResponse_Event:
		return "event@" + at + ":" + x.Event.GetId()
	case *hybridplegv1.WatchResponse_Expired:
		return "expired:" + x.Expired.GetSince()
	case *hybridplegv1.WatchResponse_Bookmark:
		return "bookmark@" + at
	default:
		return fmt.Sprintf("%T", m.Item)
	}
}

func wantItems(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWatch(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(2)
	api := start(t, b, Options{}, nil).dial()
	stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, items(t, stream, 3), "pod:p000 pod:p001 synced@4")
	b.Publish([]relist.Change{change(0, "c000", event.StateExited)})
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	e := m.GetEvent()
	if brief(m) != "event@5:c000/ContainerDied" || e.GetPod().GetUid() != "uid-p000" || e.GetStatus().ExitCode == nil ||
		e.GetSandbox().GetLabels()["app"] != "even" || e.GetTo() != hybridplegv1.State_STATE_EXITED {
		t.Errorf("%v", m)
	}

	// From a token on, with what is to come.
	stream, err = api.Watch(within(t), &hybridplegv1.WatchRequest{Since: "e-3"})
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, items(t, stream, 3), "event@4:c001/ContainerStarted event@5:c000/ContainerDied synced@5")
	b.Publish([]relist.Change{change(0, "c000", event.StateNonExistent)})
	wantItems(t, items(t, stream, 1), "event@6:c000/ContainerRemoved")
}

// TestWatchExpired has tokens that can't be resumed from.
func TestWatchExpired(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 2})
	b.pods(2)
	api := start(t, b, Options{}, nil).dial()
	for _, since := range []string{"other-1", "e-1", "e-99"} {
		stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{Since: since})
		if err != nil {
			t.Fatal(err)
		}
		wantItems(t, items(t, stream, 4), "expired:"+since+" pod:p000 pod:p001 synced@4")
	}
}

func TestWatchRefused(t *testing.T) {
	api := start(t, newBackend(t, merge.Options{}), Options{}, nil).dial()
	for says, req := range map[string]*hybridplegv1.WatchRequest{
		"since: bad token":              {Since: "nonsense"},
		"no decimal number of 64 bits":  {Since: "e-x"},
		"bad filter: label selector":    {Filter: &hybridplegv1.Filter{LabelSelector: "a=("}},
		"unknown event type: number 99": {Filter: &hybridplegv1.Filter{Types: []hybridplegv1.EventType{99}}},
		"1001 namespaces, 1000 are":     {Filter: &hybridplegv1.Filter{Namespaces: slices.Repeat([]string{"x"}, 1001)}},
	} {
		stream, err := api.Watch(within(t), req)
		if err == nil {
			_, err = stream.Recv()
		}
		wants(t, err, codes.InvalidArgument, says)
	}
}

// TestBookmark has a filter that lets nothing through.
func TestBookmark(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(4)
	api := start(t, b, Options{}, func(s *Server) { s.bookmarkEvery = time.Millisecond }).dial()
	stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{Filter: &hybridplegv1.Filter{Namespaces: []string{"b"}}})
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, items(t, stream, 3), "pod:p001 pod:p003 synced@8")
	b.Publish([]relist.Change{change(0, "c000", event.StateExited)})
	wantItems(t, items(t, stream, 1), "bookmark@9")
	// Nothing more comes until something happens.
	b.Publish([]relist.Change{change(1, "c001", event.StateExited)})
	wantItems(t, items(t, stream, 1), "event@10:c001/ContainerDied")
}

func TestFilters(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(3)
	api := start(t, b, Options{}, nil).dial()
	for want, f := range map[string]*hybridplegv1.Filter{
		"event@1:sandbox-p000/SandboxStarted event@5:sandbox-p002/SandboxStarted": {LabelSelector: "app=even", Subject: hybridplegv1.Subject_SUBJECT_SANDBOX},
		"event@4:c001/ContainerStarted":                                           {PodUids: []string{"uid-p001"}, Types: []hybridplegv1.EventType{hybridplegv1.EventType_EVENT_TYPE_CONTAINER_STARTED}},
		"event@3:sandbox-p001/SandboxStarted event@4:c001/ContainerStarted":       {PodNames: []string{"p001"}},
	} {
		stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{Since: "e-0", Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		wantItems(t, items(t, stream, strings.Count(want, " ")+2), want+" synced@6")
	}
}

func TestListPods(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(5)
	api := start(t, b, Options{}, nil).dial()
	list := func(req *hybridplegv1.ListPodsRequest) (names []string, pages int) {
		t.Helper()
		for {
			resp, err := api.ListPods(within(t), req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.GetToken() != "e-10" {
				t.Errorf("token %s", resp.GetToken())
			}
			pages++
			for _, p := range resp.GetPods() {
				names = append(names, p.GetPod().GetNamespace()+"/"+p.GetPod().GetName())
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				return names, pages
			}
		}
	}
	for _, test := range []struct {
		req   *hybridplegv1.ListPodsRequest
		names string
		pages int
	}{
		{&hybridplegv1.ListPodsRequest{}, "[a/p000 a/p002 a/p004 b/p001 b/p003]", 1},
		{&hybridplegv1.ListPodsRequest{PageSize: 5}, "[a/p000 a/p002 a/p004 b/p001 b/p003]", 1},
		{&hybridplegv1.ListPodsRequest{PageSize: 2}, "[a/p000 a/p002 a/p004 b/p001 b/p003]", 3},
		{&hybridplegv1.ListPodsRequest{PageSize: 1, Filter: &hybridplegv1.Filter{LabelSelector: "app=odd"}}, "[b/p001 b/p003]", 2},
		{&hybridplegv1.ListPodsRequest{Filter: &hybridplegv1.Filter{Namespaces: []string{"none"}}}, "[]", 1},
	} {
		names, pages := list(test.req)
		if fmt.Sprint(names) != test.names || pages != test.pages {
			t.Errorf("%v: %d pages: %v", test.req, pages, names)
		}
	}
	for _, req := range []*hybridplegv1.ListPodsRequest{
		{PageSize: -1}, {PageToken: "!"}, {PageToken: "bm9uc2Vuc2U"}, {PageToken: strings.Repeat("x", 9999)},
		{Filter: &hybridplegv1.Filter{LabelSelector: "=("}},
	} {
		_, err := api.ListPods(within(t), req)
		wants(t, err, codes.InvalidArgument, "")
	}
}

// TestPagesByBytes has pods that are too large for one message together, and one that
// is too large by itself.
func TestPagesByBytes(t *testing.T) {
	b := newBackend(t, merge.Options{})
	large := func(n, kib int) {
		c := change(n, "", event.StateRunning)
		c.Sandbox.Annotations = map[string]string{"large": strings.Repeat("x", kib<<10)}
		b.Publish([]relist.Change{c})
	}
	for n := range 10 {
		large(n, 20)
	}
	r := start(t, b, Options{Limits: Limits{MessageSize: 64 << 10}}, nil)
	api := r.dial()
	seen, pages := 0, 0
	req := &hybridplegv1.ListPodsRequest{}
	for ; pages == 0 || req.PageToken != ""; pages++ {
		resp, err := api.ListPods(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(resp); size > 64<<10 {
			t.Errorf("a page of %d bytes", size)
		}
		seen += len(resp.GetPods())
		req.PageToken = resp.GetNextPageToken()
	}
	if seen != 10 || pages != 4 {
		t.Errorf("%d pods on %d pages", seen, pages)
	}
	large(10, 80)
	_, err := api.ListPods(within(t), &hybridplegv1.ListPodsRequest{Filter: &hybridplegv1.Filter{PodNames: []string{"p010"}}})
	wants(t, err, codes.ResourceExhausted, "pod uid-p010 takes")
	stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{Since: b.Token().Epoch + "-10"})
	if err == nil {
		_, err = stream.Recv()
	}
	wants(t, err, codes.ResourceExhausted, "event sandbox-p010/SandboxStarted takes")
	_, err = api.GetPod(within(t), &hybridplegv1.GetPodRequest{Uid: "uid-p010"})
	wants(t, err, codes.ResourceExhausted, "the message with pod uid-p010 takes")
	wants(t, err, codes.ResourceExhausted, "--max-message-size allows 65536")
	if n := r.turnedAway(limitMessageSize); n != 3 {
		t.Errorf("%d were counted", n)
	}
	// A request that is too large, too. gRPC refuses these itself.
	_, err = api.GetPod(within(t), &hybridplegv1.GetPodRequest{Uid: strings.Repeat("x", 65<<10)})
	wants(t, err, codes.ResourceExhausted, "larger than max")
	stream, err = api.Watch(within(t), &hybridplegv1.WatchRequest{Since: strings.Repeat("x", 65<<10)})
	if err == nil {
		_, err = stream.Recv()
	}
	wants(t, err, codes.ResourceExhausted, "larger than max")
	eventually(t, "the requests to be counted", func() bool { return r.turnedAway(limitMessageSize) == 5 })
	for method, want := range map[string]int{"GetPod": 2, "Watch": 2, "ListPods": 1} {
		eventually(t, method+" to be counted", func() bool {
			return counted(t, r.metrics.requests, protocolGRPC, method, codes.ResourceExhausted.String()) == want
		})
	}
	if n := counted(t, r.metrics.requests, protocolGRPC, "GetPod", codes.OK.String()); n != 0 {
		t.Errorf("%d calls of GetPod were counted as good", n)
	}
}

func TestGetPod(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(2)
	api := start(t, b, Options{}, nil).dial()
	resp, err := api.GetPod(within(t), &hybridplegv1.GetPodRequest{Uid: "uid-p001"})
	if err != nil {
		t.Fatal(err)
	}
	p := resp.GetPod()
	if resp.GetToken() != "e-4" || p.GetPod().GetName() != "p001" || len(p.GetSandboxes()) != 1 || len(p.GetContainers()) != 1 ||
		p.GetContainers()[0].GetState() != hybridplegv1.State_STATE_RUNNING {
		t.Errorf("%v", resp)
	}
	_, err = api.GetPod(within(t), &hybridplegv1.GetPodRequest{})
	wants(t, err, codes.InvalidArgument, "uid is required")
	_, err = api.GetPod(within(t), &hybridplegv1.GetPodRequest{Uid: "no\xe2\x82\xacne"})
	wants(t, err, codes.NotFound, `there is no pod with the UID "no€ne" on this node`)
}

func TestGetInfo(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 3})
	b.pods(2)
	b.setHealth(errors.New("not listed \xff yet"))
	state := func() StateDirectory { return StateDirectory{Path: "/var/lib/x", Problem: "the disk is full"} }
	api := start(t, b, Options{Version: "v9", State: state}, nil).dial()
	got, err := api.GetInfo(within(t), &hybridplegv1.GetInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetStartedAt().AsTime().After(time.Now()) {
		t.Errorf("started at %v", got.GetStartedAt())
	}
	got.StartedAt = nil
	want := &hybridplegv1.GetInfoResponse{
		Version: "v9", Epoch: "e", Token: "e-4", OldestToken: "e-1", Unhealthy: "not listed \uFFFD yet",
		Runtime:        &hybridplegv1.Runtime{Endpoint: "unix:///run/r.sock", Name: "testd", Version: "1.2", ApiVersion: "v1"},
		Sources:        []*hybridplegv1.Source{{Name: "cgroup", Up: true}, {Name: "ebpf", Reason: "no BTF here"}},
		StateDirectory: &hybridplegv1.StateDirectory{Path: "/var/lib/x", Problem: "the disk is full"},
	}
	if got.GetRelistPeriod().AsDuration() != 10*time.Second {
		t.Errorf("period %v", got.GetRelistPeriod())
	}
	got.RelistPeriod = nil
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// What it calls the oldest token can be resumed from.
	stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{Since: got.GetOldestToken()})
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, items(t, stream, 1), "event@2:c000/ContainerStarted")
	eventually(t, "the watch to be counted", func() bool {
		info, err := api.GetInfo(within(t), &hybridplegv1.GetInfoRequest{})
		return err == nil && info.GetWatchers() == 1
	})
}

func TestHealthService(t *testing.T) {
	b := newBackend(t, merge.Options{})
	r := start(t, b, Options{}, nil)
	health := healthpb.NewHealthClient(r.conn())
	stream, err := health.Watch(within(t), &healthpb.HealthCheckRequest{Service: "hybridpleg.v1.PodLifecycleService"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetStatus() == want {
				return
			}
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	b.setHealth(errors.New("no listing"))
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	resp, err := health.Check(within(t), &healthpb.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestReflection asks as grpcurl does: which services there are, and what one of them
// looks like.
func TestReflection(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{}, nil)
	stream, err := reflectionpb.NewServerReflectionClient(r.conn()).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	list := ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"hybridpleg.v1.PodLifecycleService", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	files := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "hybridpleg.v1.PodLifecycleService.Watch"}})
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(files.GetFileDescriptorResponse().GetFileDescriptorProto()[0], &file); err != nil {
		t.Fatal(err)
	}
	if len(file.GetService()) != 1 || !file.GetService()[0].GetMethod()[0].GetServerStreaming() {
		t.Errorf("%v", file.GetService())
	}
}

// TestUnknownMethod has a call that is of another service.
func TestUnknownMethod(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{}, nil)
	err := r.conn().Invoke(within(t), "/runtime.v1.RuntimeService/Version", &hybridplegv1.GetInfoRequest{}, &hybridplegv1.GetInfoResponse{})
	wants(t, err, codes.Unimplemented, "RuntimeService")
}

// TestCanceled has a client that goes away: its slot is free again.
func TestCanceled(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{}, nil)
	ctx, cancel := context.WithCancel(within(t))
	stream, err := r.dial().Watch(ctx, &hybridplegv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, items(t, stream, 1), "synced@0")
	if r.watches.count() != 1 {
		t.Errorf("%d watches", r.watches.count())
	}
	cancel()
	eventually(t, "the watch to end", func() bool { return r.watches.count() == 0 && r.backend.Stats().Watchers == 0 })
}

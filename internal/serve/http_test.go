package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// get asks for a page and returns its status and body.
func get(t *testing.T, c *http.Client, path string, header ...string) (int, string) {
	t.Helper()
	resp := open(t, c, path, header...)
	defer resp.close()
	body, err := io.ReadAll(resp.body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.status, string(body)
}

// reply is an answer whose body is still to be read.
type reply struct {
	status int
	header http.Header
	body   *bufio.Reader
	close  func()
}

// open asks for a page and leaves its body open until the test ends.
func open(t *testing.T, c *http.Client, path string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://x"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	closeBody := sync.OnceFunc(func() { resp.Body.Close() })
	t.Cleanup(closeBody)
	return reply{resp.StatusCode, resp.Header, bufio.NewReader(resp.Body), closeBody}
}

// lines returns the next n lines of a stream.
func lines(t *testing.T, r *bufio.Reader, n int) []string {
	t.Helper()
	var out []string
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

func TestPages(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(3)
	c := start(t, b, Options{Version: "v9"}, nil).http()
	names := func(body string) string {
		t.Helper()
		var page podsPage
		if err := json.Unmarshal([]byte(body), &page); err != nil || page.Token != "e-6" {
			t.Fatalf("%v: %s", err, body)
		}
		var out []string
		for _, p := range page.Pods {
			out = append(out, p.Pod.Name)
		}
		return strings.Join(out, " ")
	}
	for query, want := range map[string]string{
		"": "p000 p002 p001", "?namespace=b": "p001", "?selector=app%3Deven&uid=uid-p002,uid-p001": "p002", "?pod=none": "",
	} {
		if code, body := get(t, c, "/v1/pods"+query); code != 200 || names(body) != want {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
	if _, body := get(t, c, "/v1/pods?pod=none"); body != `{"pods":[],"token":"e-6"}`+"\n" {
		t.Errorf("no pods: %s", body)
	}
	if code, body := get(t, c, "/v1/pods/uid-p001"); code != 200 || !strings.HasPrefix(body, `{"pod":{"pod":{"uid":"uid-p001",`) {
		t.Errorf("%d %s", code, body)
	}
	code, body := get(t, c, "/v1/info")
	var in info
	if err := json.Unmarshal([]byte(body), &in); err != nil || code != 200 || in.Version != "v9" || in.Token != "e-6" ||
		in.RelistPeriod != "10s" || len(in.Sources) != 2 || in.Sources[1].Reason != "no BTF here" || in.Runtime.Name != "testd" {
		t.Errorf("%d %s (%v)", code, body, err)
	}
	if code, body := get(t, c, "/"); code != 200 || !strings.Contains(body, "/v1/events") {
		t.Errorf("%d %s", code, body)
	}
}

func TestPagesRefused(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 2})
	b.pods(2)
	c := start(t, b, Options{}, nil).http()
	for _, test := range []struct {
		path string
		code int
		says string
	}{
		{"/v1/pods?namspace=x", 400, `there is no parameter \"namspace\": give some of namespace, pod, uid, selector, type, subject`},
		{"/v1/pods?since=e-1", 400, "there is no parameter"},
		{"/v1/pods?selector=a%3D(", 400, "bad filter: label selector"},
		{"/v1/pods?namespace=%zz", 400, "the query can't be read"},
		{"/v1/pods?a;b", 400, "the query can't be read"},
		{"/v1/pods/none", 404, `there is no pod with the UID \"none\" on this node`},
		{"/v1/events?since=x", 400, "since: bad token"},
		{"/v1/events?since=e-1&since=e-2", 400, "since is given more than once"},
		{"/v1/events?type=Died", 400, "there is no event type"},
		{"/v1/events?since=e-1", 410, "what happened after e-1 is not kept any more: start anew"},
		{"/v1/events?since=other-1", 410, "start anew"},
		{"/v1/events?since=e-99", 410, "start anew"},
		{"/v1/nothing", 404, ""},
		{"/v2/events", 404, ""},
	} {
		code, body := get(t, c, test.path)
		if code != test.code || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s", test.path, code, body)
		}
		var r refusal
		if err := json.Unmarshal([]byte(body), &r); test.says != "" && (err != nil || r.Error == "") {
			t.Errorf("%s: %v: %s", test.path, err, body)
		}
	}
	if code, body := get(t, c, "/v1/events", "Last-Event-ID", "e-0"); code != 410 || !strings.Contains(body, "e-0") {
		t.Errorf("Last-Event-ID: %d %s", code, body)
	}
	resp, err := c.Post("http://x/v1/events", "text/plain", strings.NewReader("x"))
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	resp, err = c.Head("http://x/v1/events")
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != typeNDJSON {
		t.Errorf("HEAD: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

func TestNDJSON(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(1)
	c := start(t, b, Options{}, func(s *Server) { s.bookmarkEvery = time.Millisecond }).http()
	resp := open(t, c, "/v1/events?namespace=a")
	if got := resp.header.Get("Content-Type"); got != typeNDJSON {
		t.Errorf("content type %s", got)
	}
	r := resp.body
	got := lines(t, r, 2)
	var first line
	if err := json.Unmarshal([]byte(got[0]), &first); err != nil || first.Pod == nil || first.Pod.Pod.UID != "uid-p000" || first.Token != "" {
		t.Errorf("%v: %s", err, got[0])
	}
	if got[1] != `{"synced":{},"token":"e-2"}` {
		t.Error(got[1])
	}
	b.Publish([]relist.Change{change(0, "c000", event.StateExited)})
	var item line
	if got = lines(t, r, 1); json.Unmarshal([]byte(got[0]), &item) != nil || item.Token != "e-3" || item.Event == nil ||
		item.Event.ID != "c000/ContainerDied" || !strings.HasPrefix(got[0], `{"event":{"epoch":"e","sequence":3,"id":"c000/ContainerDied"`) {
		t.Errorf("%q", got)
	}
	b.Publish([]relist.Change{change(1, "", event.StateRunning)})
	if got = lines(t, r, 1); got[0] != `{"bookmark":{},"token":"e-4"}` {
		t.Errorf("%q", got)
	}
}

func TestServerSentEvents(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(1)
	r := start(t, b, Options{}, nil)
	c := r.http()
	resp := open(t, c, "/v1/events?since=nonsense", "Accept", "text/html, text/event-stream;q=0.9", "Last-Event-ID", "e-1")
	if got := resp.header.Get("Content-Type"); got != typeSSE || resp.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", resp.header)
	}
	stream := resp.body
	got := lines(t, stream, 10)
	if !strings.HasPrefix(got[4], `data: {"event":{"epoch":"e",`) {
		t.Error(got[4])
	}
	got[4] = "data"
	want := []string{
		"retry: 1000", "",
		"id: e-2", "event: event", "data", "",
		"id: e-2", "event: synced", `data: {"synced":{},"token":"e-2"}`, "",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	// All pods, for who has no token.
	stream = open(t, c, "/v1/events", "Accept", typeSSE).body
	if got = lines(t, stream, 5); got[2] != "event: pod" || !strings.HasPrefix(got[3], `data: {"pod":{"pod":{"uid":`) {
		t.Errorf("%q", got)
	}
}

// TestCurl has curl on both forms.
func TestCurl(t *testing.T) {
	curl := testutil.Curl(t)
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(1)
	r := start(t, b, Options{}, nil)
	for want, args := range map[string][]string{
		`{"synced":{},"token":"e-2"}`:                  {"-N"},
		"id: e-2\nevent: synced\ndata: {\"synced\":{}": {"-N", "-H", "Accept: text/event-stream"},
	} {
		cmd := exec.CommandContext(within(t), curl, append(args, "-s", "--unix-socket", r.path, "http://localhost/v1/events")...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(got.String(), want) {
			n, err := out.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				t.Fatalf("curl %q: %v: %s", args, err, got.String())
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	out, err := exec.CommandContext(within(t), curl, "-s", "-w", "%{http_code}", "--unix-socket", r.path, "http://localhost/v1/events?since=other-5").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\n410") {
		t.Errorf("%v: %s", err, out)
	}
	eventually(t, "the watches to end", func() bool { return r.watches.count() == 0 })
}

// flood publishes n events that are large, and all of containers of one pod.
func (b *backend) flood(from, n int) {
	for i := range n {
		b.Publish([]relist.Change{change(0, fmt.Sprintf("c%0500d", from+i), event.StateRunning)})
	}
}

// TestFallsBehind has a reader of each form that stalls until the journal goes on
// without it, and then gets what is.
func TestFallsBehind(t *testing.T) {
	for _, accept := range []string{typeNDJSON, typeSSE} {
		b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 64})
		r := start(t, b, Options{Limits: Limits{WatcherBuffer: minWatcherBuffer}}, nil)
		stream := open(t, r.http(), "/v1/events", "Accept", accept).body
		const total = 3000
		b.flood(0, total)
		var before []string
		expired, containers := 0, 0
		for done := false; !done; {
			got := strings.TrimPrefix(lines(t, stream, 1)[0], "data: ")
			switch {
			case strings.HasPrefix(got, `{"expired":{"since":"e-`):
				expired++
				containers = 0
				if n := len(before); accept == typeSSE && !slices.Equal(before[n-2:], []string{"id", "event: expired"}) {
					t.Errorf("before the word that it expired: %q", before[n-2:])
				}
			case strings.HasPrefix(got, `{"pod":{`):
				var item line
				if err := json.Unmarshal([]byte(got), &item); err != nil {
					t.Fatal(err)
				}
				containers = len(item.Pod.Containers)
			case strings.HasPrefix(got, `{"event":{`):
				containers++
			}
			done = strings.HasSuffix(got, fmt.Sprintf(`"token":"e-%d"}`, total))
			before = append(before, got)
		}
		if expired == 0 || containers != total || uint64(expired) != b.Stats().Expired {
			t.Errorf("%s: expired %d times and has %d containers at the end", accept, expired, containers)
		}
	}
}

// TestDeadReader has a reader that never reads: it is cut off and its slot is free.
func TestDeadReader(t *testing.T) {
	b := newBackend(t, merge.Options{})
	r := start(t, b, Options{Limits: Limits{WatcherBuffer: minWatcherBuffer}}, func(s *Server) {
		s.answerTimeout = 20 * time.Millisecond
	})
	r.plain("GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "the watch to begin", func() bool { return r.watches.count() == 1 })
	b.flood(0, 1000)
	eventually(t, "the reader to be cut off", func() bool { return r.watches.count() == 0 })
}

func TestUnhealthyStillServes(t *testing.T) {
	b := newBackend(t, merge.Options{})
	b.setHealth(errors.New("never listed"))
	c := start(t, b, Options{}, nil).http()
	if code, body := get(t, c, "/v1/info"); code != 200 || !strings.Contains(body, `"unhealthy":"never listed"`) {
		t.Errorf("%d %s", code, body)
	}
}

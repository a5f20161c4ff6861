package filter

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

func died(namespace, name, uid string, labels map[string]string) *event.Event {
	return &event.Event{
		Type: event.ContainerDied, Pod: event.Pod{UID: uid, Namespace: namespace, Name: name},
		Sandbox: &event.Sandbox{ID: "s", Labels: labels}, Container: &event.Container{ID: "c"},
	}
}

// TestPicks asks each filter about events and the pods they belong to.
func TestPicks(t *testing.T) {
	web := died("shop", "web-0", "u1", map[string]string{"app": "web", "tier": "front"})
	cache := died("shop", "cache-0", "u2", map[string]string{"app": "cache"})
	bare := died("batch", "job", "u3", nil)
	down := &event.Event{Type: event.SandboxDied, Pod: web.Pod, Sandbox: web.Sandbox}
	lone := &event.Event{Type: event.ContainerRemoved, Pod: bare.Pod, Container: bare.Container}
	all := []*event.Event{web, cache, bare, down, lone}
	tests := []struct {
		query  string
		events string // a letter for each of all
		pods   string // of web, cache, bare
	}{
		{"", "wcbdl", "wcb"},
		{"namespace=shop", "wcd", "wc"},
		{"namespace=shop,batch", "wcbdl", "wcb"},
		{"namespace=shop&namespace=batch", "wcbdl", "wcb"},
		{"pod=web-0,job", "wbdl", "wb"},
		{"uid=u2", "c", "c"},
		{"namespace=batch&pod=web-0", "", ""},
		{"selector=app%3Dweb", "wd", "w"},
		{"selector=app%3Dweb&selector=tier%3Dback", "", ""},
		{"selector=app", "wcd", "wc"},
		{"selector=!app", "bl", "b"},
		{"selector=app+in+(web,cache),tier!%3Dfront", "c", "c"},
		{"type=ContainerDied", "wcb", "wcb"},
		{"type=SandboxDied,ContainerRemoved", "dl", "wcb"},
		{"subject=container", "wcbl", "wcb"},
		{"subject=sandbox", "d", "wcb"},
	}
	for _, test := range tests {
		q, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := FromQuery(q)
		if err != nil {
			t.Errorf("%s: %v", test.query, err)
			continue
		}
		// By way of the API it is the same.
		remote, err := FromProto(spec.Proto())
		if err != nil || !reflect.DeepEqual(remote, spec) {
			t.Errorf("%s: %+v becomes %+v, %v", test.query, spec, remote, err)
		}
		f, err := New(spec)
		if err != nil {
			t.Errorf("%s: %v", test.query, err)
			continue
		}
		if (f == nil) != (test.query == "") {
			t.Errorf("%s: the filter is %v", test.query, f)
		}
		var events, pods strings.Builder
		for i, e := range all {
			if f.Events(e) {
				events.WriteByte("wcbdl"[i])
			}
		}
		for i, e := range all[:3] {
			if f.Pods(&event.PodStatus{Pod: e.Pod, Sandboxes: []event.SandboxStatus{{Sandbox: *e.Sandbox}}}) {
				pods.WriteByte("wcb"[i])
			}
		}
		if events.String() != test.events || pods.String() != test.pods {
			t.Errorf("%s: events %q, pods %q; want %q, %q", test.query, &events, &pods, test.events, test.pods)
		}
	}
}

// TestSandboxMadeAnew has a pod with an old and a new sandbox, and one without any.
func TestSandboxMadeAnew(t *testing.T) {
	f, err := New(Spec{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	p := &event.PodStatus{Sandboxes: []event.SandboxStatus{
		{Sandbox: event.Sandbox{Labels: map[string]string{"app": "old"}}},
		{Sandbox: event.Sandbox{Labels: map[string]string{"app": "web"}}},
	}}
	if !f.Pods(p) {
		t.Error("the labels of the second sandbox do not count")
	}
	p.Sandboxes = nil
	if f.Pods(p) {
		t.Error("a pod without sandboxes has a label")
	}
	if f, err = New(Spec{LabelSelector: "app!=web"}); err != nil || !f.Pods(p) {
		t.Errorf("a pod without sandboxes has a label (%v)", err)
	}
}

func TestRefused(t *testing.T) {
	many := make([]string, maxEntries+1)
	for i := range many {
		many[i] = "x"
	}
	for says, spec := range map[string]Spec{
		`namespaces: one is empty`:                        {Namespaces: []string{"a", ""}},
		`pod names: one has 254 bytes, 253 are allowed`:   {PodNames: []string{strings.Repeat("x", 254)}},
		`pod UIDs: "a\nb" holds what no name can`:         {PodUIDs: []string{"a\nb"}},
		`namespaces: "\xff" holds what no name can`:       {Namespaces: []string{"\xff"}},
		`1001 pod UIDs, 1000 are allowed`:                 {PodUIDs: many},
		`label selector "a=(": `:                          {LabelSelector: "a=("},
		`the label selector has 5000 bytes, 4096 are`:     {LabelSelector: strings.Repeat("x", 5000)},
		`there is no event type "Died": give some of San`: {Types: []event.Type{"Died"}},
		`there is no subject "pod": give container or`:    {Subject: "pod"},
	} {
		if _, err := New(spec); !errors.Is(err, ErrFilter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v\nwant: %s", err, says)
		}
	}
	for says, query := range map[string]string{
		`namespaces: one is empty`:                                  "namespace=a,,b",
		`there is no event type "died"`:                             "type=died",
		`there is no subject "x"`:                                   "subject=x",
		`subject is given more than once`:                           "subject=sandbox&subject=container",
		`pod names: one is empty`:                                   "pod=",
		`1001 namespaces, 1000 are allowed`:                         "namespace=" + strings.Repeat("a,", 5000),
		`there is no event type "` + strings.Repeat("é", 50) + `"…`: "type=" + strings.Repeat("é", 500),
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := FromQuery(q)
		if err == nil {
			_, err = New(spec)
		}
		if !errors.Is(err, ErrFilter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v\nwant: %s", query, err, says)
		}
	}
	for says, m := range map[string]*hybridplegv1.Filter{
		"types: unknown event type: number 99":  {Types: []hybridplegv1.EventType{99}},
		"types: unknown event type: number 0":   {Types: []hybridplegv1.EventType{0}},
		"there is no subject with the number 7": {Subject: 7},
		"1001 types, 1000 are allowed":          {Types: make([]hybridplegv1.EventType, 1001)},
	} {
		if _, err := FromProto(m); !errors.Is(err, ErrFilter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v\nwant: %s", err, says)
		}
	}
}

// FuzzQuery has queries of any form do no harm, and what is taken go through the API.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"namespace=a,b&selector=x+in+(y,z)", "type=PodSync&subject=sandbox", "selector=%21x%2C%21y", "uid=%ff"} {
		f.Add(q)
	}
	e := died("a", "b", "c", map[string]string{"x": "y"})
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		spec, err := FromQuery(q)
		if err != nil {
			return
		}
		local, err := New(spec)
		if err != nil {
			return
		}
		back, err := FromProto(spec.Proto())
		if err != nil {
			t.Fatal(err)
		}
		remote, err := New(back)
		if err != nil || local.Events(e) != remote.Events(e) {
			t.Fatalf("%q picks %t here and %t there (%v)", query, local.Events(e), remote.Events(e), err)
		}
	})
}

package daemon

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/prometheus/client_golang/prometheus"
)

// described are the metrics that a daemon has, each with its labels, whether it
// has a series yet or not.
type described struct {
	prometheus.Registerer
	names map[string][]string
}

var desc = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func (d *described) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc)
	go func() {
		c.Describe(ch)
		close(ch)
	}()
	for one := range ch {
		m := desc.FindStringSubmatch(one.String())
		d.names[m[1]] = slices.Sorted(strings.SplitSeq(m[2], ","))
	}
	return nil
}

func describedMetrics(t *testing.T) map[string][]string {
	d := &described{names: map[string][]string{}}
	g, err := pleg.New(pleg.Options{Endpoint: "unix:///nowhere/cri.sock", Registerer: d})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serve.New(serve.Options{Backend: generator{g, ""}, Registerer: d}); err != nil {
		t.Fatal(err)
	}
	if len(d.names) < 20 {
		t.Fatalf("there are only %d metrics", len(d.names))
	}
	return d.names
}

// row is a line of the table in docs/metrics.md: name, type, labels, meaning.
var row = regexp.MustCompile("(?m)^\\| `(hybrid_pleg_[a-z_]+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\| [^|]+ \\|$")

// TestMetricsAreDocumented compares docs/metrics.md with what there is.
func TestMetricsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		if _, twice := documented[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		labels := strings.ReplaceAll(strings.ReplaceAll(m[3], "`", ""), " ", "")
		documented[m[1]] = slices.Sorted(strings.SplitSeq(labels, ","))
	}
	exist := describedMetrics(t)
	for name, labels := range exist {
		if got, ok := documented[name]; !ok {
			t.Errorf("%s is not documented", name)
		} else if !slices.Equal(got, labels) {
			t.Errorf("%s is documented with the labels %q and has %q", name, got, labels)
		}
	}
	for name := range documented {
		if _, ok := exist[name]; !ok {
			t.Errorf("%s is documented and does not exist", name)
		}
	}
	// What is named anywhere else in the text exists, too.
	for _, name := range regexp.MustCompile(`hybrid_pleg_[a-z_]+[a-z]`).FindAllString(string(data), -1) {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if _, ok := exist[name]; !ok {
			t.Errorf("%s is named and does not exist", name)
		}
	}
}

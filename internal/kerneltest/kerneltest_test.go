package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const said = `@@ boot 6.1.0-57-cloud-amd64 2.31
@@ begin probe
=== RUN   TestStart
=== RUN   TestStart/v2
=== RUN   TestStart/v1
--- PASS: TestStart (0.01s)
    --- PASS: TestStart/v2 (0.01s)
    --- SKIP: TestStart/v1 (0.00s)
PASS
@@ end probe 0
@@ begin containerd
--- FAIL: TestStorm (1.00s)
    more_test.go:1: matrix: storm: nobody looked
    more_test.go:2: matrix: host without CAP_BPF: ` + "`ebpf` is down: “not permitted”\r" + `
FAIL
@@ end containerd 1
`

func TestReadResult(t *testing.T) {
	run := Run{Kernel: Kernel{Name: "6.1"}, Layout: V2, Suites: []Suite{suiteProbe(), suiteDaemon()}}
	result := Result{Run: run}
	var log bytes.Buffer
	var ended []string
	err := readResult(strings.NewReader(said+"@@ done\n"), &log, &result, func(s SuiteResult) { ended = append(ended, s.Name) })
	if err != nil {
		t.Fatal(err)
	}
	if result.Release != "6.1.0-57-cloud-amd64" || !result.Done || result.OK() {
		t.Errorf("got %+v", result)
	}
	if want := []string{"probe", "containerd"}; !slices.Equal(ended, want) {
		t.Errorf("ended: %v", ended)
	}
	if s := result.Suites[0]; s.Code != 0 || s.Passed != 2 || s.Skipped != 1 || s.Failed != 0 {
		t.Errorf("probe: %+v", s)
	}
	if s := result.Suites[1]; s.Code != 1 || s.Failed != 1 || !slices.Equal(s.Failures, []string{"TestStorm"}) {
		t.Errorf("containerd: %+v", s)
	}
	want := []Finding{{"storm", "nobody looked"}, {"host without CAP_BPF", "`ebpf` is down: “not permitted”"}}
	if got := result.Findings(); !slices.Equal(got, want) {
		t.Errorf("findings: %+v", got)
	}
	if !strings.Contains(log.String(), "=== RUN   TestStart/v1\n") {
		t.Error("not all is kept")
	}
}

func TestMachineThatStops(t *testing.T) {
	result := Result{Run: Run{Suites: []Suite{suiteProbe(), suiteDaemon()}}}
	cut, _, _ := strings.Cut(said, "PASS\n@@ end probe")
	if err := readResult(strings.NewReader(cut), io.Discard, &result, func(SuiteResult) {}); err != nil {
		t.Fatal(err)
	}
	if len(result.Suites) != 1 || result.Suites[0].Code != -1 || result.Done || result.OK() {
		t.Errorf("got %+v", result)
	}
}

// A machine that ends before its last suite has not passed, though nothing failed.
func TestOKWantsEverySuite(t *testing.T) {
	r := Result{Done: true, Run: Run{Suites: []Suite{suiteProbe(), suiteDaemon()}}, Suites: []SuiteResult{{Name: "probe"}}}
	if r.OK() {
		t.Error("a suite is missing")
	}
	if r.Suites = append(r.Suites, SuiteResult{Name: "containerd"}); !r.OK() {
		t.Error("all passed")
	}
	if r.Err = errors.New("broken"); r.OK() {
		t.Error("the machine broke")
	}
}

func TestTable(t *testing.T) {
	works := []SuiteResult{
		{Name: "probe", Passed: 30},
		{Name: "containerd", Findings: []Finding{{"ebpf", "works"}, {"cgroup", "works late"}, {"storm", "no relist"}, {"host without CAP_BPF", "it goes on"}}},
	}
	suites := []Suite{suiteProbe(), suiteDaemon()}
	got := Table([]Result{
		{Run: Run{Kernel: Kernel{Name: "6.1"}, Layout: V1, Suites: suites}, Release: "6.1.0-57", Suites: works, Done: true},
		{Run: Run{Kernel: Kernel{Name: "5.10"}, Layout: V2, Suites: suites}, Suites: []SuiteResult{{Name: "probe", Code: 2}}},
		{Run: Run{Kernel: Kernel{Name: "6.1-arm64"}, Layout: V2, Suites: suites[:1]}, Suites: works[:1], Done: true},
	})
	for _, line := range []string{
		"| 6.1.0-57 | v1 | works (30 tests) | works | works late | no relist |",
		"| 5.10 | v2 | FAILED: probe | FAILED | FAILED | FAILED |",
		"| 6.1-arm64 | v2 | works (30 tests) | not tried | not tried | not tried |",
		"| without CAP_BPF | 6.1.0-57 | it goes on |",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

func TestWriteTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kernels.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + tableBegin + "old\n" + tableEnd + "after\n")
	for range 2 { // the second time it is the same
		if err := WriteTable(file, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if want := "before\n" + tableBegin + "\nnew\n\n" + tableEnd + "after\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	for _, text := range []string{"nothing\n", tableBegin, tableEnd + tableBegin} {
		write(text)
		if err := WriteTable(file, "new\n"); err == nil {
			t.Errorf("%q has no place for a table", text)
		}
	}
}

// The plan holds what docs/kernels.md says of it.
func TestByLength(t *testing.T) {
	runs := []Run{
		{Suites: make([]Suite, 1)},
		{Suites: make([]Suite, 3)},
		{Kernel: Kernel{OneThread: true}, Suites: make([]Suite, 2)},
		{Suites: make([]Suite, 3)},
	}
	if got, want := byLength(runs), []int{2, 1, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPlan(t *testing.T) {
	layouts := make(map[string][]Layout)
	for _, r := range plan() {
		if slices.ContainsFunc(r.Suites, func(s Suite) bool { return s.Name == suiteDaemon().Name }) {
			layouts[r.Kernel.Name] = append(layouts[r.Kernel.Name], r.Layout)
		}
	}
	for _, k := range kernels() {
		if k.Arch == "amd64" && !slices.Contains(layouts[k.Name], V2) {
			t.Errorf("%s is not tried with v2", k.Name)
		}
	}
	if got := layouts["5.10"]; !slices.Contains(got, V1) || !slices.Contains(got, Hybrid) {
		t.Errorf("5.10 is tried with %v", got)
	}
	short := shortPlan()
	if len(short) != 2 || short[0].Kernel.Name != "6.1" || short[0].Name() == short[1].Name() {
		t.Errorf("short: %+v", short)
	}
}

func TestChoose(t *testing.T) {
	got, err := Choice{Kernels: []string{"5.10"}, Layouts: []string{"v1", "hybrid"}, Suites: []string{"probe"}}.of(plan())
	if err != nil || len(got) != 2 || len(got[0].Suites) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []Choice{
		{Kernels: []string{"4.19"}}, {Layouts: []string{"v3"}}, {Suites: []string{"all"}},
		{Kernels: []string{"newest"}, Layouts: []string{"v1"}},
	} {
		if _, err := bad.of(plan()); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if all, err := (Choice{}).of(plan()); err != nil || len(all) != len(plan()) {
		t.Errorf("no choice: %d runs, %v", len(all), err)
	}
}

func TestArguments(t *testing.T) {
	m := machine{run: Run{Kernel: Kernel{Arch: "amd64", OneThread: true}, Layout: V1, Suites: []Suite{suiteProbe(), suiteEBPF()}}, accel: "tcg"}
	got := strings.Join(m.arguments(), " ")
	for _, want := range []string{"qemu-system-x86_64", "thread=single", "kerneltest.layout=v1", "kerneltest.suites=probe,ebpf"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	m.run.Kernel.Arch = "arm64"
	if got := m.arguments()[0]; got != "qemu-system-aarch64" {
		t.Errorf("arm64 runs on %s", got)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		m.run.Kernel.Arch, m.accel = arch, "kvm"
		// A host has KVM for its own architecture alone.
		if got := slices.Contains(m.arguments(), "kvm"); got != (arch == runtime.GOARCH) {
			t.Errorf("%s by KVM on %s: %v", arch, runtime.GOARCH, got)
		}
	}
}

func TestKernelParts(t *testing.T) {
	const depends = "Depends: dracut | initramfs-tools (>= 0.120), linux-base-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1), linux-modules-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1), linux-base (>= 4.3~)"
	var got []string
	for _, m := range kernelPart().FindAllStringSubmatch(depends, -1) {
		got = append(got, m[1]+" "+m[2])
	}
	want := []string{"linux-base-7.3.4+deb13-cloud-amd64 7.3.4-1~bpo13+1", "linux-modules-7.3.4+deb13-cloud-amd64 7.3.4-1~bpo13+1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := newArchive(&b)
	a.File("init", 0o755, []byte("#!"))
	a.File("modules/x/y.ko", 0o644, []byte("12345"))
	a.File("modules/z.ko", 0o644, nil)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// What the kernel would read: a header of 110 bytes, the name, the data, each padded to
	// a multiple of four.
	var got []string
	for data := b.Bytes(); len(data) > 0; {
		var mode, size, length int
		if _, err := fmt.Sscanf(string(data[:110]), "070701%8x", new(int)); err != nil {
			t.Fatal(err)
		}
		for at, field := range map[int]*int{14: &mode, 54: &size, 94: &length} {
			if _, err := fmt.Sscanf(string(data[at:at+8]), "%8x", field); err != nil {
				t.Fatal(err)
			}
		}
		name := string(data[110 : 110+length-1])
		data = data[(110+length+3)&^3:]
		got = append(got, fmt.Sprintf("%s %o %q", name, mode, data[:size]))
		data = data[(size+3)&^3:]
	}
	want := []string{
		`init 100755 "#!"`, `modules 40755 ""`, `modules/x 40755 ""`, `modules/x/y.ko 100644 "12345"`,
		`modules/z.ko 100644 ""`, `TRAILER!!! 0 ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// Without network the error says what is missing, and nothing half done is left.
func TestFillWithoutNetwork(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip(err)
	}
	if !exists(keyring) {
		t.Skip("no keys of Debian")
	}
	c := cache{t.TempDir()}
	// Nothing listens on this port.
	err := c.fill(t.Context(), kernels(), "http://127.0.0.1:9", func(string) {})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"kernel 5.10", "kernel 6.1-arm64", "busybox for amd64", "busybox for arm64", "-mirror"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What is there is not fetched, unless it lacks modules that are needed by now.
func TestFillFromCache(t *testing.T) {
	c := cache{t.TempDir()}
	k := kernels()[0]
	for _, dir := range []string{c.kernel(k), c.busybox(k.Arch)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(modules string) {
		if err := os.WriteFile(filepath.Join(c.kernel(k), "wanted"), []byte(modules), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("overlay\n")
	if c.has(k) {
		t.Error("a kernel with other modules passes")
	}
	write(wantedModules())
	if err := c.fill(t.Context(), []Kernel{k, k}, "http://127.0.0.1:9", func(s string) { t.Errorf("said: %s", s) }); err != nil {
		t.Error(err)
	}
}

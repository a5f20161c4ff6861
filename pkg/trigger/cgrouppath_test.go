package trigger

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unsafe"
)

const (
	idA  = "5694f82f44168cc048e014ae14d1b0c8ef673bec49f329dc169911ea638f63c2"
	idB  = "09bc3d7ade839efec32b6bec4ec79d099027a668ddba043083ec21d3c3b8f1e6"
	uidA = "eb052b63-ea96-4728-ab4a-64ab3babccd7"
	uidB = "a2830d0d-b0f0-4ff0-81b5-0ee4e299cf80"
	// The same as the kubelet's systemd driver spells them.
	uidA_ = "eb052b63_ea96_4728_ab4a_64ab3babccd7"
	uidB_ = "a2830d0d_b0f0_4ff0_81b5_0ee4e299cf80"
	// A static pod's.
	hash = "9729a196c4723b60ab401eaff722982d"
)

// pathRow is a line of testdata/cgroup-paths.tsv: paths seen on real hosts, with
// the project whose tests know them.
type pathRow struct {
	path, podUID, containerID, remark string
}

func pathRows(tb testing.TB) []pathRow {
	tb.Helper()
	data, err := os.ReadFile("testdata/cgroup-paths.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	var rows []pathRow
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			tb.Fatalf("line %d has %d fields: %q", i+1, len(f), line)
		}
		if i > 0 {
			rows = append(rows, pathRow{path: f[0], podUID: f[1], containerID: f[2], remark: f[4]})
		}
	}
	if len(rows) < 30 {
		tb.Fatalf("only %d rows in the table", len(rows))
	}
	return rows
}

func TestParseCgroupPathTable(t *testing.T) {
	for _, row := range pathRows(t) {
		// The path as it is, and as a listing relative to the root gives it.
		for _, path := range []string{row.path, strings.TrimPrefix(row.path, "/"), row.path + "/", row.path + " (deleted)"} {
			ref, ok := ParseCgroupPath(path)
			if ref.PodUID() != row.podUID || ref.ContainerID != row.containerID || ok != (row.podUID+row.containerID != "") {
				t.Errorf("%s\n%s\n got pod %q container %q ok %v\nwant pod %q container %q",
					row.remark, path, ref.PodUID(), ref.ContainerID, ok, row.podUID, row.containerID)
			}
			if strings.HasPrefix(row.remark, "IGNORE") && ok {
				t.Errorf("%s: %s must be ignored, got %+v", row.remark, path, ref)
			}
		}
	}
}

func TestParseCgroupPath(t *testing.T) {
	type want struct {
		pod, container string
		class          CgroupClass
		nested         bool
	}
	pod := func(uid string) want { return want{pod: uid, class: CgroupPod} }
	in := func(uid, id string) want { return want{uid, id, CgroupPodContainer, false} }
	cri := func(id string) want { return want{"", id, CgroupCRIContainer, false} }
	other := func(id string) want { return want{"", id, CgroupOtherContainer, false} }
	below := func(w want) want { w.nested = true; return w }
	none := want{}

	tests := []struct {
		name string
		path string
		want want
	}{
		{"root", "/", none},
		{"empty", "", none},
		{"kubepods alone", "/kubepods.slice/kubepods-burstable.slice", none},

		// Drivers, roots and spellings.
		{"guaranteed systemd", "/kubepods.slice/kubepods-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope", in(uidA, idA)},
		{"kubelet --cgroup-root cgroupfs", "/my/root/kubepods/pod" + uidA + "/" + idA, in(uidA, idA)},
		{"kubelet --cgroup-root systemd", "/my.slice/my-root.slice/my-root-kubepods.slice/my-root-kubepods-pod" + uidA_ + ".slice/crio-" + idA + ".scope", in(uidA, idA)},
		{"escaped dashes", `/kubepods.slice/kubepods-pod` + strings.ReplaceAll(uidA, "-", `\x2d`) + ".slice/" + `cri\x2dcontainerd\x2d` + idA + ".scope", in(uidA, idA)},
		{"static pod with a UID by hand", "/kubepods/burstable/pod" + strings.ToUpper(uidA) + "/" + idA, in(strings.ToUpper(uidA), idA)},
		{"watched root inside of kubepods", "pod" + uidA + "/" + idA, in(uidA, idA)},
		{"cri-dockerd cgroupfs", "/kubepods/besteffort/pod" + uidA + "/" + idA, in(uidA, idA)},
		{"mismatch, guaranteed", "/kubepods-pod" + uidA_ + ".slice:cri-containerd:" + idA, in(uidA, idA)},
		{"mismatch, cri-o", "/system.slice/kubepods-burstable-pod" + uidA_ + ".slice:crio:" + idA, in(uidA, idA)},
		{"mismatch, no pod", "/system.slice:cri-containerd:" + idA, cri(idA)},
		{"mismatch, docker", "/system.slice:docker:" + idA, other(idA)},
		{"mismatch inside of a node container", "/docker/" + idB + "/kubepods-pod" + uidA_ + ".slice:cri-containerd:" + idA, in(uidA, idA)},
		{"process line", "0::/kubepods/pod" + uidA + "/" + idA, in(uidA, idA)},
		{"slashes", "//kubepods//pod" + uidA + "///" + idA + "//", in(uidA, idA)},

		// Below a container.
		{"crun", "/kubepods.slice/kubepods-pod" + uidA_ + ".slice/crio-" + idA + ".scope/container", below(in(uidA, idA))},
		{"init inside", "/kubepods/pod" + uidA + "/" + idA + "/init.scope", below(in(uidA, idA))},
		{"systemd inside a pod's container", "/kubepods/pod" + uidA + "/" + idA + "/system.slice/sshd.service", below(in(uidA, idA))},
		{"mount unit inside a pod's container", "/kubepods/pod" + uidA + "/" + idA + "/system.slice/x-" + idB + ".mount", below(in(uidA, idA))},
		{"systemd inside a CRI container", "/k8s.io/" + idA + "/system.slice/sshd.service", below(cri(idA))},
		{"init inside docker", "/system.slice/docker-" + idA + ".scope/init.scope", below(other(idA))},
		{"pod-like child of a container", "/kubepods/pod" + uidA + "/" + idA + "/pod" + uidB, below(in(uidA, idA))},
		{"child of a pod", "/kubepods/pod" + uidA + "/something", below(pod(uidA))},
		{"docker inside a pod's container", "/kubepods/pod" + uidA + "/" + idA + "/docker/" + idB, want{uidA, idB, CgroupOtherContainer, false}},

		// Nodes inside of containers.
		{"kind, pod level", "/docker/" + idB + "/kubelet/kubepods/pod" + uidA, pod(uidA)},
		{"kind inside a pod", "/kubepods/pod" + uidB + "/" + idB + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope", in(uidA, idA)},
		{"kind inside a pod, no pod of its own", "/kubepods/pod" + uidB + "/" + idB + "/kubelet/kubepods/besteffort", none},
		{"rootless kind", "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + idB + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice", none},
		{"crictl in a node container", "/system.slice/docker-" + idB + ".scope/system.slice/cri-containerd-" + idA + ".scope", cri(idA)},
		{"k3d", "/docker/" + idB + "/kubepods/burstable/pod" + hash + "/" + idA, in(hash, idA)},

		// Seen out of a cgroup namespace.
		{"namespace, other class", "/../../../burstable/pod" + uidA + "/" + idA, in(uidA, idA)},
		{"namespace, systemd", "/../../kubepods-besteffort-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope", in(uidA, idA)},
		{"namespace, same pod", "/../" + idA, other(idA)},
		{"no kernel writes that", "/kubepods/pod" + uidA + "/../pod" + uidB + "/" + idA, none},

		// No pod above.
		{"cri-o without a pod", "/machine.slice/crio-" + idA + ".scope", cri(idA)},
		{"containerd without a pod, nested", "/user.slice/k8s.io/" + idA + "/init", below(cri(idA))},
		{"podman", "/machine.slice/libpod-" + idA + ".scope/container", below(other(idA))},
		{"podman pod", "/machine.slice/machine-libpod_pod_" + idB + ".slice/libpod-" + idA + ".scope", other(idA)},
		{"podman pod, cgroupfs", "/libpod_parent/" + idB + "/libpod-" + idA, other(idA)},
		{"podman pod alone", "/machine.slice/machine-libpod_pod_" + idB + ".slice", none},
		{"podman split", "/user.slice/app.service/libpod-payload-" + idA, other(idA)},
		{"nerdctl", "/default/" + idA, other(idA)},
		{"ecs", "/ecs/" + hash + "/" + idA, other(idA)},

		// The runtime's own.
		{"podman health check", "/system.slice/" + idA + ".service", none},
		{"cri-o conmon in system.slice", "/system.slice/crio-conmon-" + idA + ".scope", none},
		{"mismatch, conmon", "/kubepods-pod" + uidA_ + ".slice:crio-conmon:" + idA, none},
		{"mount", "/system.slice/run-" + idA + ".mount", none},
		{"socket", "/system.slice/docker-" + idA + ".socket", none},

		// Nearly.
		{"63 digits", "/kubepods/pod" + uidA + "/" + idA[1:], below(pod(uidA))},
		{"65 digits", "/docker/a" + idA, none},
		{"65 digits behind a prefix", "/system.slice/docker-a" + idA + ".scope", none},
		{"upper case", "/docker/" + strings.ToUpper(idA), none},
		{"not hexadecimal", "/docker/" + idA[:63] + "g", none},
		{"ends in the mark only", "/docker/.scope", none},
		{"UUID without pod", "/kubepods/" + uidA, none},
		{"mixed separators", "/kubepods/podeb052b63-ea96_4728-ab4a-64ab3babccd7", none},
		{"short UUID", "/kubepods/pod" + uidA[1:], none},
		{"31 digits", "/kubepods/pod" + hash[1:], none},
		{"a word that ends in pod", "/kubepods/tripod" + uidA, none},
		{"pod scope", "/user.slice/app-pod" + uidA + ".scope", none},
		{"pod service", "/system.slice/pod" + uidA + ".service", none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref, ok := ParseCgroupPath(tt.path)
			got := want{ref.PodUID(), ref.ContainerID, ref.Class, ref.Nested}
			if got != tt.want || ok != (tt.want.class != CgroupNone) {
				t.Errorf("%s\n got %+v, %v\nwant %+v", tt.path, got, ok, tt.want)
			}
			if wantPod := tt.want.pod != ""; ref.HasPod() != wantPod {
				t.Errorf("HasPod = %v", !wantPod)
			}
		})
	}
}

func TestCgroupRefCRI(t *testing.T) {
	for class, want := range map[CgroupClass]bool{
		CgroupNone: false, CgroupPod: true, CgroupPodContainer: true, CgroupCRIContainer: true, CgroupOtherContainer: false,
	} {
		if got := (CgroupRef{Class: class}).CRI(); got != want {
			t.Errorf("%v: CRI = %v", class, got)
		}
	}
}

func TestParseCgroupPathAllocations(t *testing.T) {
	for _, row := range pathRows(t) {
		if n := testing.AllocsPerRun(10, func() { ParseCgroupPath(row.path) }); n != 0 {
			t.Errorf("%v allocations for %s", n, row.path)
		}
	}
}

func FuzzParseCgroupPath(f *testing.F) {
	for _, row := range pathRows(f) {
		f.Add(row.path)
	}
	f.Add("/../" + idA)
	f.Add("/a/.././pod" + uidA_ + ".slice:" + idA + ":conmon-" + idB + ".scope//")
	var (
		id  = regexp.MustCompile(`^[0-9a-f]{64}$`)
		uid = regexp.MustCompile(`^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)
	)
	f.Fuzz(func(t *testing.T, path string) {
		ref, ok := ParseCgroupPath(path)
		if ok != (ref.Class != CgroupNone) || ok != (ref.HasPod() || ref.ContainerID != "") {
			t.Fatalf("ok %v does not fit %+v", ok, ref)
		}
		if ref.ContainerID != "" && !id.MatchString(ref.ContainerID) {
			t.Fatalf("container ID %q", ref.ContainerID)
		}
		if ref.HasPod() && !uid.MatchString(ref.PodUID()) {
			t.Fatalf("pod UID %q", ref.PodUID())
		}
		if (ref.Class == CgroupPod) != (ref.HasPod() && ref.ContainerID == "") {
			t.Fatalf("class %v does not fit %+v", ref.Class, ref)
		}
		for _, part := range []string{ref.ContainerID, ref.rawUID} {
			if !isPartOf(part, path) {
				t.Fatalf("%q is a copy, not a part of the path", part)
			}
		}
		// What a namespace puts in front changes nothing.
		if under, _ := ParseCgroupPath("/../" + path); under != ref {
			t.Fatalf("below /..: %+v, else %+v", under, ref)
		}
	})
}

// isPartOf reports whether part lies in the very memory of whole.
func isPartOf(part, whole string) bool {
	if part == "" {
		return true
	}
	start, at := uintptr(unsafe.Pointer(unsafe.StringData(whole))), uintptr(unsafe.Pointer(unsafe.StringData(part)))
	return start <= at && at+uintptr(len(part)) <= start+uintptr(len(whole))
}

func BenchmarkParseCgroupPath(b *testing.B) {
	for _, bench := range []struct{ name, path string }{
		{"cgroupfs", "/kubepods/burstable/pod" + uidA + "/" + idA},
		{"systemd", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope"},
		{"kind", "/system.slice/docker-" + idB + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + uidA_ + ".slice/cri-containerd-" + idA + ".scope"},
		{"none", "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-" + uidA + ".scope"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ref, ok := ParseCgroupPath(bench.path); ok != (ref.ContainerID != "") {
					b.Fatal(ref)
				}
			}
		})
	}
}

// Package pleg is hybrid-pleg's front door for Go programs: one [Generator] that
// lists a container runtime over CRI, is told by the kernel and the runtime when
// it is worth listing early, and tells each change of a pod's containers and
// sandboxes once and in order.
//
//	g, err := pleg.New(pleg.Options{Endpoint: "unix:///run/containerd/containerd.sock"})
//	if err != nil { … }
//	go g.Run(ctx)
//
//	w, err := g.Watch(merge.WatchOptions{})
//	if err != nil { … }
//	defer w.Close()
//	for item, err := range w.All(ctx) { … }
//
// A watch begins with all pods as they are, then says Synced, then goes on with
// events. It may be opened before Run is called.
//
// Everything is found by listing. The triggers (cgroup, ebpf, cri) only make it
// list sooner: where one of them is not to be had, the generator says so in its
// log and its metrics, relists everything more often, and goes on.
package pleg

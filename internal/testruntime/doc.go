// Package testruntime runs a real container runtime for tests, benchmarks and
// people who want one to play with.
//
// [Start] builds containerd, its shim, runc and crictl from the nested module
// tools/runtime (once; the binaries stay in the checkout's .cache folder), starts
// containerd in a private directory with a private cgroup, and loads the one image
// there is: the static program of the folder testimage, which plays a part chosen
// by its first argument. No network, package manager or installed runtime is
// needed, but root is, Linux, Go and a C compiler (runc's first stage is C).
//
// [Runtime.RunPod] and the methods of [Pod] and [Container] ask for pods the way
// the kubelet does: its labels, annotations, cgroup parents and PID namespaces.
// Pods share the host's network, so no CNI plugin is needed.
//
// [Runtime.Close] kills and removes all that the runtime has started or made,
// whatever state it is in: containerd is not asked to help. What a killed test
// left behind is removed by the next Start. [Runtime.Leftovers] tells what is
// there still.
//
// All methods may be called from several goroutines at once, save where a type
// says otherwise.
package testruntime

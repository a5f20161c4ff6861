// Package upstream makes the parts of the kubelet that its generators of pod
// lifecycle events stand on, as the kubelet itself makes them: the CRI clients and
// the container runtime manager (k8s.io/kubernetes/pkg/kubelet/kuberuntime). The
// generators are then the kubelet's own code down to the CRI.
//
// Nothing of Kubernetes is copied here. All of it is used as a module, at the
// version that go.mod names.
package upstream

// Package workload plays an endless small cluster life on an embedded runtime:
// services that are rolled out anew, jobs that succeed or fail, a container that
// crashes again and again, one that runs out of memory, a cron job that comes and
// goes.
//
// It does what the kubelet would: it makes sandboxes and containers, starts,
// restarts and removes them. All else follows from the containers' commands. With
// the same seed each pod's story is the same. How many pods and how fast is
// adjustable, so that the same play serves as a load.
package workload

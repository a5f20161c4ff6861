// Package workload plays what a plan asks for on a container runtime.
//
// [Make] turns a plan's workload and its seed into a [Schedule], which is plain data:
// when each container is to be started and how long it is to run. A [Driver] plays it
// over CRI, on whatever runtime, and writes down what it asked for and when. All pods
// carry a label by which [Clean] finds and removes them, also after a run that was
// killed.
package workload

// Package truth finds out what really happened in an experiment, apart from any arm.
//
// Three sources write into one [Ledger]:
//
//   - [StartKernel]: an eBPF probe of its own, for when a container's workload
//     execed and ended, by the kernel's time stamps;
//   - [StartEvents]: the runtime's event stream, for when it showed a state. When an
//     event arrives is an upper bound: the state turned a little before;
//   - [ReadAccount]: the embedded runtime's own word for both, which is exact.
//
// What none of them saw has the time 0, and stays in the results as such.
package truth

// Package runner carries out an experiment: it checks that it can be done, starts a
// runtime, the recorders of the truth and the arms, plays the workloads, puts together
// what each arm told of what really happened, and writes it all down.
//
// [Check] refuses what can't work before anything is started. A [Ready] experiment
// is described by Describe and carried out by Run.
package runner

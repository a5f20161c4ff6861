// Package arm runs the generators under test: each as a process of its own, whose
// events are read from its standard output and stamped when they arrive there. That is
// when a consumer learns of them, it takes nothing on trust from the arm, and it is the
// same for all. What an arm costs is read from the kernel and, for calls of the
// runtime, from its metrics where it has them.
package arm

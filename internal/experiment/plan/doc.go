// Package plan says what an experiment does: which generators (arms) are compared,
// under which workloads, how often and how long. A plan is read from a YAML file, from
// command line flags, or is one of those that come with the program; in each case
// every setting is checked, and what is wrong is told with its place and the reason,
// all of it at once.
package plan

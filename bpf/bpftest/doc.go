// Package bpftest plays the container runtime for tests of the probe: cgroups named like
// those of containers, and processes in them that do what they are told.
//
//	func TestMain(m *testing.M) { os.Exit(bpftest.Main(m)) }
//
//	func TestStart(t *testing.T) {
//		tree := bpftest.NewTree(t, bpftest.V2)
//		c := tree.Container(t)
//		p := c.Start(t)
//		p.Do(t, "run 10")
//		p.Quit(t)
//	}
//
// The processes are the test binary itself. Everything is gone when the test ends.
package bpftest

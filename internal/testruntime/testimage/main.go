//go:build linux

// Command testimage is the only program in the test image. Its first argument says
// what it plays; durations are Go's (1.5s), and one that is left out means for ever
// unless a part says otherwise.
//
//	pause                      the pod's pause container: waits and reaps; ends on SIGTERM
//	sleep [DURATION]           prints "ready", ends with code 0, or 143 on SIGTERM
//	ignore-term [DURATION]     the same, but SIGTERM does not move it
//	exit CODE [DURATION]       ends with CODE, at once unless a duration is given
//	true                       ends with code 0 at once
//	echo WORD...               prints the words
//	exec PART...               replaces itself with another part: a second exec of one process
//	leader-exit DURATION CODE  the main thread exits; another one ends the process later
//	tree N DURATION            starts N sleeping children and ends while they live
//	orphans N DURATION         starts such a tree and outlives its leader by DURATION
//	forkstorm RATE DURATION    forks, and executes /tiny RATE times a second, 0 for as often
//	                           as it can; prints how often it was. A fork costs more than
//	                           thirty execs, so a fast storm has up to 101 execs a process
//	memhog BYTES [DURATION]    touches so much memory and holds it
//
// A tree's children die with it where its leader is process 1 of a PID namespace:
// the kernel sees to that. They outlive it in pods that share a PID namespace.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// init keeps the main goroutine on the process's first thread, which is the only
// way for leader-exit to end just that one.
func init() { runtime.LockOSThread() }

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"pause"}
	}
	code, err := play(args[0], args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "testimage %s: %v\n", strings.Join(args, " "), err)
		os.Exit(2)
	}
	os.Exit(code)
}

// play returns the code to end with.
func play(part string, args []string) (code int, err error) {
	a := arguments{rest: args}
	switch part {
	case "pause":
		return pause(), nil
	case "sleep":
		return a.check(func() int { return sleep(a.duration(forEver)) })
	case "ignore-term":
		return a.check(func() int { return ignoreTerm(a.duration(forEver)) })
	case "exit":
		code, after := a.number(), a.duration(0)
		return a.check(func() int { time.Sleep(after); return code })
	case "true":
		return 0, nil
	case "echo":
		fmt.Println(strings.Join(args, " "))
		return 0, nil
	case "exec":
		return 0, syscall.Exec(self, append([]string{self}, args...), os.Environ())
	case "leader-exit":
		after, code := a.duration(forEver), a.number()
		return a.check(func() int { leaderExit(after, code); return 0 })
	case "tree":
		n, d := a.number(), a.duration(forEver)
		return a.checkErr(func() error { return startChildren(n, d) })
	case "orphans":
		n, d := a.number(), a.duration(forEver)
		return a.checkErr(func() error { return orphans(n, d) })
	case "forkstorm":
		rate, d := a.number(), a.duration(time.Second)
		return a.checkErr(func() error { return forkstorm(rate, d) })
	case "memhog":
		n, d := a.number(), a.duration(forEver)
		return a.check(func() int { memhog(n, d); return 0 })
	default:
		return 0, fmt.Errorf("no such part")
	}
}

// self is this program; /proc is mounted in every container.
const self = "/proc/self/exe"

// forEver is long enough for a test.
const forEver = 1000 * time.Hour

// arguments reads a part's arguments one after another and keeps the first error.
type arguments struct {
	rest []string
	err  error
}

func (a *arguments) next() (string, bool) {
	if len(a.rest) == 0 {
		return "", false
	}
	word := a.rest[0]
	a.rest = a.rest[1:]
	return word, true
}

func (a *arguments) number() int {
	word, ok := a.next()
	if !ok {
		a.fail(fmt.Errorf("a number is missing"))
		return 0
	}
	n, err := strconv.Atoi(word)
	a.fail(err)
	return n
}

func (a *arguments) duration(missing time.Duration) time.Duration {
	word, ok := a.next()
	if !ok {
		return missing
	}
	d, err := time.ParseDuration(word)
	a.fail(err)
	return d
}

func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// check runs do when the arguments were fine.
func (a *arguments) check(do func() int) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	return do(), nil
}

func (a *arguments) checkErr(do func() error) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	return 0, do()
}

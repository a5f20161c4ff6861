package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hybrid-pleg": main})
}

// patience bounds every wait of a script. What is waited for comes far sooner on
// an idle machine.
const patience = time.Minute

// TestScripts runs the program as a user does. The commands beside testscript's
// own:
//
//	exits CODE ARGS…        run hybrid-pleg to its end, expect a status; its output
//	                        goes to the files out and err
//	start NAME ARGS…        start it; output goes to NAME.out and NAME.err
//	start-stuck NAME ARGS…  the same, with a standard output that nobody reads
//	start-read NAME N ARGS… the same, with a reader that goes after N lines
//	start-plain NAME ARGS…  the same, without the capabilities that eBPF takes
//	waitfor FILE N REGEXP   wait until N lines of a file match
//	signal NAME SIGNAL…     send signals
//	ended NAME CODE         wait for its end, expect a status
//	events FILE             the file is NDJSON, with the fields documented, lawful
//	get NAME PATH FILE      fetch a page of its --http address; the first line is
//	                        the status
//	ask SOCKET PATH FILE    the same from a daemon's socket
//	metric NAME REGEXP      wait until a line of /metrics matches
//	serve KIND PATH         listen on a socket: cri, grpc, http, silent, or dead (the
//	                        socket remains, nobody listens)
//	told FILE N             the file is what watch writes, lawful, with N resets
//	clean                   nothing is left in $TMPDIR
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// Short, since a socket's path may have little more than 100 bytes.
			tmp, err := os.MkdirTemp("", "hp")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(tmp) })
			env.Setenv("TMPDIR", tmp)
			env.Setenv("CONTAINER_RUNTIME_ENDPOINT", "")
			env.Values[started{}] = map[string]*process{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":       cmdExits,
			"start":       cmdStart,
			"start-stuck": cmdStartStuck,
			"start-read":  cmdStartRead,
			"start-plain": cmdStartPlain,
			"waitfor":     cmdWaitFor,
			"signal":      cmdSignal,
			"ended":       cmdEnded,
			"events":      cmdEvents,
			"get":         cmdGet,
			"ask":         cmdAsk,
			"metric":      cmdMetric,
			"serve":       cmdServe,
			"clean":       cmdClean,
			"told":        cmdTold,
		},
	})
}

// process is a hybrid-pleg that a script has started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // what Wait returned, once done
}

// started is the key of the processes by name among a script's values.
type started struct{}

func processes(ts *testscript.TestScript) map[string]*process {
	return ts.Value(started{}).(map[string]*process)
}

func named(ts *testscript.TestScript, name string) *process {
	p := processes(ts)[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

// command is hybrid-pleg with a script's environment; its binary is the test's.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	var path string
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if p := filepath.Join(dir, "hybrid-pleg"); isFile(p) {
			path = p
			break
		}
	}
	if len(args) > 0 && args[0] == "run" && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--listen") }) {
		// The default is one for the whole machine, and scripts run side by side.
		args = append(slices.Clone(args), "--listen=")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "CONTAINER_RUNTIME_ENDPOINT", "NO_COLOR", "GOCOVERDIR"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func launch(ts *testscript.TestScript, name string, cmd *exec.Cmd, start func(*exec.Cmd) error) {
	errFile, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errFile.Close()
	cmd.Stderr = errFile
	if cmd.Stdout == nil {
		out, err := os.Create(ts.MkAbs(name + ".out"))
		ts.Check(err)
		defer out.Close()
		cmd.Stdout = out
	}
	ts.Check(start(cmd))
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	processes(ts)[name] = p
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-p.done
	})
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	launch(ts, args[0], command(ts, args[1:]), (*exec.Cmd).Start)
}

func cmdStartStuck(ts *testscript.TestScript, neg bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	defer w.Close()
	ts.Defer(func() { r.Close() })
	ts.Check(shrinkPipe(w))
	cmd := command(ts, args[1:])
	cmd.Stdout = w
	launch(ts, args[0], cmd, (*exec.Cmd).Start)
}

func cmdStartRead(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	r, w, err := os.Pipe()
	ts.Check(err)
	defer w.Close()
	cmd := command(ts, args[2:])
	cmd.Stdout = w
	launch(ts, args[0], cmd, (*exec.Cmd).Start)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer r.Close()
		var one [1]byte
		for n > 0 {
			if _, err := r.Read(one[:]); err != nil {
				return
			}
			if one[0] == '\n' {
				n--
			}
		}
	})
	ts.Defer(wg.Wait)
}

func cmdStartPlain(ts *testscript.TestScript, neg bool, args []string) {
	launch(ts, args[0], command(ts, args[1:]), startPlain)
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	cmd := command(ts, args[1:])
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	ts.Check(cmd.Start())
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !timer.Stop() {
		ts.Fatalf("hybrid-pleg %q did not end; it said\n%s", args[1:], errs.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(out.String()), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(errs.String()), 0o600))
	ts.Logf("%s", errs.String())
	checkStatus(ts, err, args[0])
}

func checkStatus(ts *testscript.TestScript, err error, want string) {
	status := "0"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = strconv.Itoa(exit.ExitCode())
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			status = ws.Signal().String()
		}
	} else {
		ts.Check(err)
	}
	if matched, err := regexp.MatchString("^(?:"+want+")$", status); err != nil || !matched {
		ts.Fatalf("the exit status is %s, want %s", status, want)
	}
}

// poll waits until ok is content, and tells what was the matter if it never was.
func poll(ts *testscript.TestScript, p *process, ok func() (problem string)) {
	deadline := time.Now().Add(patience)
	for {
		ended := false
		if p != nil {
			select {
			case <-p.done:
				ended = true
			default:
			}
		}
		problem := ok()
		switch {
		case problem == "":
			return
		case ended:
			ts.Fatalf("the program has ended (%v), and %s", p.err, problem)
		case time.Now().After(deadline):
			ts.Fatalf("after %s, %s", patience, problem)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	re := regexp.MustCompile("(?m)" + args[2])
	p := processes(ts)[strings.TrimSuffix(strings.TrimSuffix(args[0], ".out"), ".err")]
	poll(ts, p, func() string {
		text := ts.ReadFile(args[0])
		if found := len(re.FindAllString(text, -1)); found < n {
			return fmt.Sprintf("%s has %d matches of %q, want %d:\n%s", args[0], found, args[2], n, text)
		}
		return ""
	})
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args[1:] {
		sig, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}[name]
		if !ok {
			ts.Fatalf("there is no signal %s", name)
		}
		ts.Check(named(ts, args[0]).cmd.Process.Signal(sig))
	}
}

func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s did not end; it said\n%s", args[0], ts.ReadFile(args[0]+".err"))
	}
	checkStatus(ts, p.err, args[1])
}

func cmdEvents(ts *testscript.TestScript, neg bool, args []string) {
	var events []event.Event
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if !strings.HasSuffix(line, "\n") {
			ts.Fatalf("the last line is cut off: %q", line)
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		var e event.Event
		if err := dec.Decode(&e); err != nil {
			ts.Fatalf("%v: %s", err, line)
		}
		var fields map[string]json.RawMessage
		ts.Check(json.Unmarshal([]byte(line), &fields))
		for _, name := range []string{"epoch", "sequence", "id", "type", "time", "pod", "sandbox", "from", "to", "detection", "inferred"} {
			if fields[name] == nil && e.Type != event.PodSync {
				ts.Fatalf("it has no %s: %s", name, line)
			}
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		ts.Fatalf("there is no event")
	}
	if first := events[0].Sequence; first != 1 {
		ts.Fatalf("the first event has sequence %d", first)
	}
	ts.Check(eventtest.CheckLaw(events))
}

var address = regexp.MustCompile(`http=http://(\S+)`)

// fetch gets a page, once the log tells where.
func fetch(ts *testscript.TestScript, name, path string) (page, problem string) {
	at := address.FindStringSubmatch(ts.ReadFile(name + ".err"))
	if at == nil {
		return "", "its log tells no address"
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + at[1] + path)
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err.Error()
	}
	return resp.Status + "\n" + string(body), ""
}

func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	poll(ts, named(ts, args[0]), func() string {
		page, problem := fetch(ts, args[0], args[1])
		if problem == "" {
			ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(page), 0o600))
		}
		return problem
	})
}

func cmdMetric(ts *testscript.TestScript, neg bool, args []string) {
	re := regexp.MustCompile("(?m)" + args[1])
	poll(ts, named(ts, args[0]), func() string {
		page, problem := fetch(ts, args[0], "/metrics")
		if problem == "" && !re.MatchString(page) {
			problem = fmt.Sprintf("no metric matches %q:\n%s", args[1], page)
		}
		return problem
	})
}

func cmdClean(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := os.ReadDir(ts.Getenv("TMPDIR"))
	ts.Check(err)
	for _, e := range entries {
		ts.Fatalf("%s was left behind", e.Name())
	}
}

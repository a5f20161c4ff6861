package embedded

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Behaviour is what a container does once started.
type Behaviour struct {
	// Exits is false for a container that runs until it is stopped.
	Exits bool
	// After is how long it runs before it exits by itself.
	After time.Duration
	// ExitCode, Reason and Message are those of its own exit. An empty Reason
	// becomes "Completed" or "Error", as in containerd.
	ExitCode int32
	Reason   string
	Message  string
	// TermExitCode is the exit code after SIGTERM.
	TermExitCode int32
	// IgnoresTerm makes a stop take its whole grace period and end in SIGKILL.
	IgnoresTerm bool
	// FailsToStart makes StartContainer fail, which leaves the container exited
	// with code 128 and reason "StartError", as in containerd. Message says why.
	FailsToStart bool
}

// Exit codes as the runtimes give them: 128 plus the signal's number.
const (
	exitKilled     = 128 + 9
	exitTerminated = 128 + 15
	exitStartError = 128
)

// ParseCommand reads a container's command and arguments, taken together:
//
//	run                          runs until stopped
//	exit CODE [after DURATION]   exits by itself, at once or later
//	oom [after DURATION]         exits with 137 and reason OOMKilled
//	fail [message TEXT…]         can't be started
//	sleep SECONDS, true, false   as in a shell
//
// Behind run, exit and oom may follow, in any order:
//
//	on-term CODE                 the exit code after SIGTERM; 143 without it
//	ignore-term                  only SIGKILL ends it
//	reason WORD                  instead of Completed or Error
//	message TEXT…                the rest of the words
//
// DURATION is Go's: 1.5s, 2m. No command, and any other first word, runs until
// stopped: what a real image would do is not for this runtime to know.
func ParseCommand(words []string) (Behaviour, error) {
	b := Behaviour{TermExitCode: exitTerminated}
	if len(words) == 0 {
		return b, nil
	}
	verb, rest := words[0], words[1:]
	var err error
	switch verb {
	case "run":
	case "exit":
		b.Exits = true
		if b.ExitCode, rest, err = takeCode(verb, rest); err != nil {
			return b, err
		}
	case "oom":
		b.Exits, b.ExitCode, b.Reason = true, exitKilled, "OOMKilled"
	case "fail":
		b.FailsToStart = true
	case "true", "false":
		b.Exits = true
		if verb == "false" {
			b.ExitCode = 1
		}
		return b, nil
	case "sleep":
		// Not an error if unreadable: it may be a command for a real shell.
		if len(rest) == 1 {
			if s, err := strconv.ParseFloat(rest[0], 64); err == nil && s >= 0 && s < 1e9 {
				b.Exits, b.After = true, time.Duration(s*float64(time.Second))
			}
		}
		return b, nil
	default:
		return b, nil
	}
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		switch {
		case word == "message":
			b.Message = strings.Join(rest, " ")
			return b, nil
		case b.FailsToStart:
			return b, fmt.Errorf("command %q: only \"message TEXT\" may follow \"fail\", not %q", words, word)
		case word == "ignore-term":
			b.IgnoresTerm = true
		case word == "on-term":
			if b.TermExitCode, rest, err = takeCode(word, rest); err != nil {
				return b, err
			}
		case len(rest) == 0:
			return b, fmt.Errorf("command %q: don't know %q, or what should follow it is missing", words, word)
		case word == "after" && b.Exits:
			if b.After, err = time.ParseDuration(rest[0]); err != nil {
				return b, fmt.Errorf("command %q: after: %w", words, err)
			}
			rest = rest[1:]
		case word == "reason":
			b.Reason, rest = rest[0], rest[1:]
		default:
			return b, fmt.Errorf("command %q: don't know %q; see ParseCommand", words, word)
		}
	}
	return b, nil
}

func takeCode(word string, rest []string) (int32, []string, error) {
	if len(rest) == 0 {
		return 0, nil, fmt.Errorf("command: an exit code must follow %q", word)
	}
	code, err := strconv.ParseInt(rest[0], 10, 32)
	if err != nil {
		return 0, nil, fmt.Errorf("command: exit code after %q: %w", word, err)
	}
	return int32(code), rest[1:], nil
}

// reasonFor is what containerd says of an exit that nobody explained.
func reasonFor(code int32, reason string) string {
	switch {
	case reason != "":
		return reason
	case code == 0:
		return "Completed"
	default:
		return "Error"
	}
}

package embedded

import (
	"strings"
	"testing"
	"time"
)

func TestParseCommand(t *testing.T) {
	for command, want := range map[string]Behaviour{
		"":                           {TermExitCode: 143},
		"run":                        {TermExitCode: 143},
		"run on-term 0":              {},
		"run ignore-term":            {TermExitCode: 143, IgnoresTerm: true},
		"exit 3":                     {TermExitCode: 143, Exits: true, ExitCode: 3},
		"exit 3 after 1.5s":          {TermExitCode: 143, Exits: true, ExitCode: 3, After: 1500 * time.Millisecond},
		"exit 0 reason Odd":          {TermExitCode: 143, Exits: true, Reason: "Odd"},
		"exit 1 message a b after 1": {TermExitCode: 143, Exits: true, ExitCode: 1, Message: "a b after 1"},
		"oom after 2m on-term 7":     {TermExitCode: 7, Exits: true, ExitCode: 137, Reason: "OOMKilled", After: 2 * time.Minute},
		"fail message no such file":  {TermExitCode: 143, FailsToStart: true, Message: "no such file"},
		"true":                       {TermExitCode: 143, Exits: true},
		"false":                      {TermExitCode: 143, Exits: true, ExitCode: 1},
		"sleep 0.5":                  {TermExitCode: 143, Exits: true, After: 500 * time.Millisecond},
		"sleep infinity":             {TermExitCode: 143},
		"/pause":                     {TermExitCode: 143},
		"sh -c exit":                 {TermExitCode: 143},
	} {
		got, err := ParseCommand(strings.Fields(command))
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", command, got, err, want)
		}
	}
}

func TestParseCommandRefuses(t *testing.T) {
	for _, command := range []string{
		"exit", "exit x", "exit 99999999999", "exit 0 after", "exit 0 after soon", "exit 0 later 2s",
		"run after 2s", "run on-term", "oom reason", "fail after 2s", "run nonsense",
	} {
		if b, err := ParseCommand(strings.Fields(command)); err == nil {
			t.Errorf("%q was taken as %+v", command, b)
		}
	}
}

package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type values struct {
	period time.Duration
	list   []string
	word   string
	on     bool
	n      int
}

func flags(v *values) *pflag.FlagSet {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.DurationVar(&v.period, "period", time.Second, "")
	f.StringSliceVar(&v.list, "list", []string{"a", "b"}, "")
	f.StringVar(&v.word, "word", "w", "")
	f.BoolVar(&v.on, "on", false, "")
	f.IntVar(&v.n, "n", 1, "")
	f.String("config", "", "")
	return f
}

func TestApply(t *testing.T) {
	tests := []struct {
		name, file string
		args       []string
		want       string // what the values are or, after a !, what the error says
	}{
		{"empty", "", nil, "1s [a b] w false 1"},
		{"only comments", "# nothing\n", nil, "1s [a b] w false 1"},
		{"all", "period: 3s\nlist: [x, y]\nword: z\non: true\nn: 7\n", nil, "3s [x y] z true 7"},
		{"a list in one word", "list: x,y", nil, "1s [x y] w false 1"},
		{"a list down the page", "list:\n- x\n- y\n", nil, "1s [x y] w false 1"},
		{"no list", "list: []", nil, "1s [] w false 1"},
		{"quoted", `word: "a: b"`, nil, "1s [a b] a: b false 1"},
		{"the empty word", `word: ""`, nil, "1s [a b]  false 1"},
		{"a number for a word", `word: 10`, nil, "1s [a b] 10 false 1"},
		{"the command line wins", "period: 3s\nlist: x\nword: z", []string{"--period=5s", "--list=q", "--word="}, "5s [q]  false 1"},
		{"what the command line overrules is not checked", "period: soon", []string{"--period=5s"}, "5s [a b] w false 1"},

		{"unknown key", "\nword: z\nwrod: z", nil, `!f.yaml:3: unknown key "wrod"; the keys are list, n, on, period, word`},
		{"excepted key", "config: x", nil, `!f.yaml:1: unknown key "config"`},
		{"twice", "word: a\nword: b", nil, `!f.yaml:2: "word" is set already in line 1`},
		{"wrong type", "period: 10", nil, `!f.yaml:1: period: "10" is no duration`},
		{"wrong number", "n: many", nil, `!f.yaml:1: n: "many" is no int`},
		{"wrong bool", "on: perhaps", nil, `!f.yaml:1: on: "perhaps" is no bool`},
		{"a map", "word:\n  a: b", nil, "!word: give a plain value or a list"},
		{"a list in a list", "list: [[a]]", nil, "!list: a list may hold only plain values"},
		{"no value", "word:", nil, "!word: it has no value"},
		{"null", "word: null", nil, "!word: it has no value"},
		{"an alias", "word: &x a\nlist: *x", nil, "!list: give a plain value or a list"},
		{"a word", "word", nil, `!f.yaml:1: give one "flag: value" a line`},
		{"a list", "- word", nil, `!f.yaml:1: give one`},
		{"two documents", "word: a\n---\nword: b", nil, "!put all settings into one YAML document"},
		{"no YAML", "word: [", nil, "!f.yaml: yaml: "},
		{"no text", "word: \x00", nil, "!f.yaml: yaml: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var v values
			f := flags(&v)
			if err := f.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			err := Apply("f.yaml", []byte(test.file), f, "config")
			if says, bad := strings.CutPrefix(test.want, "!"); bad {
				if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %v, want one that says %q", err, says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := v.String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func (v *values) String() string {
	on := "false"
	if v.on {
		on = "true"
	}
	return strings.Join([]string{v.period.String(), "[" + strings.Join(v.list, " ") + "]", v.word, on, string(rune('0' + v.n))}, " ")
}

// FuzzApply finds no file that does more than fail.
func FuzzApply(f *testing.F) {
	f.Add([]byte("period: 3s\nlist: [x, y]\nword: z\n"))
	f.Add([]byte("? [a]\n: b\n<<: *x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v values
		if err := Apply("f.yaml", data, flags(&v)); err != nil && !errors.Is(err, ErrConfig) {
			t.Error(err)
		}
	})
}

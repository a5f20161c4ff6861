package merge

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestTokenText(t *testing.T) {
	for text, want := range map[string]Token{
		"9f86d081884c7d65-12":          {"9f86d081884c7d65", 12},
		"e-0":                          {"e", 0},
		"A_z-18446744073709551615":     {"A_z", math.MaxUint64},
		strings.Repeat("e", 64) + "-1": {strings.Repeat("e", 64), 1},
	} {
		got, err := ParseToken(text)
		if err != nil || got != want {
			t.Errorf("ParseToken(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%q reads back as %q", text, got)
		}
	}
}

func TestTokenErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "it is empty",
		"9f86d081884c7d65":                "want an epoch, a hyphen and a sequence number",
		"-12":                             "the epoch has 0 characters",
		"e-":                              `the sequence "" is no decimal number`,
		"e--1":                            `the sequence "-1" is no decimal number`,
		"e-+1":                            `the sequence "+1" is no decimal number`,
		"e-01":                            `the sequence "01" is no decimal number`,
		"e-1_0":                           `the sequence "1_0" is no decimal number`,
		"e-1 ":                            `the sequence "1 " is no decimal number`,
		"e-18446744073709551616":          "is no decimal number of 64 bits",
		"e f-1":                           `holds ' '`,
		"é-1":                             "want letters, digits and underscores",
		strings.Repeat("e", 65) + "-1":    "want 1 to 64",
		strings.Repeat("e", 1<<20) + "-1": "which is more than any token has",
	} {
		got, err := ParseToken(text)
		if !errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseToken(%.40q): error %v; want ErrBadToken with %q", text, err, want)
		} else if len(err.Error()) > 300 {
			t.Errorf("ParseToken(%.40q): the error has %d bytes", text, len(err.Error()))
		}
		if !got.IsZero() {
			t.Errorf("ParseToken(%.40q) = %+v beside an error", text, got)
		}
	}
}

func TestTokenJSON(t *testing.T) {
	type doc struct{ Token Token }
	for _, want := range []Token{{}, {"abc", 7}} {
		b, err := json.Marshal(doc{want})
		if err != nil {
			t.Fatal(err)
		}
		got := doc{Token{"before", 1}}
		if err := json.Unmarshal(b, &got); err != nil || got.Token != want {
			t.Errorf("%s reads back as %+v, %v", b, got, err)
		}
	}
	var got doc
	if err := json.Unmarshal([]byte(`{"Token":"x"}`), &got); !errors.Is(err, ErrBadToken) {
		t.Errorf("error %v, want ErrBadToken", err)
	}
}

func TestNewEpoch(t *testing.T) {
	a, b := newEpoch(), newEpoch()
	if a == b || checkEpoch(a) != nil || len(a) != 16 {
		t.Errorf("epochs %q and %q: want two different ones of 16 digits", a, b)
	}
}

func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"", "e-1", "9f86d081884c7d65-18446744073709551615", "-", "e-00", "a-b-1", "\xff-1", "e-18446744073709551616"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err != nil {
			if !errors.Is(err, ErrBadToken) || !token.IsZero() {
				t.Fatalf("ParseToken(%q) = %+v, %v", s, token, err)
			}
			return
		}
		if token.String() != s || token.check() != nil {
			t.Fatalf("ParseToken(%q) = %+v, which is written %q", s, token, token)
		}
	})
}

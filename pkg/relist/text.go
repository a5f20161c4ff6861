package relist

import (
	"strings"
	"unicode/utf8"
)

// rememberTexts bounds how many different names and images are kept for sharing.
const rememberTexts = 4096

// texts shares equal strings among records: a node runs many containers of few
// names and images, and each listing brings a fresh copy of every string. The
// unique package does not fit, since it forgets a string whose handle is not kept.
// The zero value is empty.
type texts map[string]string

func (t *texts) share(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := (*t)[s]; ok {
		return known
	}
	if *t == nil || len(*t) >= rememberTexts {
		*t = make(texts)
	}
	(*t)[s] = s
	return s
}

// text returns s fit for an event, which must be valid UTF-8 in JSON and
// protobuf alike.
func (s *Store) text(str string) string {
	if utf8.ValidString(str) {
		return str
	}
	s.opts.OnAnomaly(AnomalyInvalidUTF8)
	return validText(str)
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

package merge

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrBadToken marks the error for a token that can't be one of any log.
var ErrBadToken = errors.New("bad token")

// maxEpoch bounds an epoch's length, so that a token from outside can be refused
// before it is looked at.
const maxEpoch = 64

// Token is a place in the stream of events: right after event Sequence of the
// numbering that Epoch names. The zero Token is no place.
//
// Its text form, used wherever a token leaves the process, is the epoch, a hyphen
// and the sequence number: "9f86d081884c7d65-12".
type Token struct {
	Epoch    string
	Sequence uint64
}

// ParseToken reads the text form. The error wraps [ErrBadToken] and says what is
// wrong with s.
func ParseToken(s string) (Token, error) {
	if s == "" {
		return Token{}, fmt.Errorf("%w: it is empty", ErrBadToken)
	}
	if len(s) > maxEpoch+len("-18446744073709551615") {
		return Token{}, fmt.Errorf("%w: it has %d bytes, which is more than any token has", ErrBadToken, len(s))
	}
	epoch, digits, ok := strings.Cut(s, "-")
	if !ok {
		return Token{}, fmt.Errorf("%w %q: want an epoch, a hyphen and a sequence number", ErrBadToken, s)
	}
	if err := checkEpoch(epoch); err != nil {
		return Token{}, fmt.Errorf("%w %q: %w", ErrBadToken, s, err)
	}
	sequence, err := strconv.ParseUint(digits, 10, 64)
	// One token has one text, so that texts can be compared.
	if err != nil || strconv.FormatUint(sequence, 10) != digits {
		return Token{}, fmt.Errorf("%w %q: the sequence %q is no decimal number of 64 bits", ErrBadToken, s, digits)
	}
	return Token{Epoch: epoch, Sequence: sequence}, nil
}

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t == Token{} }

// String returns the text form; empty for the zero Token.
func (t Token) String() string {
	if t.IsZero() {
		return ""
	}
	var buf [maxEpoch + 21]byte
	return string(t.append(buf[:0]))
}

func (t Token) append(b []byte) []byte {
	b = append(append(b, t.Epoch...), '-')
	return strconv.AppendUint(b, t.Sequence, 10)
}

// MarshalText returns the text form; empty for the zero Token.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote; the error is that of [ParseToken].
func (t *Token) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = Token{}
		return nil
	}
	parsed, err := ParseToken(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// check refuses a token that ParseToken can't have returned.
func (t Token) check() error {
	if err := checkEpoch(t.Epoch); err != nil {
		return fmt.Errorf("%w %q: %w", ErrBadToken, t.String(), err)
	}
	return nil
}

// checkEpoch keeps epochs short and free of what has a meaning in tokens, event
// IDs, URLs and headers.
func checkEpoch(epoch string) error {
	if epoch == "" || len(epoch) > maxEpoch {
		return fmt.Errorf("the epoch has %d characters, want 1 to %d", len(epoch), maxEpoch)
	}
	for i := range len(epoch) {
		switch c := epoch[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		default:
			return fmt.Errorf("the epoch %q holds %q, want letters, digits and underscores", epoch, c)
		}
	}
	return nil
}

// newEpoch makes an epoch that no other log has: 64 random bits.
func newEpoch() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}

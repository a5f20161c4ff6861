package view

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// ErrUsage marks an error that comes from unusable settings.
var ErrUsage = errors.New("usage")

// usageError marks an error without adding to what it says.
type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{ErrUsage, e.error} }

func usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// Format is a way of showing pods and events.
type Format string

// The formats.
const (
	// Auto is a table on a terminal, and NDJSON otherwise.
	Auto   Format = "auto"
	Table  Format = "table"
	Wide   Format = "wide"
	JSON   Format = "json"
	NDJSON Format = "ndjson"
)

func parseFormat(word string) (Format, error) {
	switch f := Format(word); f {
	case Auto, Table, Wide, JSON, NDJSON:
		return f, nil
	}
	return "", usage("--output: there is no format %q: give auto, table, wide, json or ndjson", word)
}

// Options are the settings that both commands have, in the form in which a user
// writes them: one a command line flag.
type Options struct {
	Address        string
	Namespaces     []string
	PodNames       []string
	PodUIDs        []string
	Selector       string
	Output         string
	ConnectTimeout time.Duration

	Stdout, Stderr *os.File
	Getenv         func(string) string
}

// WatchOptions are the settings of [Watch].
type WatchOptions struct {
	Options
	Since     string
	TokenFile string
	Types     []string
	Subject   string
	// NoSnapshot leaves the pods at the beginning out.
	NoSnapshot bool
}

// PodsOptions are the settings of [Pods].
type PodsOptions struct {
	Options
	Follow bool
}

// settings are options that have been checked.
type settings struct {
	Options
	format   Format
	text     output.TextOptions
	terminal bool
	client   *client.Client
	filter   client.Filter
}

// check refuses what can't work, before anything is started. Close the client after
// use.
func (o Options) check(f client.Filter) (*settings, error) {
	s := &settings{Options: o}
	var err error
	if s.format, err = parseFormat(o.Output); err != nil {
		return nil, err
	}
	if o.ConnectTimeout < 0 {
		return nil, usage("--connect-timeout: %s is below 0", o.ConnectTimeout)
	}
	s.text, s.terminal = output.OptionsFor(o.Stdout, o.Getenv)
	if s.format == Auto {
		s.format = NDJSON
		if s.terminal {
			s.format = Table
		}
	}
	s.text.Wide = s.format == Wide
	f.Namespaces, f.PodNames, f.PodUIDs, f.LabelSelector = o.Namespaces, o.PodNames, o.PodUIDs, o.Selector
	s.filter = f
	if err := f.Check(); err != nil {
		return nil, usageError{err}
	}
	if s.client, err = client.New(client.Options{Address: o.Address, Log: s.logger()}); err != nil {
		return nil, usage("--address: %w", err)
	}
	return s, nil
}

// statusLine reports whether a line at the bottom tells how things stand.
func (s *settings) statusLine() bool {
	return s.terminal && (s.format == Table || s.format == Wide) && s.Getenv("TERM") != "dumb"
}

// logger tells of lost connections where no status line does.
func (s *settings) logger() *slog.Logger {
	if s.statusLine() {
		return nil
	}
	return slog.New(slog.NewTextHandler(s.Stderr, nil))
}

// since is the place to go on from: the flag's or, where it exists, the file's.
func (o WatchOptions) since() (merge.Token, error) {
	text, from := o.Since, "--since"
	if o.TokenFile != "" {
		if o.Since != "" {
			return merge.Token{}, usage("give --since or --token-file, not both")
		}
		from = "--token-file " + o.TokenFile
		data, err := os.ReadFile(o.TokenFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return merge.Token{}, usage("--token-file: %w", err)
		}
		text = strings.TrimSpace(string(data))
	}
	var t merge.Token
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return merge.Token{}, usage("%s: %w; leave it out to begin with all pods", from, err)
	}
	return t, nil
}

// events is the part of the filter that picks events.
func (o WatchOptions) events() (f client.Filter, err error) {
	if f.Types, err = filter.ParseTypes(o.Types); err != nil {
		return f, usage("--type: %w", err)
	}
	subject, err := filter.ParseSubject(o.Subject)
	if err != nil {
		return f, usage("--subject: %w", err)
	}
	f.Subject = client.Subject(subject)
	return f, nil
}

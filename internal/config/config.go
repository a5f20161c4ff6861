// Package config reads a configuration file into command line flags: a key of
// the file is the long name of a flag, and a flag given on the command line wins.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// ErrConfig marks an unusable configuration file.
var ErrConfig = errors.New("unusable configuration")

// Load sets the flags that the YAML file at path names and the command line does
// not. except names flags that a file can't set. The error lists everything that
// is wrong with the file, with lines; the flags are of no use then.
func Load(path string, flags *pflag.FlagSet, except ...string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return Apply(path, data, flags, except...)
}

// Apply is [Load] for a file that has been read.
func Apply(path string, data []byte, flags *pflag.FlagSet, except ...string) error {
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // an empty file sets nothing
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	default:
		return fmt.Errorf("%w: %s:%d: put all settings into one YAML document", ErrConfig, path, second.Line)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%w: %s:%d: give one \"flag: value\" a line", ErrConfig, path, root.Line)
	}

	var wrong []error
	complain := func(n *yaml.Node, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s:%d: "+format, append([]any{path, n.Line}, args...)...))
	}
	type setting struct {
		key   *yaml.Node
		value string
	}
	var settings []setting
	seen := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			complain(key, "%q is set already in line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		if flags.Lookup(key.Value) == nil || slices.Contains(except, key.Value) {
			complain(key, "unknown key %q; the keys are %s", key.Value, strings.Join(keys(flags, except), ", "))
			continue
		}
		value, err := text(node)
		if err != nil {
			complain(node, "%s: %w", key.Value, err)
			continue
		}
		settings = append(settings, setting{key, value})
	}
	for _, s := range settings {
		flag := flags.Lookup(s.key.Value)
		if flag.Changed {
			continue
		}
		if err := flag.Value.Set(s.value); err != nil {
			complain(s.key, "%s: %q is no %s: %w", s.key.Value, s.value, flag.Value.Type(), err)
			continue
		}
		flag.Changed = true
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %w", ErrConfig, errors.Join(wrong...))
	}
	return nil
}

// text is a value as it would be written on the command line; a list becomes
// words separated by commas.
func text(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", errors.New("it has no value; leave the line out, or write \"\" for the empty one")
		}
		return n.Value, nil
	case yaml.SequenceNode:
		words := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return "", errors.New("a list may hold only plain values")
			}
			words[i] = item.Value
		}
		return strings.Join(words, ","), nil
	default:
		return "", errors.New("give a plain value or a list")
	}
}

func keys(flags *pflag.FlagSet, except []string) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(except, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

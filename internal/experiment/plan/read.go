package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// source says where settings were read, for messages.
type source struct {
	at    string            // of the whole
	lines map[string]string // of each setting that was given
}

func (s source) of(name string) string {
	if at, ok := s.lines[name]; ok {
		return at
	}
	return s.at
}

func (s *source) note(name, at string) {
	if s.lines == nil {
		s.lines = map[string]string{}
	}
	s.lines[name] = at
}

// Read reads a plan from a YAML file and checks it. The error wraps [ErrPlan] and
// lists everything that is wrong, with lines.
func Read(path string) (*Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return Parse(path, data)
}

// Parse is [Read] for a file that has been read.
func Parse(path string, data []byte) (*Plan, error) {
	p, wrong := parse(path, data)
	return p.done(filepath.Dir(path), wrong)
}

// parse reads the settings, each by itself.
func parse(path string, data []byte) (*Plan, []error) {
	r := &reader{path: path}
	p := newPlan()
	p.at = path
	if root := r.document(data); root != nil {
		r.plan(root, &p)
	}
	return &p, r.wrong
}

// done loads what the plan names, relative to dir, and checks all of it together.
func (p *Plan) done(dir string, wrong []error) (*Plan, error) {
	if len(wrong) == 0 {
		wrong = p.load(dir)
	}
	if len(wrong) == 0 {
		wrong = p.finish()
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrPlan, errors.Join(wrong...))
	}
	return p, nil
}

// reader collects what is wrong with a file.
type reader struct {
	path  string
	wrong []error
}

func (r *reader) complain(n *yaml.Node, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Errorf("%s: "+format, append([]any{r.at(n)}, args...)...))
}

func (r *reader) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.path, n.Line) }

func (r *reader) document(data []byte) *yaml.Node {
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		r.wrong = append(r.wrong, fmt.Errorf("%s: the file is empty", r.path))
		return nil
	case err != nil:
		r.wrong = append(r.wrong, fmt.Errorf("%s: %w", r.path, err))
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		r.complain(&second, "put the plan into one YAML document")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.wrong = append(r.wrong, fmt.Errorf("%s: %w", r.path, err))
		return nil
	}
	return doc.Content[0]
}

func (r *reader) plan(root *yaml.Node, p *Plan) {
	keys := planKeys()
	r.mapping(root, append(names(keys), "arms", "workloads"), func(name, value *yaml.Node) {
		p.note(name.Value, r.at(name))
		switch name.Value {
		case "arms":
			r.sequence(value, "arms", func(n *yaml.Node) {
				a := newArm()
				a.at = r.at(n)
				if settings(r, n, armKeys(), &a, &a.source) {
					p.Arms = append(p.Arms, a)
				}
			})
		case "workloads":
			r.sequence(value, "workloads", func(n *yaml.Node) {
				w := newWorkload()
				w.at = r.at(n)
				if settings(r, n, workloadKeys(), &w, &w.source) {
					p.Workloads = append(p.Workloads, w)
				}
			})
		default:
			apply(r, name, value, keys, p, &p.source)
		}
	})
}

// settings reads a mapping into a T and reports whether all was well.
func settings[T any](r *reader, n *yaml.Node, keys []key[T], to *T, src *source) bool {
	before := len(r.wrong)
	r.mapping(n, names(keys), func(name, value *yaml.Node) { apply(r, name, value, keys, to, src) })
	return len(r.wrong) == before
}

func apply[T any](r *reader, name, value *yaml.Node, keys []key[T], to *T, src *source) {
	text, err := scalar(value)
	if err == nil {
		i := slices.IndexFunc(keys, func(k key[T]) bool { return k.name == name.Value })
		err = keys[i].set(to, text)
	}
	if err != nil {
		r.complain(value, "%s: %w", name.Value, err)
	}
	src.note(name.Value, r.at(name))
}

// mapping hands over the settings of a mapping, without those that are unknown or
// there twice.
func (r *reader) mapping(n *yaml.Node, known []string, each func(name, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.complain(n, "give settings, one \"name: value\" a line; the names are %s", strings.Join(known, ", "))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[name.Value]; twice {
			r.complain(name, "%q is set already in line %d", name.Value, line)
			continue
		}
		seen[name.Value] = name.Line
		if !slices.Contains(known, name.Value) {
			r.complain(name, "unknown key %q; the keys here are %s", name.Value, strings.Join(known, ", "))
			continue
		}
		each(name, value)
	}
}

func (r *reader) sequence(n *yaml.Node, name string, each func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		r.complain(n, "%s: give a list, each with a \"-\" in front", name)
		return
	}
	for _, item := range n.Content {
		each(item)
	}
}

// scalar is a value as one would write it on the command line; a list becomes words
// separated by commas.
func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", errors.New("it has no value")
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
		if len(words) == 0 {
			return "", errors.New("the list is empty")
		}
		return strings.Join(words, ","), nil
	default:
		return "", errors.New("give a plain value or a list")
	}
}

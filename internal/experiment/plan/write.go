package plan

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML writes the plan in the form that [Parse] reads, with every setting, so that it
// says all even when defaults change.
func (p *Plan) YAML() ([]byte, error) {
	root := mappingOf(planKeys(), p)
	root.Content = append(root.Content, text("arms"), sequenceOf(armKeys(), p.Arms),
		text("workloads"), sequenceOf(workloadKeys(), p.Workloads))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return out.Bytes(), nil
}

func sequenceOf[T any](keys []key[T], items []T) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range items {
		n.Content = append(n.Content, mappingOf(keys, &items[i]))
	}
	return n
}

func mappingOf[T any](keys []key[T], of *T) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range keys {
		if v := k.get(of); v != "" {
			n.Content = append(n.Content, text(k.name), text(v))
		}
	}
	return n
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

package plan

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed plans/*.yaml
var plans embed.FS

// Ready are the names of the plans that come with the program.
func Ready() []string {
	entries, err := plans.ReadDir("plans")
	if err != nil {
		return nil // what is embedded can be read
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

func readyPlan(name string) ([]byte, error) {
	data, err := plans.ReadFile(path.Join("plans", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", name, err)
	}
	return data, nil
}

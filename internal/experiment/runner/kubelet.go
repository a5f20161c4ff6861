package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubelet is the program with the kubelet's generators: there, or to be built.
type kubelet struct {
	path string
	// module is the folder of its module, to be built from.
	module string
}

// kubeletModule is where a checkout keeps it.
const kubeletModule = "peers/kubelet"

// findKubelet takes the program that was given, one beside this program or on the
// path, or else the module in the checkout around the working directory.
func findKubelet(given string) (kubelet, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return kubelet{}, fmt.Errorf("--kubelet-pleg: %w", err)
		}
		return kubelet{path: path}, nil
	}
	if path, err := exec.LookPath("kubelet-pleg"); err == nil {
		return kubelet{path: path}, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return kubelet{}, err
	}
	for {
		module := filepath.Join(dir, kubeletModule)
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			if _, err := exec.LookPath("go"); err != nil {
				return kubelet{}, errors.New("the kubelet's generators are to be built, and there is no go on the path; or give --kubelet-pleg")
			}
			return kubelet{module: module}, nil
		}
		if dir == filepath.Dir(dir) {
			return kubelet{}, errors.New("the program kubelet-pleg is not to be found: give it with --kubelet-pleg, or run this in a checkout, where it is built")
		}
		dir = filepath.Dir(dir)
	}
}

// toBuild reports whether the program has yet to be built.
func (k *kubelet) toBuild() bool { return k.path == "" && k.module != "" }

// build builds the program, as "make kubelet-pleg" does, so that Go's cache makes it
// quick but for the first time.
func (k *kubelet) build(ctx context.Context) error {
	out := filepath.Join(k.module, "..", "..", "bin", "kubelet-pleg")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/kubelet-pleg")
	cmd.Dir = k.module
	// A go.work file of the caller is about another module.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		text := strings.TrimSpace(string(output))
		return fmt.Errorf("build kubelet-pleg: %w\n%s", err, text[max(0, len(text)-2000):])
	}
	k.path = out
	return nil
}

package view

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// storeToken writes a token into a file, whole or not at all.
func storeToken(path string, token merge.Token) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("store the token: %w", err)
	}
	_, err = f.WriteString(token.String() + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("store the token: %w", err)
	}
	return nil
}

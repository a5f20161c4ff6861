package embedded

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var told []string
		rt := New(Options{
			Lag:     Lag{Start: Fixed(2 * time.Millisecond), Exit: Fixed(30 * time.Millisecond)},
			Account: func(_ string, what Moment) { told = append(told, string(what)+" "+time.Since(began).String()) },
		})
		defer rt.Close()
		config := PodConfig("a", "b", "u", 0, Burstable)
		pod, err := rt.RunPod(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		id, err := rt.Create(t.Context(), pod, ContainerConfig(config, "c", 0, "i", "exit", "0", "after", "10ms"))
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // in the bubble
		if err := rt.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"shown-created 2ms", "began 2ms", "shown-running 4ms", "ended 12ms", "shown-exited 42ms", "shown-removed 47ms",
		}
		if !slices.Equal(told, want) {
			t.Errorf("the account is %q, want %q", told, want)
		}
	})
}

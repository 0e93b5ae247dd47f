//go:build !race

// The race detector makes these cases five times slower, and other tests of this package show it the same code.

package sim_test

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/sim"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/redislua"
)

// undrawn are the options that the simulation does not draw, besides those that no workload draws.
var undrawn = []string{
	"Config.Prefix",   // the judges read what nodes have under the names without it
	"Config.Redisson", // a message to Redisson is one to nobody there
}

// TestEveryOperationIsDrawn plays cases of each kind until each exported method and option was used. A new one fails it
// until a workload draws it, or package workload lists it among those that change nothing.
func TestEveryOperationIsDrawn(t *testing.T) {
	const most = 300
	for i := range uint64(most) {
		for _, kind := range sim.Kinds {
			sim.Run(t, kind.Draw(*from+i), false)
		}
		if len(workload.Drawn().Undrawn(undrawn...)) == 0 {
			break
		}
	}
	drawn := workload.Drawn()
	t.Log(drawn)
	if missing := drawn.Undrawn(undrawn...); len(missing) > 0 {
		t.Errorf("no workload draws these, or they are exceptions that do not exist: %v", missing)
	}
}

// TestFastPathsArePlayed plays cases until each script has raised a fence on its fast path, which asks for the identity of the
// server once. The other way asks again.
func TestFastPathsArePlayed(t *testing.T) {
	scripts := []string{"-- Take all names for one owner", "-- Take slots of a pool for one owner", "-- Do many operations"}
	began, known, played := "", map[string]string{}, map[string]bool{}
	redislua.Trace = func(command []string) {
		switch command[0] {
		case "EVAL":
			digest := sha1.Sum([]byte(command[1])) //nolint:gosec // Redis names scripts by their SHA-1.
			known[hex.EncodeToString(digest[:])] = command[1]
			began = command[1]
		case "EVALSHA":
			began = known[command[1]]
		case "INFO":
			began += " INFO"
		case "HKEYS":
			began += " HKEYS"
		case "SETRANGE":
			for _, script := range scripts {
				if strings.Contains(began, script) {
					played[script+began[strings.LastIndex(began, "\n")+1:]] = true
				}
			}
		}
	}
	defer func() { redislua.Trace = nil }()
	want := []string{scripts[0] + " INFO", scripts[0] + " INFO HKEYS", scripts[1] + " INFO", scripts[2] + " INFO"}
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(want), func(path string) bool { return played[path] })
	}
	for i := 0; i < 300 && len(missing()) > 0; i++ {
		sim.Run(t, sim.Kinds[i%2].Draw(*from+uint64(i)), false)
	}
	require.Empty(t, missing(), "fast paths that no case has played")
}

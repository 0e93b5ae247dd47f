//go:build !race

// The race detector makes these cases five times slower, and other tests of this package show it the same code.

package sim_test

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"

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

// TestFastPathsArePlayed plays cases until each script has acquired by its fast path, which asks for the identity of the server
// once. Other ways ask for it again, or read more of the marker.
func TestFastPathsArePlayed(t *testing.T) {
	taken, paths, known, script, asked := map[string]int{}, map[string]string{
		"Take all names for one owner": "a lock", "Take slots of a pool for one owner": "permits", "Do many operations": "many",
	}, map[string]string{}, "", 0
	redislua.Trace = func(command []string) {
		switch command[0] {
		case "EVAL", "EVALSHA":
			digest := command[1]
			if command[0] == "EVAL" {
				digest = fmt.Sprintf("%x", sha1.Sum([]byte(command[1])))
				for text, path := range paths {
					if strings.Contains(command[1], text) {
						known[digest] = path
					}
				}
			}
			script, asked = known[digest], 0
		case "INFO":
			asked++
		case "SETRANGE": // the fence
			taken[fmt.Sprint(script, asked)]++
		}
	}
	defer func() { redislua.Trace = nil }()
	for i := range 300 {
		sim.Run(t, sim.Kinds[i%2].Draw(*from+uint64(i)), false)
	}
	t.Log(taken)
}

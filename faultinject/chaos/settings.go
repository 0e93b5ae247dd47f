package chaos

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// settings are the parameters of a client process.
type settings struct {
	// Label is its name in the history, Dir the directory of the history.
	Label string
	Dir   string
	// Nodes are the addresses of the nodes, Resource is the address of the resource.
	Nodes    []string
	Resource string
	Seed     uint64
	// Clients is the number of processes. Workers is the number of users of each of the Kinds in this one.
	Clients, Workers int
	Kinds            []Kind
	TTL, Skew        time.Duration
	// Wall is the offset of its wall clock, which tokens come from.
	Wall time.Duration
	// Gentle clients acquire, renew and release majority locks. Others use the whole library, and leak a lock now and
	// then.
	Gentle bool
	// Patient clients give nodes a third of the TTL to answer.
	Patient bool
	// Brisk clients hold nothing for long, so that others can acquire.
	Brisk bool
	// Think is the longest time between a holder's check of its lease and its write.
	Think time.Duration
}

// config returns the configuration of the client.
func (s settings) config() quorumlock.Config {
	wall := clock.NewSkewed(clock.System(), 1)
	wall.StepWall(s.Wall)
	cfg := quorumlock.Config{Addresses: s.Nodes, TTL: s.TTL, MaxTTL: s.TTL, MaxClockSkew: s.Skew, Clock: wall}
	if s.Patient {
		cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = s.TTL/3, s.TTL/3
	}
	return cfg
}

// environment is the environment variable with the settings.
const environment = "QUORUMLOCK_CHAOS_CLIENT"

func (s settings) encode() (string, error) {
	text, err := json.Marshal(s)
	return environment + "=" + string(text), err
}

func decodeSettings(text string) (settings, error) {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("chaos: %s: %w", environment, err)
	}
	return s, nil
}

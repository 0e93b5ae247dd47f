package chaos

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// settings are what a client process is told.
type settings struct {
	// Label is its name in the history, Dir where that is written.
	Label string
	Dir   string
	// Nodes are the addresses of the nodes, Resource that of the resource.
	Nodes    []string
	Resource string
	Seed     uint64
	// Clients is how many processes there are, Workers how many users of each of the Kinds
	// this one has.
	Clients, Workers int
	Kinds            []Kind
	TTL, Skew        time.Duration
	// Wall is how far its wall clock is off, from which tokens are taken.
	Wall time.Duration
	// Gentle clients take a majority's lock, renew it and release it. Others do all that
	// the library offers, and forget a lock now and then.
	Gentle bool
	// Patient clients give nodes a third of the TTL to answer.
	Patient bool
	// Brisk clients hold nothing for long, so that others have their turn.
	Brisk bool
	// Think is how long a holder takes, at most, from its look at the lease to its write.
	Think time.Duration
}

// config is the configuration of its client.
func (s settings) config() quorumlock.Config {
	wall := clock.NewSkewed(clock.System(), 1)
	wall.StepWall(s.Wall)
	cfg := quorumlock.Config{Addresses: s.Nodes, TTL: s.TTL, MaxTTL: s.TTL, MaxClockSkew: s.Skew, Clock: wall}
	if s.Patient {
		cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = s.TTL/3, s.TTL/3
	}
	return cfg
}

// environment is the variable that carries them.
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

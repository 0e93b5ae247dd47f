package redisproc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

var errNoReplica = errors.New("the server follows no other")

// StartReplica launches a server that replicates from master, and closes it when the test ends. It returns once the
// replica has all data of the master.
func StartReplica(t testing.TB, master *Server, opts ...Option) *Server {
	t.Helper()
	s := Start(t, append(opts, func(c *config) { c.master = master })...)
	s.CatchUp()
	return s
}

// Follow makes the server a replica of master (REPLICAOF), also after a restart. The server drops its own data, and
// Follow returns once it has all data of the master.
func (s *Server) Follow(master *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.must("follow "+master.Addr(), s.follow(master))
}

func (s *Server) follow(master *Server) error {
	if err := s.authenticateTo("", master.conf.password); err != nil {
		return err
	}
	if _, err := s.Command("REPLICAOF", "127.0.0.1", strconv.Itoa(master.port)); err != nil {
		return err
	}
	s.master = master
	if err := s.writeConfig(); err != nil {
		return err
	}
	return s.catchUp(master)
}

// Promote makes a replica a master (REPLICAOF NO ONE), also after a restart, with what it has at
// that time.
func (s *Server) Promote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.must("promote", s.promote())
}

func (s *Server) promote() error {
	if _, err := s.Command("REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	s.master = nil
	if err := s.writeConfig(); err != nil {
		return err
	}
	return s.awaitInfo("replication", func(is map[string]string) bool { return is["role"] == "master" })
}

// CatchUp returns once a replica has all that its master had at the call.
func (s *Server) CatchUp() {
	s.must("catch up", s.catchUp(s.followed()))
}

// PauseReplication cuts a replica off from its master, and returns once it receives nothing more. Both continue, and
// the replica falls behind, until [Server.Follow] or a restart. Pausing the replica's
// process is not enough: the master's writes would wait in the replica's socket, and outlive the master.
func (s *Server) PauseReplication() {
	s.must("pause the replication", s.pauseReplication())
}

// pauseReplication has the replica log in as a user that its master does not know.
func (s *Server) pauseReplication() error {
	if s.followed() == nil {
		return errNoReplica
	}
	if err := s.authenticateTo("redisproc-cut-off", "none"); err != nil {
		return err
	}
	if _, err := s.Command("CLIENT", "KILL", "TYPE", "master"); err != nil {
		return err
	}
	return s.awaitInfo("replication", func(is map[string]string) bool { return is["master_link_status"] == "down" })
}

// ReplicationID is the id of the history of writes that led to the server's memory (master_replid). A replica has its
// master's id. A master draws a new one when it starts, when it is promoted, and when its first replica comes,
// although it loses nothing then.
func (s *Server) ReplicationID() string {
	is, err := s.info(context.Background(), "replication")
	s.must("ask for the replication", err)
	return is["master_replid"]
}

func (s *Server) followed() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.master
}

// authenticateTo sets as whom the server logs in at its master, the next time that it connects.
func (s *Server) authenticateTo(user, password string) error {
	if err := s.configSet("masteruser", user); err != nil {
		return err
	}
	return s.configSet("masterauth", password)
}

// catchUp waits until the replica has applied all that the master has written, and logged it where
// it has an append-only file: that is off during a first sync, and rewritten in the background then.
func (s *Server) catchUp(master *Server) error {
	if master == nil {
		return errNoReplica
	}
	if err := s.awaitSync(master); err != nil {
		return err
	}
	return s.awaitInfo("persistence", func(is map[string]string) bool {
		return is["aof_rewrite_in_progress"] == "0" && is["aof_rewrite_scheduled"] == "0"
	})
}

// awaitSync waits for the replica's memory. A link that is up does not mean that it is complete: the
// replica may have resumed at a place in the master's history. The id of that is not settled before
// either: a master draws a new one when a first replica comes.
func (s *Server) awaitSync(master *Server) error {
	atCall, err := master.info(context.Background(), "replication")
	if err != nil {
		return fmt.Errorf("ask the master: %w", err)
	}
	written, err := strconv.ParseInt(atCall["master_repl_offset"], 10, 64)
	if err != nil {
		return err
	}
	return s.awaitInfo("replication", func(is map[string]string) bool {
		applied, err := strconv.ParseInt(is["slave_repl_offset"], 10, 64)
		if err != nil || applied < written || is["master_link_status"] != "up" {
			return false
		}
		has, err := master.info(context.Background(), "replication")
		return err == nil && has["master_replid"] == is["master_replid"]
	})
}

func (s *Server) awaitInfo(section string, told func(is map[string]string) bool) error {
	var is map[string]string
	var err error
	if poll(startTimeout, func() bool {
		is, err = s.info(context.Background(), section)
		return err == nil && told(is)
	}) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("not as it should be after %v: %v", startTimeout, is)
}

func (s *Server) info(ctx context.Context, section string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	text, err := s.Do(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	is := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			is[name] = value
		}
	}
	return is, nil
}

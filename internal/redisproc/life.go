package redisproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

var (
	errDown    = errors.New("the server is not running")
	errRunning = errors.New("the server is running")
)

// TryStart starts the server again after Kill or TryStop, on the same ports and data directory, and returns once it
// answers. It does nothing if the server is running.
func (s *Server) TryStart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	return s.restart(ctx)
}

// TryStop ends the server in an orderly way, so that it writes its persistent data. It resumes a paused server first.
// It returns once the process has ended, and does nothing if the server is not running. If ctx ends first, the server
// may still end later.
//
// It sends SIGTERM, or the command SHUTDOWN to a server with libfaketime. The handler of the signal asks for the time.
// It can deadlock if the signal interrupts libfaketime while that holds its mutex.
func (s *Server) TryStop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	var err error
	if s.preload == "" {
		err = errors.Join(s.proc.terminate(), s.proc.resume())
	} else if err = s.proc.resume(); err == nil {
		_, err = s.doContext(ctx, "SHUTDOWN")
		var refused ReplyError
		if !errors.As(err, &refused) {
			err = nil // it ends without an answer
		}
	}
	if err != nil {
		return err
	}
	select {
	case <-s.proc.done:
		s.proc = nil
		s.reservePorts()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryWipe removes the server's files on disk: snapshot and append-only file. The server must be down.
func (s *Server) TryWipe() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return errRunning
	}
	var errs []error
	for _, name := range []string{"dump.rdb", "appendonly.aof", "appendonlydir"} {
		errs = append(errs, s.remove(name))
	}
	return errors.Join(errs...)
}

// TrySetMaxMemory limits the memory of the server in bytes, also after a restart; 0 lifts the limit. The policy is
// noeviction, as it is by default.
func (s *Server) TrySetMaxMemory(ctx context.Context, limit int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.maxMemory = limit
	if err := s.writeConfig(); err != nil || !s.running() {
		return err
	}
	_, err := s.Do(ctx, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
	return err
}

func (s *Server) running() bool { return s.proc != nil && !s.proc.exited() }

func (s *Server) stopped() bool {
	stopped, err := allStopped(s.proc.pid())
	return stopped && err == nil
}

// remove removes a part of the data directory, or all of it. A server that was saving leaves a
// child behind, which may still be writing.
func (s *Server) remove(name string) (err error) {
	poll(startTimeout, func() bool {
		err = os.RemoveAll(filepath.Join(s.dir, name))
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("remove the data: %w", err)
	}
	return nil
}

// TryLose lets the server run for a while, kills it, and cuts its append-only file back to
// what it was before: [Server.AOFSize], [Server.Kill], [Server.TruncateAOF] and errors.
func (s *Server) TryLose(ctx context.Context, while time.Duration) error {
	_, size, err := s.aof()
	if err != nil {
		return err
	}
	select {
	case <-time.After(while):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.truncateAOF(size)
}

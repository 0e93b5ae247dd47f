package redisproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// clockPrecision is far above what libfaketime rounds away, and below any step worth a test.
const clockPrecision = time.Millisecond

var (
	errNoFaketime = errors.New("libfaketime is not installed: install it with `make setup`, or from https://github.com/wolfcw/libfaketime")
	errTrueClock  = errors.New("the server runs with the true clock: start it with WithFaketime")
)

// SetClock is [Server.TrySetClock], which must not fail.
func (s *Server) SetClock(offset time.Duration) {
	s.must("set the clock", s.TrySetClock(context.Background(), offset))
}

// TrySetClock steps the server's wall clock, which expires keys and which TIME returns. From now on it is off by
// offset, and runs at the normal rate. TrySetClock returns once TIME shows the step. A server that is down or paused
// has the new clock when it continues. TrySetClock needs [WithFaketime].
func (s *Server) TrySetClock(ctx context.Context, offset time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.preload == "" {
		return errTrueClock
	}
	s.clock = offset
	if err := s.writeClock(); err != nil || !s.running() || s.stopped() {
		return err
	}
	return AwaitClock(ctx, offset, s.askTime)
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

func (s *Server) writeClock() error {
	if s.preload == "" {
		return nil
	}
	return WriteClock(s.clockFile(), s.clock)
}

// WriteClock tells libfaketime the offset. It replaces the file in one step, because the server reads it all the
// time. The file is readable for all users, because a container uses another one.
func WriteClock(file string, offset time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.9f\n", offset.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// checkClock checks that the server shows the time that its clock was set to.
func (s *Server) checkClock(ctx context.Context) error {
	if s.preload == "" {
		return nil
	}
	if err := compareClock(ctx, s.clock, s.askTime); err != nil {
		return fmt.Errorf("%w: does %s fit this redis-server?", err, s.preload)
	}
	return nil
}

func (s *Server) askTime(ctx context.Context) (string, error) { return s.Do(ctx, "TIME") }

// AwaitClock waits a little until the wall clock of a server is off by offset. ask sends it the command TIME.
func AwaitClock(ctx context.Context, offset time.Duration, ask func(context.Context) (string, error)) (err error) {
	poll(commandTimeout, func() bool {
		err = compareClock(ctx, offset, ask)
		return err == nil || ctx.Err() != nil
	})
	return err
}

// compareClock checks the offset of a server's clock: the server read it at some time between the question and the
// answer.
func compareClock(ctx context.Context, want time.Duration, ask func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	before := time.Now()
	text, err := ask(ctx)
	after := time.Now()
	var seconds, micros int64
	if err == nil {
		_, err = fmt.Sscan(text, &seconds, &micros)
	}
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	shown := time.Unix(seconds, micros*1000)
	if least, most := shown.Sub(after), shown.Sub(before); want < least-clockPrecision || want > most+clockPrecision {
		return fmt.Errorf("the clock is off by %v to %v, not by %v", least, most, want)
	}
	return nil
}

// faketimePatterns tells where libfaketime may be, as the Makefile does. The variant for programs
// with threads, of which Redis is one, comes first.
func faketimePatterns() (patterns []string) {
	for _, name := range []string{"libfaketimeMT.so.1", "libfaketime.so.1", "libfaketime.1.dylib"} {
		for _, dir := range []string{"/usr/lib/*", "/usr/lib*", "/usr/local/lib*", "/opt/homebrew/lib"} {
			patterns = append(patterns, dir+"/faketime/"+name)
		}
	}
	return patterns
}

// findFaketime returns the path of libfaketime, empty where it is not asked for.
func findFaketime(patterns []string) (string, error) {
	if len(patterns) == 0 {
		return "", nil
	}
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errNoFaketime
}

// FindFaketime returns the path of the installed libfaketime.
func FindFaketime() (string, error) { return findFaketime(faketimePatterns()) }

// FaketimeEnv is the environment that puts a redis-server under the libfaketime at the path library.
// Its wall clock is off by the amount that [WriteClock] wrote into clockFile.
func FaketimeEnv(library, clockFile string) []string {
	return append(
		preloadEnv(library),
		"FAKETIME_TIMESTAMP_FILE="+clockFile,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", // only the wall clock moves
		"DONT_FAKE_MONOTONIC=1",          // the same, for versions before 0.9.8
		"NO_FAKE_STAT=1",
	)
}

// preloadEnv has the dynamic linker load the library before all others, and next the C library for
// its malloc: where Redis gets malloc from a shared libjemalloc, as on Debian, the first malloc
// asks for the time. libfaketime calls malloc when it is first asked, so they deadlock.
func preloadEnv(library string) []string {
	if runtime.GOOS == "darwin" {
		return []string{"DYLD_INSERT_LIBRARIES=" + library, "DYLD_FORCE_FLAT_NAMESPACE=1"}
	}
	return []string{"LD_PRELOAD=" + library + ":libc.so.6"}
}

// unlinkShared removes the names of the memory and the semaphore that libfaketime shares with
// processes that the server may execute. A killed server would leave them behind for good; the
// running one does not need them by name.
func (s *Server) unlinkShared(pid int) {
	if s.preload == "" {
		return
	}
	_ = os.Remove(fmt.Sprintf("/dev/shm/faketime_shm_%d", pid))
	_ = os.Remove(fmt.Sprintf("/dev/shm/sem.faketime_sem_%d", pid))
}

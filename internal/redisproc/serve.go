package redisproc

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Serve listens on an address that is no Redis server. The function serves each connection. The connection closes
// when the function returns or the test ends; the test waits for it.
func Serve(tb testing.TB, serve func(conn net.Conn)) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	tb.Cleanup(func() {
		_ = listener.Close()
		end()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				serve(conn)
				_ = conn.Close()
			})
		}
	})
	return listener.Addr().String()
}

// Relay is another address of a server. Requests go through up, and answers through down. Each returns when it cannot
// read on, which ends the connection.
func Relay(tb testing.TB, server string, up, down func(to, from net.Conn)) (addr string) {
	tb.Helper()
	return Serve(tb, func(client net.Conn) {
		conn, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		var answers sync.WaitGroup
		answers.Go(func() {
			down(client, conn)
			_ = client.Close()
		})
		up(conn, client)
		_ = conn.Close()
		answers.Wait()
	})
}

// Copy is a direction of [Relay] that changes nothing.
func Copy(to, from net.Conn) { _, _ = io.Copy(to, from) }

// StartAs starts a server by a command line of others, with paths of the test and a free port of 127.0.0.1. It returns
// once the server accepts connections. Another program may take a port that was free just now, so it tries a few.
func StartAs(tb testing.TB, line []string, paths map[string]string) (addr string, server *os.Process) {
	tb.Helper()
	args := slices.Clone(line)
	for i, arg := range args {
		for from, to := range paths {
			if arg == from || strings.HasSuffix(from, "/") && strings.HasPrefix(arg, from) {
				args[i] = to + strings.TrimPrefix(arg, from)
			}
		}
	}
	if !slices.Contains(args, "--dir") {
		args = append(args, "--dir", tb.TempDir())
	}
	var log string
	for range 5 {
		port, err := FreePort()
		if err != nil {
			tb.Fatal(err)
		}
		if server, log = tryAs(tb, append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1")); server != nil {
			return hostPort(port), server
		}
	}
	tb.Fatalf("%q did not start:\n%s", line, log)
	return "", nil
}

// tryAs starts a server, and returns it once it accepts connections. If it ends before, tryAs returns its log.
func tryAs(tb testing.TB, args []string) (server *os.Process, log string) {
	tb.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	ready := &awaited{words: "Ready to accept connections", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = ready, ready
	if err := cmd.Start(); err != nil {
		tb.Fatalf("redis-server must be installed: make setup: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // which also reads to the end of the output
		close(ended)
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if tb.Failed() {
			tb.Log(ready.log.String())
		}
	})
	select {
	case <-ready.seen:
		return cmd.Process, ""
	case <-ended:
		return nil, ready.log.String()
	}
}

// awaited is a log that closes seen once it has the words. One goroutine writes it.
type awaited struct {
	words string
	seen  chan struct{}
	log   bytes.Buffer
}

func (a *awaited) Write(p []byte) (int, error) {
	before := strings.Contains(a.log.String(), a.words)
	a.log.Write(p)
	if !before && strings.Contains(a.log.String(), a.words) {
		close(a.seen)
	}
	return len(p), nil
}

package respguard_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/respguard"
)

// wire is a connection without a network: each Write is answered by the same bytes.
type wire struct {
	net.Conn
	reply []byte
	rest  []byte
}

func (c *wire) Write(p []byte) (int, error) {
	c.rest = c.reply
	return len(p), nil
}

func (c *wire) Read(p []byte) (int, error) {
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

var exchanges = []struct {
	name, command, reply string
}{
	{"granted", acquires, ":1\r\n"},
	{"denied", acquires, "*4\r\n$8\r\njob:1234\r\n" + bulk(strings.Repeat("o", 36)) + ":9876\r\n:1700000000000000\r\n"},
	{"64", strings.Repeat(acquires, 64), strings.Repeat("*1\r\n:1700000000000000\r\n", 64)},
	{"list", acquires, fmt.Sprintf("*10000\r\n%s", strings.Repeat(bulk(strings.Repeat("i", 36)), 10_000))},
	{"large", acquires, bulk(strings.Repeat("x", 1<<20))},
}

var acquires = request("EVALSHA", strings.Repeat("f", 40), "1", "job:1234", strings.Repeat("o", 36), "10000", "1700000000000000", "10001000", "0")

// BenchmarkExchange is a command and its reply, without a network: all that is left is the cost of
// the guard.
func BenchmarkExchange(b *testing.B) {
	for _, e := range exchanges {
		b.Run(e.name, func(b *testing.B) {
			both(b, &wire{reply: []byte(e.reply)}, func(b *testing.B, conn net.Conn) {
				exchange(b, conn, []byte(e.command), len(e.reply))
			})
		})
	}
}

// BenchmarkLoopback is the same through the loopback interface.
func BenchmarkLoopback(b *testing.B) {
	for _, e := range exchanges {
		b.Run(e.name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				for command := make([]byte, len(e.command)); err == nil; {
					if _, err = io.ReadFull(conn, command); err == nil {
						_, err = io.WriteString(conn, e.reply)
					}
				}
			}()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			both(b, conn, func(b *testing.B, conn net.Conn) { exchange(b, conn, []byte(e.command), len(e.reply)) })
			_ = conn.Close()
			<-done
		})
	}
}

// both measures a connection bare and guarded.
func both(b *testing.B, conn net.Conn, measure func(*testing.B, net.Conn)) {
	b.Run("by=bare", func(b *testing.B) { measure(b, conn) })
	b.Run("by=guard", func(b *testing.B) { measure(b, respguard.New(conn)) })
}

func exchange(b *testing.B, conn net.Conn, command []byte, size int) {
	b.ReportAllocs()
	b.SetBytes(int64(len(command) + size))
	reply := make([]byte, 512<<10)
	for b.Loop() {
		if _, err := conn.Write(command); err != nil {
			b.Fatal(err)
		}
		for n := 0; n < size; {
			m, err := conn.Read(reply)
			if err != nil || m == 0 {
				b.Fatal(m, err)
			}
			n += m
		}
	}
	if bytes.Equal(reply[:1], []byte{0}) {
		b.Fatal("nothing was read")
	}
}

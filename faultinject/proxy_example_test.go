package faultinject_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// A server that cannot be reached: does the client give up?
func ExampleProxy() {
	server := greeter()
	defer server.Close()

	proxy, err := faultinject.NewProxy(server.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()

	greeting := func() string {
		conn, err := net.Dial("tcp", proxy.Addr())
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		got, err := io.ReadAll(conn)
		return fmt.Sprintf("%q, timeout %v", got, errors.Is(err, os.ErrDeadlineExceeded))
	}

	proxy.Cut(faultinject.ToClient)
	fmt.Println(greeting())
	proxy.Heal()
	fmt.Println(greeting())
	// Output:
	// "", timeout true
	// "Hello, world!", timeout false
}

// greeter is a server that says one thing and hangs up.
func greeter() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "Hello, world!")
			_ = conn.Close()
		}
	}()
	return l
}

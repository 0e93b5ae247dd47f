package faultinject_test

import (
	"fmt"
	"io"
	"net"

	"github.com/quorumlock/quorumlock/faultinject"
)

// A reply that breaks off in the middle: what does the client make of it?
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
		got, _ := io.ReadAll(conn)
		return string(got)
	}

	fmt.Println(greeting())
	proxy.CutAfter(faultinject.ToClient, 5, faultinject.ThenClose)
	fmt.Println(greeting())
	fmt.Println(greeting())
	// Output:
	// Hello, world!
	// Hello
	// Hello, world!
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

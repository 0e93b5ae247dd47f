// Command picture draws docs/picture/lock.svg, the picture in the README: five servers, one holder and one waiter,
// while servers fail.
package main

import (
	"flag"
	"log"
	"os"
)

//go:generate go run . -out lock.svg

func main() {
	out := flag.String("out", "lock.svg", "the file to write")
	flag.Parse()
	if err := os.WriteFile(*out, []byte(draw()), 0o600); err != nil {
		log.Fatal(err)
	}
}

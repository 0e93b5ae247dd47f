package servertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// usable reports whether a client can write, and reads about the true time.
func usable(ctx context.Context, s faultinject.Server) bool {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprint(c, "SET probe v\r\nTIME\r\n"); err != nil {
		return false
	}
	in := bufio.NewScanner(c)
	var lines []string
	for len(lines) < 4 && in.Scan() { // +OK, *2, $10, seconds
		lines = append(lines, in.Text())
	}
	if len(lines) < 4 || !strings.HasPrefix(lines[0], "+OK") {
		return false
	}
	seconds, err := strconv.ParseInt(lines[3], 10, 64)
	return err == nil && time.Since(time.Unix(seconds, 0)).Abs() < time.Minute
}

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
)

var addrs []string

func client() *quorumlock.Client {
	c, err := quorumlock.New(quorumlock.Config{Addresses: addrs})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Connect(context.Background()); err != nil {
		log.Fatal(err)
	}
	return c
}

// load runs callers in a closed loop, with own names.
func load(c *quorumlock.Client, callers int, patience, lasting time.Duration) (perSec, failedPerSec float64) {
	var ok, bad atomic.Int64
	var wg sync.WaitGroup
	stop := time.Now().Add(lasting)
	for i := range callers {
		wg.Go(func() {
			lock := c.RedLock(fmt.Sprint("l", callers, ".", i))
			for time.Now().Before(stop) {
				ctx, cancel := context.Background(), func() {}
				if patience > 0 {
					ctx, cancel = context.WithTimeout(ctx, patience)
				}
				l, err := lock.Acquire(ctx)
				cancel()
				if err != nil {
					bad.Add(1)
					continue
				}
				ok.Add(1)
				_ = l.Release(context.Background())
			}
		})
	}
	wg.Wait()
	return float64(ok.Load()) / lasting.Seconds(), float64(bad.Load()) / lasting.Seconds()
}

func closing(c *quorumlock.Client) time.Duration {
	began := time.Now()
	if err := c.Close(context.Background()); err != nil {
		fmt.Println("close:", err)
	}
	return time.Since(began)
}

func main() {
	dir, _ := os.MkdirTemp("/tmp/audit28", "srv")
	defer os.RemoveAll(dir)
	base := 21700
	for i := range 3 {
		port := fmt.Sprint(base + i)
		d := dir + "/" + port
		os.Mkdir(d, 0o755)
		cmd := exec.Command("redis-server", "--port", port, "--dir", d, "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--bind", "127.0.0.1")
		if err := cmd.Start(); err != nil {
			log.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		addrs = append(addrs, "127.0.0.1:"+port)
	}
	time.Sleep(500 * time.Millisecond)
	if _, err := admin.Init(context.Background(), quorumlock.Config{Addresses: addrs}); err != nil {
		log.Println(err)
		return
	}
	which := strings.Join(os.Args[1:], ",")
	if which == "" || strings.Contains(which, "next") {
		for _, n := range []int{0, 4000, 12000} {
			c := client()
			load(c, 64, 0, 300*time.Millisecond)
			var best time.Duration = time.Hour
			var all []string
			for range 5 {
				ctx, cancel := context.WithCancel(context.Background())
				var wg, started sync.WaitGroup
				for i := range n {
					started.Add(1)
					wg.Go(func() {
						lock := c.RedLock(fmt.Sprint("gone", i))
						started.Done()
						lock.Acquire(ctx)
					})
				}
				started.Wait()
				cancel()
				wg.Wait()
				began := time.Now()
				l, err := c.RedLock("next").Acquire(context.Background())
				took := time.Since(began)
				if err != nil {
					fmt.Println(err)
				} else {
					l.Release(context.Background())
				}
				best = min(best, took)
				all = append(all, took.Round(100*time.Microsecond).String())
				time.Sleep(300 * time.Millisecond)
			}
			fmt.Printf("after %d calls that gave up: next Acquire best %v, all %v\n", n, best.Round(100*time.Microsecond), all)
			closing(c)
		}
	}
	if which == "prof" {
		c := client()
		load(c, 64, 0, 300*time.Millisecond)
		f, _ := os.Create("/tmp/audit28/cpu.prof")
		pprof.StartCPUProfile(f)
		good, bad := load(c, 4096, 50*time.Millisecond, 4*time.Second)
		pprof.StopCPUProfile()
		fmt.Println(good, bad)
		closing(c)
	}
	if which == "" || strings.Contains(which, "load") {
		for round := range 3 {
			for _, cell := range []struct {
				n int
				p time.Duration
			}{{64, 0}, {512, 10 * time.Millisecond}, {4096, 50 * time.Millisecond}, {4000, 100 * time.Millisecond}} {
				c := client()
				load(c, 64, 0, 300*time.Millisecond)
				good, bad := load(c, cell.n, cell.p, 3*time.Second)
				fmt.Printf("round %d: %d callers, patience %v: %.0f leases/s, %.0f gave up/s, Close %v\n", round, cell.n, cell.p, good, bad, closing(c).Round(time.Millisecond))
			}
		}
	}
}

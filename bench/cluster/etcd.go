package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// EtcdProgram is the program for etcd, looked up on PATH.
const EtcdProgram = "etcd"

// Etcd is one etcd, with its own data directory.
type Etcd struct {
	command *exec.Cmd
	dir     string
	address string
}

// StartEtcd starts an etcd, and returns once it accepts connections. The caller must close it.
func StartEtcd(ctx context.Context) (*Etcd, error) {
	clients, clientsErr := redisproc.FreePort()
	peers, peersErr := redisproc.FreePort()
	dir, err := os.MkdirTemp("", "bench-etcd-")
	if err := errors.Join(clientsErr, peersErr, err); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e := &Etcd{dir: dir, address: "127.0.0.1:" + strconv.Itoa(clients)}
	url, peerURL := "http://"+e.address, "http://127.0.0.1:"+strconv.Itoa(peers)
	e.command = exec.Command(
		EtcdProgram, "--data-dir", dir, "--log-level", "error",
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL,
	)
	if err := e.command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), os.RemoveAll(dir))
	}
	if err := e.await(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

const etcdStart = 10 * time.Second

func (e *Etcd) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdStart)
	defer cancel()
	for ; ; time.Sleep(20 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", e.address)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("etcd does not answer: %w", err)
		}
	}
}

// Address is the address for clients.
func (e *Etcd) Address() string { return e.address }

// Close ends it and removes its data.
func (e *Etcd) Close() error {
	_ = e.command.Process.Kill() // the only error is that it has ended
	_ = e.command.Wait()         // the error says that it was killed
	return os.RemoveAll(e.dir)
}

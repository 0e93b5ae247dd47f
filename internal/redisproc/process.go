package redisproc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is one running child. A goroutine of its own waits for it, and ends with it.
type process struct {
	handle *os.Process
	done   <-chan struct{} // closed once the child is gone and reaped
}

// spawn starts a child; env is added to the environment of this process.
func spawn(commandLine, env []string, logFile string) (*process, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(commandLine[0], commandLine[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	done, err := Spawn(cmd)
	if err != nil {
		return nil, err
	}
	return &process{handle: cmd.Process, done: done}, nil
}

// Spawn starts a command that ends with this process, on Linux. It closes done once the command has ended and was
// reaped. The command's ProcessState then says how it ended.
func Spawn(cmd *exec.Cmd) (done <-chan struct{}, err error) {
	endWithParent(cmd)
	ended, started := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		// For Linux, the parent is the thread that started the process. So the thread is kept until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState has the result
		}
	}()
	return ended, <-started
}

func (p *process) pid() int { return p.handle.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the child, also a stopped one. A SIGCONT first would let it execute the commands in
// its buffers.
func (p *process) kill() {
	_ = p.handle.Kill() // the one error is that it is gone already
	<-p.done
}

func (p *process) pause() error {
	if err := suspend(p.handle); err != nil {
		return err
	}
	var stopped bool
	var err error
	if !poll(10*time.Second, func() bool {
		stopped, err = allStopped(p.pid())
		return stopped || err != nil || p.exited()
	}) {
		return errors.New("the process did not stop")
	}
	if p.exited() {
		return os.ErrProcessDone
	}
	return err
}

// terminate asks the child to end in an orderly way.
func (p *process) terminate() error {
	if err := terminate(p.handle); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *process) resume() error {
	if err := unsuspend(p.handle); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

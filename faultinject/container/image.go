package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
)

// Timeouts of a pull: until the registry answers, and then between signs of progress.
const (
	firstAnswer = 10 * time.Second
	noProgress  = 5 * time.Minute
)

var errStalled = errors.New("no answer in time")

// public lists the images to look for. All are based on glibc, which libfaketime needs, the
// newest first: a libfaketime of this machine needs the glibc of this machine, or a newer one.
var public = []string{"valkey/valkey:8-trixie", "valkey/valkey:8-bookworm", "redis:7-bookworm"}

// image is an image that the engine has.
type image struct {
	ref     string
	program string   // what to run in it
	env     []string // that it needs
	why     string   // why it was chosen
	made    bool     // from the installed server
}

// choices caches the choice for each request. So a registry that does not answer is not asked again by each group.
var choices = struct {
	sync.Mutex
	made map[string]image
}{made: map[string]image{}}

// choose finds an image by the rules of [WithImage].
func choose(ctx context.Context, asked string) (image, error) {
	choices.Lock()
	defer choices.Unlock()
	if img, ok := choices.made[asked]; ok {
		if _, err := docker(ctx, "image", "inspect", img.ref); err == nil {
			return img, nil
		}
	}
	img, err := find(ctx, asked)
	if err == nil {
		choices.made[asked] = img
	}
	return img, err
}

func find(ctx context.Context, asked string) (image, error) {
	switch asked {
	case "":
		return findAny(ctx)
	case Installed:
		return importInstalled(ctx, "asked for")
	}
	if img, err := local(ctx, asked); err == nil {
		return img, nil
	}
	img, err := pull(ctx, asked, firstAnswer)
	if err != nil {
		return image{}, fmt.Errorf("faultinject: pull the image %s: %w", asked, err)
	}
	return img, nil
}

func findAny(ctx context.Context) (image, error) {
	for _, ref := range public {
		if img, err := local(ctx, ref); err == nil {
			return img, nil
		}
	}
	var unanswered error
	for _, ref := range public {
		img, err := pull(ctx, ref, firstAnswer)
		if err == nil {
			return img, nil
		}
		unanswered = err
	}
	img, err := importInstalled(ctx, fmt.Sprintf("no public image could be pulled (%v)", unanswered))
	if err != nil {
		return image{}, errors.Join(fmt.Errorf("faultinject: pull a public image: %w", unanswered), err)
	}
	return img, nil
}

// local returns an image that the engine has.
func local(ctx context.Context, ref string) (image, error) {
	command, err := docker(ctx, "image", "inspect", "--format={{range .Config.Cmd}}{{println .}}{{end}}", ref)
	if err != nil {
		return image{}, err
	}
	img := image{ref: ref, program: "redis-server", why: "it was there"}
	if first, _, _ := strings.Cut(command, "\n"); strings.HasSuffix(path.Base(first), "-server") {
		img.program = first
	}
	return img, nil
}

// pull gets an image from its registry. It gives up a registry that does not answer in time, but not a pull that
// makes progress.
func pull(ctx context.Context, ref string, answer time.Duration) (image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(answer, func() { cancel(errStalled) })
	defer stalled.Stop()
	if err := dockerPipe(ctx, nil, postpone{stalled}, "pull", ref); err != nil {
		return image{}, err
	}
	img, err := local(ctx, ref)
	img.why = "pulled"
	return img, err
}

// postpone resets a timer with each line about progress. What docker itself says about the name is none.
type postpone struct{ timer *time.Timer }

func (p postpone) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(b, []byte("Using default tag")) {
		p.timer.Reset(noProgress)
	}
	return len(b), nil
}

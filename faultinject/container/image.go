package container

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3/docker"
)

// Timeouts of a pull: until the registry answers, and then between signs of progress.
const (
	firstAnswer = 10 * time.Second
	noProgress  = time.Minute
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
func choose(ctx context.Context, client *docker.Client, asked string) (image, error) {
	choices.Lock()
	defer choices.Unlock()
	if img, ok := choices.made[asked]; ok {
		if _, err := client.InspectImage(img.ref); err == nil {
			return img, nil
		}
	}
	img, err := find(ctx, client, asked)
	if err == nil {
		choices.made[asked] = img
	}
	return img, err
}

func find(ctx context.Context, client *docker.Client, asked string) (image, error) {
	switch asked {
	case "":
		return findAny(ctx, client)
	case Installed:
		return importInstalled(ctx, client, "asked for")
	}
	if img, err := local(client, asked); err == nil {
		return img, nil
	}
	img, err := pull(ctx, client, asked, firstAnswer)
	if err != nil {
		return image{}, fmt.Errorf("faultinject: pull the image %s: %w", asked, err)
	}
	return img, nil
}

func findAny(ctx context.Context, client *docker.Client) (image, error) {
	for _, ref := range public {
		if img, err := local(client, ref); err == nil {
			return img, nil
		}
	}
	var unanswered error
	for _, ref := range public {
		img, err := pull(ctx, client, ref, firstAnswer)
		if err == nil {
			return img, nil
		}
		unanswered = err
	}
	img, err := importInstalled(ctx, client, fmt.Sprintf("no public image could be pulled (%v)", unanswered))
	if err != nil {
		return image{}, errors.Join(fmt.Errorf("faultinject: pull a public image: %w", unanswered), err)
	}
	return img, nil
}

// local returns an image that the engine has.
func local(client *docker.Client, ref string) (image, error) {
	found, err := client.InspectImage(ref)
	if err != nil {
		return image{}, err
	}
	img := image{ref: ref, program: "redis-server", why: "it was there"}
	if found.Config != nil && len(found.Config.Cmd) > 0 && strings.HasSuffix(path.Base(found.Config.Cmd[0]), "-server") {
		img.program = found.Config.Cmd[0]
	}
	return img, nil
}

// pull gets an image from its registry. It gives up a registry that does not answer in time, but not a pull that
// makes progress.
func pull(ctx context.Context, client *docker.Client, ref string, answer time.Duration) (image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(answer, func() { cancel(errStalled) })
	defer stalled.Stop()
	repository, tag := splitRef(ref)
	err := client.PullImage(docker.PullImageOptions{
		Repository: repository, Tag: tag, OutputStream: postpone{stalled}, Context: ctx,
	}, docker.AuthConfiguration{})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return image{}, err
	}
	img, err := local(client, ref)
	img.why = "pulled"
	return img, err
}

// splitRef splits repository and tag. A colon before the last slash belongs to the port of a
// registry.
func splitRef(ref string) (repository, tag string) {
	if colon := strings.LastIndexByte(ref, ':'); colon > strings.LastIndexByte(ref, '/') && !strings.Contains(ref, "@") {
		return ref[:colon], ref[colon+1:]
	}
	if strings.Contains(ref, "@") {
		return ref, "" // the digest says it all
	}
	return ref, "latest"
}

// postpone resets a timer with each sign of progress.
type postpone struct{ timer *time.Timer }

func (p postpone) Write(b []byte) (int, error) {
	p.timer.Reset(noProgress)
	return len(b), nil
}

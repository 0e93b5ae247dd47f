package container

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
)

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

// choose finds an image by the rules of [WithImage].
func choose(ctx context.Context, asked string) (image, error) {
	switch asked {
	case "":
		return chooseAny(ctx)
	case Installed:
		return importInstalled(ctx, "asked for")
	}
	if img, err := local(ctx, asked); err == nil {
		return img, nil
	}
	return pull(ctx, asked)
}

func chooseAny(ctx context.Context) (image, error) {
	for _, ref := range public {
		if img, err := local(ctx, ref); err == nil {
			return img, nil
		}
	}
	img, err := importInstalled(ctx, "no public image was there")
	if err == nil {
		return img, nil
	}
	img, pullErr := pull(ctx, public[0])
	if pullErr != nil {
		return image{}, errors.Join(err, pullErr)
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

// pull gets an image from its registry.
func pull(ctx context.Context, ref string) (image, error) {
	if _, err := docker(ctx, "pull", "--quiet", ref); err != nil {
		return image{}, fmt.Errorf("faultinject: pull the image %s: %w", ref, err)
	}
	img, err := local(ctx, ref)
	img.why = "pulled"
	return img, err
}

package container

import (
	"io"
	"os"
	"time"
)

// ImageEnv is the environment variable that names the image, as [WithImage] does.
const ImageEnv = "QUORUMLOCK_REDIS_IMAGE"

// Installed is the name of the image that is made from the installed redis-server.
const Installed = "installed"

const defaultExpiry = 2 * time.Hour

// Option changes how containers are started.
type Option func(*config)

type config struct {
	image     string
	output    io.Writer
	expiry    time.Duration
	trueClock bool
}

func newConfig(opts []Option) config {
	c := config{image: os.Getenv(ImageEnv), output: os.Stderr, expiry: defaultExpiry}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithImage names the image, such as redis:7-bookworm. Its program is its default program if that is called
// redis-server or valkey-server, and redis-server otherwise. A missing image is pulled. [Installed] stands for an
// image made from the redis-server on PATH and its libraries. It is kept under the name quorumlock-faultinject, with
// its version and a digest of its contents as the tag, so that the next run finds it.
//
// Without this option and [ImageEnv], the first available of these is used: a public image that the engine has, a
// public image from its registry, and [Installed].
func WithImage(image string) Option {
	return func(c *config) { c.image = image }
}

// WithOutput sets where to print the chosen image and the reason; os.Stderr by default.
func WithOutput(w io.Writer) Option {
	return func(c *config) { c.output = w }
}

// WithExpiry sets the time after which the containers end by themselves, and other programs may remove them; 2 hours
// by default, in whole seconds.
func WithExpiry(d time.Duration) Option {
	return func(c *config) { c.expiry = d }
}

// WithTrueClock runs the servers without libfaketime, which reads a file at each reading of the clock. Their
// StepClock then fails with [errors.ErrUnsupported].
func WithTrueClock() Option {
	return func(c *config) { c.trueClock = true }
}

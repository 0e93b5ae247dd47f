package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/internal/watch"
)

// helpColumns is the largest width of help texts.
const helpColumns = 90

// app is one run of the command: its input and output, and the flags that all subcommands share.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr *output
	nodes  nodeFlags
	// verbose logs what happens, not only what fails.
	verbose bool
	// advised is set when the user has been told how to deal with the nodes.
	advised bool
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: &output{w: stderr}}
	root := a.rootCommand() //nolint:contextcheck // the commands get it from ExecuteContext
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if text := message(err); text != "" {
		a.say("%s", text)
		a.advise(err)
	}
	return exitCode(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorumlock",
		Short: "Distributed locks over independent Redis nodes",
		Long: `quorumlock takes locks on an odd number of independent Redis servers, the nodes. A
majority of them decides, so that a lock survives the loss of the others, also while
it is held. --multi asks all nodes instead of a majority.

` + exitCodeHelp,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return wrongUsage(c, err) })
	a.nodes.register(root.PersistentFlags())
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log to stderr all that happens")
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	root.AddCommand(a.initCommand(), a.readyCommand(), a.doctorCommand(), a.runCommand(), a.latchCommand(),
		a.statusCommand(), a.topCommand(), a.releaseCommand(), a.demoCommand(), a.versionCommand(), a.manCommand())
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	return root
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: arguments(cobra.NoArgs)}
	return a.nodeless(c, func(*cobra.Command, []string) error {
		fmt.Fprintln(a.stdout, version())
		return nil
	})
}

// release is the version of a build that cannot know it, from a source without its repository:
//
//	go build -ldflags "-X main.release=v1.2.3" ./cmd/quorumlock
var release string

// version returns the version number and the toolchain of the build.
func version() string {
	return fmt.Sprintf("quorumlock %s %s %s/%s", number(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// number returns the number set at build time, or else the module's version: a release's number if it was installed
// as one, otherwise a pseudo-version of the commit.
func number() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// usageTemplate limits the width of cobra's template. Below the root it only lists the names of the global flags: there
// are more of them than a command has of its own.
func usageTemplate(template string) string {
	global := regexp.MustCompile(`(?s)Global Flags:\n.*?\{\{end\}\}`)
	template = global.ReplaceAllLiteralString(template, globalFlags+"{{end}}")
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpColumns))
}

const globalFlags = `Global Flags, which quorumlock --help explains:
      --nodes host:port,... (or $QUORUMLOCK_NODES), --embedded N, --allow-even,
      --allow-eviction, --node-timeout, --max-ttl, --max-clock-skew, --prefix, --verbose`

// nodeless makes a command that uses no nodes.
func (a *app) nodeless(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.nodes.refuse(c); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// wrongUsage returns an error about the command line.
func wrongUsage(c *cobra.Command, err error) error {
	return &usageError{command: c.CommandPath(), err: err}
}

// arguments reports a failed check of positional arguments as wrong usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return wrongUsage(c, err)
		}
		return nil
	}
}

// named refuses a call without the name of a lock.
func named(_ *cobra.Command, keys []string) error {
	if len(keys) == 0 {
		return errors.New("no KEY: the lock needs a name")
	}
	return nil
}

// say prints one message to the user, on stderr: stdout is for results.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "quorumlock: "+format+"\n", args...)
}

// completeNames completes names. It asks the nodes for the locks and semaphores that are held now.
func (a *app) completeNames(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	slices.Sort(a.nodes.addresses) // cobra has read the flags twice
	a.nodes.addresses = slices.Compact(a.nodes.addresses)
	watcher, err := a.watcher(c, nil, defaultScan)
	if err != nil {
		return nil, none
	}
	defer watcher.Close()
	var names []string
	for _, name := range watcher.Look(c.Context()).Names {
		if semaphore, _, ok := watch.Permit(name); ok {
			name = semaphore
		}
		if !slices.Contains(given, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, none
}

// advise prints advice about an error, once.
func (a *app) advise(err error) {
	if text := advice(err); text != "" && !a.advised {
		a.advised = true
		a.say("%s", text)
	}
}

// logger logs everything to stderr with --verbose, and nothing without. Messages that the user must see are printed
// as sentences.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// output lets the log, the messages and a command's output share one writer.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// direct returns the writer for a command: a file itself rather than a pipe to it. Then a terminal stays a terminal,
// and no copying outlasts the command.
func (o *output) direct() io.Writer {
	if f, ok := o.w.(*os.File); ok {
		return f
	}
	return o
}

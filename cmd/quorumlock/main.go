// Command quorumlock runs commands under a distributed lock over independent Redis
// nodes, opens new nodes and checks them, counts latches down, shows and breaks
// locks, and demonstrates them without any server.
//
//	quorumlock init --nodes a:6379,b:6379,c:6379
//	quorumlock ready --nodes a:6379,b:6379,c:6379
//	quorumlock doctor --nodes a:6379,b:6379,c:6379
//	quorumlock run --nodes a:6379,b:6379,c:6379 --key nightly -- ./backup.sh
//	quorumlock latch await import --nodes a:6379,b:6379,c:6379
//	quorumlock status nightly --nodes a:6379,b:6379,c:6379
//	quorumlock top --nodes a:6379,b:6379,c:6379
//	quorumlock release --force nightly --nodes a:6379,b:6379,c:6379
//	quorumlock demo
//
// quorumlock --help lists the exit codes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/cmd/internal/demo"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: &output{w: stderr}}
	root := rootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if message := exit.Message(err); message != "" {
		a.say("%s", message)
		a.advise(err)
	}
	a.stderr.close()
	return exit.Code(err)
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "quorumlock",
		Short: "Distributed locks over independent Redis nodes",
		Long: `quorumlock takes locks on an odd number of independent Redis servers, the nodes. A
majority of them decides, so that a lock survives the loss of the others, also while
it is held. --multi asks all nodes instead of a majority.

` + exit.Help,
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
	for _, command := range []func(*app) *cobra.Command{
		initCommand, readyCommand, doctorCommand, runCommand, latchCommand, statusCommand, topCommand, releaseCommand, nodesCommand, demoCommand,
	} {
		root.AddCommand(command(a))
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	return root
}

func demoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See the library at work, without any server",
		Long: `Two clients contend for one lock on five nodes in this process, while nodes are stopped,
started, and lose their memory. It takes about eleven seconds. Each line is printed after
the event has happened and was checked. After any unexpected event, the demo reports it
and fails.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return demo.Play(c.Context(), a.stdout, a.logger()) // without --verbose, the time line tells it better than a log
		},
	}
}

// usageTemplate limits the width of cobra's template. Below the root it only lists the names of the global flags: there
// are more of them than a command has of its own.
func usageTemplate(template string) string {
	global := regexp.MustCompile(`(?s)Global Flags:\n.*?\{\{end\}\}`)
	template = global.ReplaceAllLiteralString(template, globalFlags+"{{end}}")
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", text.Columns))
}

const globalFlags = `Global Flags, which quorumlock --help explains:
      --nodes host:port,... (or $QUORUMLOCK_NODES), --embedded N, --allow-even,
      --allow-eviction, --allow-unseen-losses, --node-timeout, --max-ttl,
      --max-clock-skew, --recovery, --prefix, --verbose`

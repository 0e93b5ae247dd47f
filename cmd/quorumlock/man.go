package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// manCommand is for packagers of the command. The help texts are already laid out, so pages show them unchanged;
// cobra's own generator would parse them as Markdown.
func manCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "man DIR", Short: "Write manual pages into a directory", Hidden: true,
		Args: arguments(cobra.ExactArgs(1)),
	}
	return a.nodeless(c, func(c *cobra.Command, args []string) error { return writeManuals(c.Root(), args[0]) })
}

// writeManuals writes a page for a command and for each command below it.
func writeManuals(c *cobra.Command, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, manualName(c)+".1"), []byte(manual(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range manualsBelow(c) {
		if err := writeManuals(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// manualsBelow returns the subcommands that have pages.
func manualsBelow(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return !sub.IsAvailableCommand() || sub.Name() == "help" })
}

func manualName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manual returns the page of a command in the man macros.
func manual(c *cobra.Command) string {
	var b strings.Builder
	name := manualName(c)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"User Commands\"\n", strings.ToUpper(name), strings.TrimPrefix(number(), "(devel)"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	section := func(title, body string) {
		if body = strings.Trim(body, "\n"); body != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(body))
		}
	}
	usage := c.UseLine()
	if !c.Runnable() {
		usage = c.CommandPath() + " COMMAND"
	}
	section("SYNOPSIS", usage)
	section("DESCRIPTION", c.Long)
	section("OPTIONS", c.NonInheritedFlags().FlagUsagesWrapped(text.Columns))
	section("OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsagesWrapped(text.Columns))
	section("EXAMPLES", c.Example)
	var related []string
	if c.HasParent() {
		related = append(related, manualName(c.Parent())+"(1)")
	}
	for _, sub := range manualsBelow(c) {
		related = append(related, manualName(sub)+"(1)")
	}
	section("SEE ALSO", strings.Join(related, "\n"))
	return b.String()
}

// roff escapes text so that man prints it literally, with dashes that can be copied.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	return regexp.MustCompile(`(?m)^[.']`).ReplaceAllString(text, `\&$0`)
}

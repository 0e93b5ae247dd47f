package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// manCommand is for packagers of the command. The help texts are already laid out, so pages show them unchanged;
// cobra's own generator would parse them as Markdown.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write manual pages into a directory",
		Hidden: true,
		Args:   arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.nodes.refuse(c); err != nil {
				return err
			}
			return writeManuals(c.Root(), args[0])
		},
	}
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
func manualsBelow(c *cobra.Command) (commands []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			commands = append(commands, sub)
		}
	}
	return commands
}

func manualName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manual returns the page of a command in the man macros.
func manual(c *cobra.Command) string {
	var b strings.Builder
	name := manualName(c)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"User Commands\"\n", strings.ToUpper(name), strings.TrimPrefix(number(), "(devel)"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	usage := c.UseLine()
	if !c.Runnable() {
		usage = c.CommandPath() + " COMMAND"
	}
	section("SYNOPSIS", usage)
	section("DESCRIPTION", c.Long)
	section("OPTIONS", c.NonInheritedFlags().FlagUsagesWrapped(helpColumns))
	section("OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsagesWrapped(helpColumns))
	section("EXAMPLES", c.Example)
	section("SEE ALSO", strings.Join(related(c), "\n"))
	return b.String()
}

// related returns the pages of the commands above and below a command.
func related(c *cobra.Command) (pages []string) {
	if c.HasParent() {
		pages = append(pages, manualName(c.Parent())+"(1)")
	}
	for _, sub := range manualsBelow(c) {
		pages = append(pages, manualName(sub)+"(1)")
	}
	return pages
}

// roff escapes text so that man prints it literally, with dashes that can be copied.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

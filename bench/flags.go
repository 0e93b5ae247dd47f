package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/runner"
)

type settings struct {
	options runner.Options
	out     string
}

const (
	defaultDuration = 2 * time.Second
	quickDuration   = 300 * time.Millisecond
)

func parse(args []string, w io.Writer) (settings, error) {
	var s settings
	o := &s.options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&s.out, "out", "report", "directory for the report")
	f.BoolVar(&o.Quick, "quick", false, "measure a little of everything, in about a minute. The figures mean nothing")
	f.IntVar(&o.Rounds, "rounds", 3, "how many times each cell is measured (quick: 1)")
	f.DurationVar(&o.Duration, "duration", defaultDuration, fmt.Sprintf("how long a cell is measured (quick: %v); some take a multiple of it", quickDuration))
	f.IntVar(&o.Nodes, "n", 5, "number of nodes, where the scenario does not say")
	list(f, &o.Scenarios, "scenarios", "names of scenarios, separated by commas (default all)")
	list(f, &o.Peers, "peers", "names of peers, separated by commas (default all)")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	set := map[string]bool{}
	f.Visit(func(x *flag.Flag) { set[x.Name] = true })
	if o.Quick && !set["rounds"] {
		o.Rounds = 1
	}
	if o.Quick && !set["duration"] {
		o.Duration = quickDuration
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q: use flags", f.Arg(0))
	case o.Rounds < 1:
		return s, fmt.Errorf("-rounds %d: at least one is needed", o.Rounds)
	case o.Duration < 100*time.Millisecond:
		return s, fmt.Errorf("-duration %v: that is too short to measure anything", o.Duration)
	case o.Nodes < 1 || o.Nodes%2 == 0:
		return s, fmt.Errorf("-n %d: an odd number of nodes is needed", o.Nodes)
	}
	return s, nil
}

// list defines a flag for words that are separated by commas.
func list(f *flag.FlagSet, into *[]string, name, usage string) {
	f.Func(name, usage, func(text string) error {
		*into = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	})
}

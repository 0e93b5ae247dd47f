package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/runner"
)

// settings are the values of the flags.
type settings struct {
	options runner.Options
	out     string
	// document is the file whose figures are replaced, if any.
	document string
}

const (
	defaultRounds   = 3
	defaultDuration = 2 * time.Second
	quickDuration   = 300 * time.Millisecond
)

func parse(args []string, w io.Writer) (settings, error) {
	var s settings
	o := &s.options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&s.out, "out", "report", "directory for the report")
	f.BoolVar(&o.Quick, "quick", false, "measure a little of everything, in about a minute; with -goals, the goals in some minutes. The figures mean nothing")
	f.BoolVar(&o.Goals, "goals", false, "measure what the goals of this library need and nothing else, and say which are reached")
	f.StringVar(&s.document, "document", "", "measure the goals, and write the figures into that file")
	f.IntVar(&o.Rounds, "rounds", defaultRounds, "how many times each cell is measured (quick: 1)")
	f.DurationVar(&o.Duration, "duration", defaultDuration, fmt.Sprintf("how long a cell is measured (quick: %v); some take a multiple of it", quickDuration))
	f.IntVar(&o.Nodes, "n", 5, "number of nodes, where the scenario does not say")
	f.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the order of cells")
	list(f, &o.Scenarios, "scenarios", "names of scenarios, separated by commas (default all)")
	list(f, &o.Peers, "peers", "names of peers, separated by commas (default all)")
	list(f, &o.Addresses, "nodes", "host:port of servers to use, separated by commas; they must be empty, and are emptied again and again (default: start redis-server)")
	f.Func("conc", "numbers of callers, separated by commas, where the scenario lets choose", func(text string) (err error) {
		o.Callers, err = numbers(text)
		return err
	})
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
	if n := len(o.Addresses); n > 0 && !set["n"] {
		o.Nodes = n
	}
	o.Goals = o.Goals || s.document != ""
	for _, name := range []string{"peers", "conc", "n"} {
		if o.Goals && set[name] {
			return s, fmt.Errorf("-goals and -%s: the goals select the cells", name)
		}
	}
	if s.document != "" && (o.Quick || set["scenarios"]) {
		return s, fmt.Errorf("-document shows all goals: -quick and -scenarios leave some out")
	}
	return s, s.check(f.Args())
}

func (s settings) check(rest []string) error {
	o := s.options
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: use flags", rest[0])
	case o.Rounds < 1:
		return fmt.Errorf("-rounds %d: at least one is needed", o.Rounds)
	case o.Duration < 100*time.Millisecond:
		return fmt.Errorf("-duration %v: that is too short to measure anything", o.Duration)
	case o.Nodes < 1 || o.Nodes%2 == 0:
		return fmt.Errorf("-n %d: an odd number of nodes is needed", o.Nodes)
	}
	return nil
}

// list defines a flag for words that are separated by commas.
func list(f *flag.FlagSet, into *[]string, name, usage string) {
	f.Func(name, usage, func(text string) error {
		*into = nil
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				*into = append(*into, word)
			}
		}
		return nil
	})
}

func numbers(text string) (ns []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of callers", word)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

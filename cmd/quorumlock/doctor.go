package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/node"
)

const doctorHelp = `Examines each node and the set, and reports problems and remedies. It checks whether the
nodes answer, their versions and roles, eviction, persistence, addresses of one server,
lists of nodes in use, recoveries, limits that differ from those of the programs,
replicas, clocks, round trips, and the rights of the user in the address.

It writes no key and no setting. It tests rights by trying the commands in a way that has
no effect; denied commands appear in the server's ACL LOG.

Call it as the programs are configured: with their user, from the same place, and with
their --max-ttl, --max-clock-skew and --recovery. --node-timeout is their NodeTimeoutMax,
which round trips are compared with. --key names a lock that they use, without their
--prefix; it may be repeated.

Findings are errors (a promise of the library is broken, or no client gets locks),
warnings (a risk, or something works less well than it could), and notes. A check that was
not possible is reported, and is neither a finding nor an OK. The exit code is

  0    nothing worse than a note
  1    warnings
  2    errors
  125  wrong usage

--json prints, for scripts:

  {"severity": the worst of "ok", "note", "unknown", "warning", "error", in this order
   "nodes": [{
     "node":      the node's name
     "reached":   whether it answered
     "version":   "redis 7.0.15"; this and the following are "" or null if unknown
     "role":      "master", "replica"
     "user":      the user of the ACL
     "clock_ms":  how far its clock is ahead of this machine's
     "clock_error_ms": the error of that, plus or minus
     "round_trip_ms": the median round trip
     "slowest_ms": the longest round trip
   }],
   "checks": [{
     "id":        the name of the check, which never changes
     "severity":  the worst of them
     "findings": [{
       "severity": as above
       "nodes":    the nodes of the finding; none for the whole set
       "found":    the problem
       "why":      why it matters
       "do":       the remedy
       "commands": commands to type, in redis-cli on each of these nodes, or in a shell
                   if they begin with quorumlock or chronyc
     }]
   }]}
`

func doctorCommand(a *app) *cobra.Command {
	var asJSON bool
	var keys []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the nodes, and say what to do",
		Long:  doctorHelp,
		Example: `  quorumlock doctor --nodes a:6379,b:6379,c:6379 --key nightly-report
  quorumlock doctor --json | jq '.checks[] | select(.severity == "error")'`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.examine(c, keys, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, as described above")
	c.Flags().StringArrayVar(&keys, "key", nil, "the `name` of a lock, to check the rights on it; can be repeated")
	return c
}

func (a *app) examine(c *cobra.Command, keys []string, asJSON bool) error {
	cfg, err := a.doctorConfig(c, keys)
	if err != nil {
		return err
	}
	facts := doctor.Examine(c.Context(), cfg)
	report := facts.Report()
	if asJSON {
		err = doctor.PrintJSON(a.stdout, facts, report)
	} else {
		err = doctor.Print(a.stdout, facts, report)
	}
	switch {
	case err != nil:
		return err
	case report.Severity == doctor.Error:
		return exit.Silent(exit.Errors) // the report has the reason
	case report.Severity == doctor.Warning:
		return exit.Silent(exit.Warnings)
	default:
		return nil
	}
}

// doctorConfig reads the flags. Problems of the set of nodes, which programs would refuse, belong in the report.
func (a *app) doctorConfig(c *cobra.Command, keys []string) (doctor.Config, error) {
	f := a.nodes
	parsed, options, err := a.servers(c, "nodes in memory have nothing to check")
	if err != nil {
		return doctor.Config{}, err
	}
	limits := parsed.Limits()
	if limits.MaxClockSkew > limits.MaxTTL/2 {
		return doctor.Config{}, wrongFlag(c, "--max-clock-skew %v is over half of --max-ttl %v", limits.MaxClockSkew, limits.MaxTTL)
	}
	if err := a.checkNames(c, quorumlock.Config{Nodes: memoryNodes(1), Prefix: parsed.Prefix}, keys); err != nil {
		return doctor.Config{}, err
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = parsed.Prefix + key // rights are for names on the nodes
	}
	timeout := cmp.Or(f.nodeTimeout, programsTimeout(limits))
	return doctor.Config{
		Nodes: options, AllowEven: f.allowEven, Limits: limits, Timeout: timeout, Names: names, Prefix: parsed.Prefix, Patience: max(surveyTimeout, 4*timeout),
	}, nil
}

// programsTimeout is how long programs wait for a node if they set neither NodeTimeoutMax nor a TTL: see
// quorumlock.Config.
func programsTimeout(l node.Limits) time.Duration {
	return min(500*time.Millisecond, max(min(quorumlock.DefaultTTL, l.MaxTTL)/10, 100*time.Millisecond))
}

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/rights"
)

// consequences are the effects of the missing rights of a group, and their severity.
var consequences = []struct {
	purpose  string
	severity Severity
	why      string
}{
	{rights.ForLocks, Error, "Without them the node gives no locks to this user."},
	{rights.ForDatabase, Error, "Without it the node gives no locks to this user in that database."},
	{rights.ForWaiting, Warning, "A client that waits for a lock, or reads a shared one, gets an error from this node. All else works."},
	{rights.ForOrder, Warning, "After a connection broke, commands in flight on it cannot be stopped: a lock may be left behind for a TTL."},
	{rights.ForLatches, Note, "Latches need them; all else works."},
}

// checkRights reports missing rights, and the rules that grant them.
func checkRights(f *Facts, n *Node) (findings []Finding) {
	for _, c := range consequences {
		missing := slices.DeleteFunc(n.rules(c.purpose, Missing), func(rule string) bool { return rule == "+eval" }) // checkLua says it
		if len(missing) > 0 {
			findings = append(findings, Finding{
				Severity: c.severity, Found: fmt.Sprintf("the server does not know %s, which %s need", commands(missing), c.purpose), Why: c.why,
				Do: "Remove the rename-command for them from the configuration file, and restart the server. If its version lacks them, replace the server. A managed service may permit no more: docs/where-it-runs.md says what works without.",
			})
		}
		if denied := n.rules(c.purpose, Denied); len(denied) > 0 {
			findings = append(findings, n.denied(c.purpose, c.severity, c.why, denied, n.rules(c.purpose, Untried)))
		}
	}
	return append(findings, n.untried(f.Names)...)
}

// rules returns the rules of one purpose with the given verdict, each once.
func (n *Node) rules(purpose string, v Verdict) (rules []string) {
	for _, t := range n.Trials {
		if t.For == purpose && t.Verdict == v && !slices.Contains(rules, t.Rule) {
			rules = append(rules, t.Rule)
		}
	}
	return rules
}

// denied explains how to grant missing rights, and the untried ones: to grant a right twice does no harm.
// ACL SAVE is for users in an ACL file, CONFIG REWRITE for users in the configuration.
func (n *Node) denied(purpose string, severity Severity, why string, rules, untried []string) Finding {
	return Finding{
		Severity: severity, Found: fmt.Sprintf("the user %s lacks rights for %s: %s", n.User, purpose, strings.Join(rules, " ")), Why: why,
		Do:       "Grant them as an administrator, and save that: with ACL SAVE if the server has an ACL file, else with CONFIG REWRITE.",
		Commands: []string{fmt.Sprintf("ACL SETUSER %s %s", n.User, strings.Join(append(rules, untried...), " "))},
	}
}

// untried reports rights that could not be tested, and names that were not given.
func (n *Node) untried(names []string) (findings []Finding) {
	var rules []string
	var err error
	for _, t := range n.Trials {
		if t.Verdict == Untried && !slices.Contains(rules, t.Rule) {
			rules, err = append(rules, t.Rule), t.Err
		}
	}
	if len(rules) > 0 {
		findings = append(findings, unknown(err, "whether the user %s has %s", n.User, strings.Join(rules, " ")))
	}
	if len(names) == 0 {
		findings = append(findings, Finding{Severity: Unknown, Found: "whether the user may use the names of your locks: give some with --key"})
	}
	return findings
}

// commands formats rules as the commands that they permit.
func commands(rules []string) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(r, "+"), "|", " "))
	}
	return strings.Join(names, ", ")
}

package doctor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// lookAt examines one server as the user u.
func lookAt(t *testing.T, server *redisproc.Server) *Node {
	t.Helper()
	opt, err := node.ParseOptions("redis://u:secret@" + server.Addr())
	require.NoError(t, err)
	f := Examine(t.Context(), Config{
		Nodes: []node.Options{opt}, Limits: limits, Timeout: time.Second, Patience: 5 * time.Second, Names: []string{"job:a"},
	})
	require.NoError(t, f.Nodes[0].Unreached)
	return &f.Nodes[0]
}

// verdicts returns the rules with the given verdict, each once.
func verdicts(n *Node, v Verdict) (rules []string) {
	for _, t := range n.Trials {
		if t.Verdict == v && !slices.Contains(rules, t.Rule) {
			rules = append(rules, t.Rule)
		}
	}
	return rules
}

// unwriting shows the right to write without a write.
const unwriting = "scripts that may not write"

// untold are rules whose absence is not reported, because nothing depends on them.
var untold = []string{"+hello", "+client|setname"}

// hides are rules without which others cannot be tested, because the tests use them.
var hides = map[string]bool{"+eval": true, "+info": true}

// TestEachMissingRightIsFound: each missing right is found, and no other.
func TestEachMissingRightIsFound(t *testing.T) {
	server := redisproc.Start(t)
	redisproc.Needs7(t, server, unwriting)
	all := strings.Fields(rights.SetUser("u", "secret", "job:*"))[3:]
	user := func(rules []string) *Node {
		_, err := server.Command(append([]string{"ACL", "SETUSER", "u", "reset"}, rules...)...)
		require.NoError(t, err)
		return lookAt(t, server)
	}
	whole := user(all)
	assert.Empty(t, verdicts(whole, Denied))
	assert.Empty(t, verdicts(whole, Untried))
	for i, rule := range all {
		if !strings.ContainsAny(rule[:1], "+~&") || slices.Contains(untold, rule) {
			continue
		}
		if slices.Contains(all[:i], rule) {
			continue // two groups need it
		}
		n := user(slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == rule }))
		want := rule
		if rule == "~job:*" {
			want = "~job:a"
		}
		assert.Equal(t, []string{want}, verdicts(n, Denied), "without %s", rule)
		if !hides[rule] {
			assert.Empty(t, verdicts(n, Untried), "without %s", rule)
		}
	}
	keys := server.Keys()
	assert.Empty(t, keys)
}

// TestNamesNeedWrites: a right to read is not enough for the name of a lock.
func TestNamesNeedWrites(t *testing.T) {
	server := redisproc.Start(t)
	redisproc.Needs7(t, server, "a right to read a key")
	_, err := server.Command("ACL", "SETUSER", "u", "on", ">secret", "~quorumlock:*", "%R~job:*", "&*", "+@all")
	require.NoError(t, err)
	assert.Equal(t, []string{"~job:a"}, verdicts(lookAt(t, server), Denied))
}

func TestCommandsThatAreMissing(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithArgs("--rename-command", "ZADD", "", "--rename-command", "GETRANGE", "", "--rename-command", "HSET", ""),
		redisproc.WithACL("user u on >secret ~* &* +@all"))
	redisproc.Needs7(t, server, unwriting)
	assert.Equal(t, []string{"+getrange", "+hset", "+zadd"}, verdicts(lookAt(t, server), Missing))
}

// TestVerdicts has the texts of all versions of servers.
func TestVerdicts(t *testing.T) {
	for text, c := range map[string]struct {
		verdict Verdict
		rule    string
	}{
		"NOPERM this user has no permissions to run the 'hkeys' command":                                         {Denied, "+x"},
		"NOPERM this user has no permissions to run the 'hkeys' command or its subcommand":                       {Denied, "+x"},
		"NOPERM User u has no permissions to run the 'hkeys' command":                                            {Denied, "+x"},
		"NOPERM this user has no permissions to access one of the keys used as arguments":                        {Denied, "~quorumlock:*"},
		"NOPERM No permissions to access a key":                                                                  {Denied, "~quorumlock:*"},
		"NOPERM this user has no permissions to access one of the channels used as arguments":                    {Denied, "&quorumlock:inbox:*"},
		"NOPERM No permissions to access a channel":                                                              {Denied, "&quorumlock:inbox:*"},
		"The user executing the script can't run this command or subcommand":                                     {Denied, "+x"},
		"The user executing the script can't access at least one of the keys mentioned in the command arguments": {Denied, "~quorumlock:*"},
		"The user executing the script can't publish to the channel mentioned in the command":                    {Denied, "&quorumlock:inbox:*"},
		"ACL failure in script: User u has no permissions to run the 'hset' command":                             {Denied, "+x"},
		"ACL failure in script: No permissions to access a key":                                                  {Denied, "~quorumlock:*"},
		"unknown command 'EVAL', with args beginning with: ":                                                     {Missing, ""},
		"Unknown Redis command called from script":                                                               {Missing, ""},
		"i/o timeout": {Untried, ""},
	} {
		err := errors.New(text)
		verdict, _ := verdictOf(err)
		assert.Equal(t, c.verdict, verdict, text)
		if verdict == Denied {
			rule := "+x"
			if strings.Contains(text, "channel") {
				rule = "+publish"
			}
			assert.Equal(t, c.rule, deniedRule(rule, text), text)
		}
	}
}

// TestWriteVerdicts: a server of 6.2 does not know scripts that may not write, and its answer says nothing about a
// right.
func TestWriteVerdicts(t *testing.T) {
	for text, want := range map[string]Verdict{
		"Write commands are not allowed from read-only scripts.":                                                                 Permitted,
		"Error compiling script (new function): user_script:1: unexpected symbol near '#'":                                       Untried,
		"Error running script (call to f_1): @user_script:2: The user executing the script can't run this command or subcommand": Denied,
		"NOPERM User script has no permissions to run the 'eval' command":                                                        Untried,
		"unknown command 'EVAL', with args beginning with: 'script'":                                                             Untried,
		"NOPERM this user has no permissions to run the 'eval' command":                                                          Untried,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                Untried,
	} {
		verdict, err := writeVerdict(errors.New(text))
		assert.Equal(t, want, verdict, text)
		assert.Equal(t, want == Permitted, err == nil, text)
	}
	verdict, _ := writeVerdict(nil)
	assert.Equal(t, Untried, verdict, "a server that ran it after all")
}

// TestServerThatHangsInTheMiddle: a server that stops answering is not asked thirty more times, and its remaining
// checks are not OK.
func TestServerThatHangsInTheMiddle(t *testing.T) {
	server := redisproc.Start(t)
	// It also bounds the connection, which must not be late on a busy machine: the error would be another one.
	const patience = time.Second
	opt, err := node.ParseOptions(redisproc.Relay(t, server.Addr(), untilHMGET, redisproc.Copy).Addr())
	require.NoError(t, err)
	began := time.Now()
	f := Examine(t.Context(), Config{Nodes: []node.Options{opt}, Limits: limits, Timeout: time.Second, Patience: patience})
	assert.Less(t, time.Since(began), 10*patience)
	require.ErrorIs(t, f.Nodes[0].Unreached, node.ErrUnreachable)
	assert.Equal(t, Error, f.Report().Severity)
}

// untilHMGET passes commands on, up to that one; then it only waits for the end.
func untilHMGET(server, client net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("HMGET")) {
			_, _ = io.Copy(io.Discard, client)
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// grants returns the commands that grant rights, as the report prints them.
func grants(t *testing.T, n *Node) (commands []string) {
	t.Helper()
	j := &judge{Facts: &Facts{Config: Config{Limits: limits, Names: []string{"job:a"}}}}
	j.rights(n)
	for _, finding := range j.findings {
		commands = append(commands, finding.Commands...)
	}
	return commands
}

// TestAllMissingRightsAreFoundAtOnce: after the printed commands have run once, nothing is missing.
func TestAllMissingRightsAreFoundAtOnce(t *testing.T) {
	for _, program := range []string{"", redisproc.Oldest, redisproc.NewestRedis, redisproc.NewestValkey} {
		t.Run(program, func(t *testing.T) {
			var opts []redisproc.Option
			if program != "" {
				opts = append(opts, redisproc.WithProgram(redisproc.Fetched(t, program)))
			}
			server := redisproc.Start(t, opts...)
			whole := strings.Join(strings.Fields(rights.SetUser("u", "secret", "job:*"))[3:], " ")
			for _, rules := range []string{
				"on >secret resetchannels +hello +client",
				"on >secret resetchannels +hello +client +info",
				"on >secret resetchannels +hello +client +eval +info +ping",
				"on >secret resetchannels +hello +client +eval +info +ping ~job:*",
				strings.NewReplacer(rights.Inboxes, "", "+publish", "", "+subscribe", "").Replace(whole),
				strings.NewReplacer(rights.Keys, "", "+info", "", "+subscribe", "").Replace(whole),
			} {
				_, err := server.Command(append([]string{"ACL", "SETUSER", "u", "reset"}, strings.Fields(rules)...)...)
				require.NoError(t, err)
				commands := grants(t, lookAt(t, server))
				require.NotEmpty(t, commands)
				for _, command := range append(commands, "ACL SETUSER u ~job:a") {
					_, err := server.Command(strings.Fields(command)...)
					require.NoError(t, err)
				}
				again := lookAt(t, server)
				assert.Empty(t, verdicts(again, Denied), "%s, and then %v", rules, commands)
				if server.IsBefore7() { // only a write could show the right to write
					assert.NotContains(t, verdicts(again, Untried), "~job:a")
				} else {
					assert.Empty(t, verdicts(again, Untried), "%s, and then %v", rules, commands)
				}
			}
		})
	}
}

// TestDatabaseNeedsARight: the doctor finds that the right to use another database than 0 is missing.
func TestDatabaseNeedsARight(t *testing.T) {
	server := redisproc.Start(t)
	_, err := server.Command(strings.Fields(rights.SetUser("u", "secret", "job:*"))...)
	require.NoError(t, err)
	look := func() []Finding {
		opt, err := node.ParseOptions("redis://u:secret@" + server.Addr() + "/3")
		require.NoError(t, err)
		return worse(Examine(t.Context(), Config{Nodes: []node.Options{opt}, Limits: limits, Timeout: time.Second, Patience: 5 * time.Second}).Report(), "reachable")
	}
	found := look()
	require.NotEmpty(t, found)
	assert.Contains(t, found[0].Found, "'select'")
	assert.Contains(t, found[0].Do, "Grant the user the right that the error names")
	_, err = server.Command("ACL", "SETUSER", "u", "+select")
	require.NoError(t, err)
	assert.Empty(t, look())
}

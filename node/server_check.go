package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// errMisconfiguredServer marks a server whose configuration is unsafe for locks.
var errMisconfiguredServer = errors.New("unfit for locks")

// errReplica marks a server that is a replica, and may become a master again.
var errReplica = errors.New("it is a replica")

// The oldest version that the library supports. Before it, scripts ignore min-replicas-to-write, so a master that
// is cut off goes on granting locks.
const oldestVersion = "6.2.7"

// checkFitness checks the INFO of a server, or its section about replication alone, and returns the server's
// identity. A node that is a slot of a cluster needs a server of a cluster, and any other node needs one that is not. A
// blind server may show less, but nothing that is wrong.
// checkMemory checks the rest of INFO.
func checkFitness(info string, ofCluster, blind bool) (identity string, err error) {
	identity = infoField(info, "master_replid")
	version := infoField(info, "redis_version")
	mode := modeOf(info)
	switch role := infoField(info, "role"); {
	case role == "slave":
		master := infoField(info, "master_host") + ":" + infoField(info, "master_port")
		return "", fmt.Errorf("%w of %s: list the master, or wait if a failover is under way", errReplica, master)
	case identity == "" && !blind:
		return "", errBlind("INFO replication has no master_replid")
	case role != "master" && (role != "" || !blind):
		return "", fmt.Errorf("%w: its role is %q, and only a master can keep locks", errMisconfiguredServer, role)
	case isOlder(version, oldestVersion):
		return "", fmt.Errorf("%w: the server is Redis %s, and %s is the oldest supported version: upgrade it", errMisconfiguredServer, version, oldestVersion)
	case mode == "cluster" && !ofCluster:
		return "", fmt.Errorf("%w: the server is part of a cluster: give the address a tag, so that the node is one slot of it, or set cluster-enabled no", errMisconfiguredServer)
	case mode != "" && mode != "cluster" && ofCluster:
		return "", fmt.Errorf("%w: the address has a tag, and the server is not part of a cluster: remove the tag", errMisconfiguredServer)
	default:
		return identity, nil
	}
}

// modeOf returns the mode of a server, or "" if the text of INFO does not tell it. Redis tells it as redis_mode, Valkey
// as server_mode too, and Redict as redict_mode.
func modeOf(info string) string {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasSuffix(key, "_mode") && slices.Contains([]string{"standalone", "cluster", "sentinel"}, value) {
			return value
		}
	}
	return ""
}

// isOlder reports whether a version comes before another one. A text that is no version is not older.
func isOlder(version, than string) bool {
	parts, limits := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(parts), len(limits)) {
		part, err := strconv.Atoi(parts[i])
		limit, _ := strconv.Atoi(limits[i])
		if err != nil || part != limit {
			return err == nil && part < limit
		}
	}
	return false
}

// infoField returns the value of a field in the text of INFO, or "" if it is absent.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && key == name {
			return value
		}
	}
	return ""
}

// A server is blind here if no script can read its identity, so a restart that keeps the marker goes unnoticed. Managed
// services refuse INFO in scripts, and other products show no master_replid. Options.AllowUnseenLosses accepts such a
// server. A server that shows its identity is used as ever, also with the option.

// unseenIdentity is the identity in the scripts for a blind server.
var unseenIdentity = wire.UnseenIdentity + strings.Repeat("0", 34)

// unseenPlace is where the constant that stands for INFO has the identity.
const unseenPlace = 1

// unseenByThis begins the error of guard where others see an identity.
const unseenByThis = "UNSEEN"

// blindfold puts a constant in the place of INFO into the text of a script.
var blindfold = func() *strings.Replacer {
	const call = "call('INFO', 'replication')"
	constant := "'" + identityField + unseenIdentity + "'"
	return strings.NewReplacer("redis."+call, constant, call, constant)
}()

// infoInScript returns what scripts see of INFO, and fails if they may not run it, or lack the library that batches need.
// What the other sections lack is no reason to take the server for blind.
const infoInScript = `local _ = cmsgpack.unpack
local told = redis.pcall('INFO', 'replication')
for _, section in ipairs({'server', 'memory'}) do
  local more = redis.pcall('INFO', section)
  if type(told) == 'string' and type(more) == 'string' then
    told = told .. '\n' .. more
  end
end
return told`

// Unseen implements [Node].
func (r *redisNode) Unseen() string {
	if reason := r.link.unseen.Load(); reason != nil {
		return *reason
	}
	return ""
}

// isHidden reports whether a server refuses INFO to all users. A right that this user lacks is another matter: a user who has
// it may see what this one cannot. And a refusal in unknown words may be a passing one, of a proxy.
func isHidden(err error) bool {
	return isRefused(err) && reasonOf(err) != ErrAuth && lacksCommand(err.Error()) //nolint:errorlint // a reason is never wrapped
}

// explained adds to an error of a script what the operator can do.
func explained(err error) error {
	if strings.Contains(err.Error(), notFromScript) {
		return fmt.Errorf("%w: if that is INFO, no restart would be noticed: %s", err, useAnother)
	}
	return err
}

// notFromScript are the words of Redis Enterprise, which do not name the command.
const notFromScript = "command is not allowed from script"

const useAnother = "use another server, or set AllowUnseenLosses (--allow-unseen-losses), if locks only save work"

// errBlind is for a server that cannot be used without AllowUnseenLosses.
func errBlind(reason string) error {
	return fmt.Errorf("%w: %s, by which a restart is noticed: %s", errMisconfiguredServer, reason, useAnother)
}

// look decides whether the server is blind. It returns the INFO to check: what scripts see, or, of a blind server, what
// there is. plain is INFO outside of scripts, and err why that is not whole.
func (l *link) look(plain string, err error, script string, scriptErr error) (string, error) {
	reason := ""
	switch {
	case err != nil && !isHidden(err):
		return "", err
	case !l.allowUnseen && err != nil:
		return "", errBlind(fmt.Sprintf("it refuses INFO (%.200s)", err))
	case !l.allowUnseen:
		return plain, nil
	case scriptErr == nil && infoField(script, "master_replid") != "":
		if err != nil {
			plain = script
		}
	case scriptErr != nil && !isHidden(scriptErr):
		return "", scriptErr
	case scriptErr != nil:
		reason = fmt.Sprintf("it refuses INFO in scripts (%.200s)", scriptErr)
	default:
		if err != nil {
			plain += script
		}
		reason = "INFO replication has no master_replid in scripts"
	}
	l.unseen.Store(&reason)
	l.writer.blind = reason != ""
	return plain, nil
}

// Eviction implements [Node].
func (r *redisNode) Eviction() string {
	if reason := r.link.eviction.Load(); reason != nil {
		return *reason
	}
	return ""
}

// memoryPolicy has the settings of a server for the case that its memory is full. A field that INFO does not show is "".
type memoryPolicy struct{ policy, limit string }

func memoryPolicyOf(info string) memoryPolicy {
	return memoryPolicy{infoField(info, "maxmemory_policy"), infoField(info, "maxmemory")}
}

// keepsAll reports whether the policy evicts nothing at any limit.
func (m memoryPolicy) keepsAll() bool { return m.policy == "" || m.policy == "noeviction" }

// eviction says why the server may evict locks, or returns "". Without a limit no policy evicts anything.
func (m memoryPolicy) eviction() string {
	switch {
	case m.keepsAll() || m.limit == "0":
		return ""
	case m.limit == "":
		return fmt.Sprintf("maxmemory-policy is %s and INFO does not show maxmemory", m.policy)
	default:
		return fmt.Sprintf("maxmemory-policy is %s and maxmemory is %s bytes", m.policy, m.limit)
	}
}

// lookAgain is how often a connection in use asks for the memory policy, if only the limit 0 keeps the server from
// evictions. CONFIG SET can change the limit at any time.
const lookAgain = 10 * time.Second

// evictionWatch decides when to ask a server for its memory policy again. One call at a time uses it.
type evictionWatch struct {
	// allowed is set if the server may evict locks.
	allowed bool
	// on is set if the server would evict locks if it had a limit.
	on bool
	// every is lookAgain, except in tests. asked is when the server was asked last.
	every time.Duration
	asked time.Time
}

// checkMemory returns an error if the server may evict locks, and that is not allowed.
func (l *link) checkMemory(m memoryPolicy) error {
	reason, w := m.eviction(), &l.evictions
	w.on, w.asked = !m.keepsAll() && reason == "", l.began
	if reason != "" && !w.allowed {
		return fmt.Errorf("%w: %s, so the server may evict locks: set maxmemory-policy to noeviction, or maxmemory to 0; or set AllowEviction (--allow-eviction), if locks only save work", errMisconfiguredServer, reason)
	}
	l.eviction.Store(&reason)
	return nil
}

// watch adds a command to the commands of an exchange, if it is time to look at the memory policy again.
func (l *link) watch(commands rueidis.Commands) rueidis.Commands {
	w := &l.evictions
	if !w.on || l.began.Sub(w.asked) < w.every {
		return commands
	}
	w.asked = l.began
	return append(commands, l.client.B().Arbitrary("INFO", "memory").Build())
}

// watched takes the answer to the command of watch. A server that may evict locks by now is not used again: the next
// call connects, and its handshake has the error.
func (l *link) watched(result rueidis.RedisResult) {
	if info, err := result.ToString(); err == nil {
		l.unsound = l.checkMemory(memoryPolicyOf(info)) != nil
	}
}

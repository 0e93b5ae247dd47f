package node

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
)

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

// Unseen implements [wire.Weak].
func (r *redisNode) Unseen() string {
	if reason := r.link.unseen.Load(); reason != nil {
		return *reason
	}
	return ""
}

// isHidden reports whether a server refuses INFO to all users, by the words of Redis, Redis Enterprise, Upstash,
// miniredis and others. A right that this user lacks is another matter: a user who has it may see what this one cannot. And a refusal
// in unknown words may be a passing one, of a proxy.
func isHidden(err error) bool {
	if !isRefused(err) || reasonOf(err) == ErrAuth { //nolint:errorlint // a reason is never wrapped
		return false
	}
	text := strings.ToLower(err.Error())
	for _, words := range []string{"unknown command", "unknown redis command", "unsupported command", notFromScript, "command is not available", "not support"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
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

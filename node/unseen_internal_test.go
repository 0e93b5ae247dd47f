package node

import (
	"errors"
	"slices"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No script asks a blind server for INFO, and each that does so elsewhere gets the constant.
func TestBlindfoldCoversEveryScript(t *testing.T) {
	covered := 0
	sources := []string{many.source}
	for _, o := range slices.Concat(lockOperations[:], readerOperations[:], poolOperations[:]) {
		sources = append(sources, o.script.source)
	}
	for _, source := range sources {
		blind := fitted(source, true)
		assert.NotContains(t, blind, "INFO'")
		if blind != source {
			covered++
			assert.Contains(t, blind, "'master_replid:"+unseenIdentity+"'")
		}
	}
	assert.Greater(t, covered, 5)
	assert.Len(t, unseenIdentity, 40)
}

// Only words that say so hide INFO from all users. A lack of a right, a state that passes, and unknown words of a proxy do
// not: the server may tell others, or tell it in a moment.
func TestWhichRefusalsHideInfo(t *testing.T) {
	for text, hidden := range map[string]bool{
		"unknown command 'INFO', with args beginning with: 'server' ":                    true,
		"Unknown Redis command called from script script: 9c3, on @user_script:1.":       true,
		"Unknown command called from script script: 9c3, on @user_script:1.":             true,
		"This Redis command is not allowed from script script: 9c3, on @user_script:7.":  true,
		"@user_script: 1: Unknown Redis command called from Lua script":                  true,
		"Command is not available: 'INFO'. See https://upstash.com/docs for more":        true,
		"NOPERM the command is not available to this user":                               false,
		"service is not available, try again":                                            false,
		"section (server) is not supported":                                              true,
		"NOPERM this user has no permissions to run the 'info' command":                  false,
		"The user executing the script can't run this command or subcommand script: 9c3": false,
		"ACL failure in script: User u has no permissions to run the 'info' command":     false,
		"BUSY Redis is busy running a script.":                                           false,
		"LOADING Redis is loading the dataset in memory":                                 false,
		"upstream failure": false,
		"no upstream host": false,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": false,
	} {
		err := mock.Result(mock.RedisError(text)).Error()
		_, isReply := rueidis.IsRedisErr(err)
		require.True(t, isReply)
		assert.Equal(t, hidden, isHidden(err), text)
	}
	assert.False(t, isHidden(errors.New("unknown command"))) // not said by a server
}

// What a handshake concludes, with the option and without it.
func TestLookForIdentity(t *testing.T) {
	const whole, bare = "role:master\nmaster_replid:abc\n", "role:master\n"
	hides, passes := mock.Result(mock.RedisError("unknown command 'INFO'")).Error(), mock.Result(mock.RedisError("LOADING it")).Error()
	for name, c := range map[string]struct {
		allow       bool
		plain       string
		err         error
		script      string
		scriptErr   error
		info        string // what is checked; "" if there is an error
		unseen, why string
	}{
		"it tells, and nothing is allowed":      {plain: whole, info: whole},
		"it refuses, and nothing is allowed":    {err: hides, why: "AllowUnseenLosses"},
		"it does not answer now":                {err: passes, why: "LOADING"},
		"it tells":                              {allow: true, plain: whole, script: whole, info: whole},
		"it tells scripts alone":                {allow: true, err: hides, script: whole, info: whole},
		"it tells no script":                    {allow: true, plain: whole, scriptErr: hides, info: whole, unseen: "it refuses INFO in scripts (unknown command 'INFO')"},
		"it tells nobody":                       {allow: true, plain: "\n", err: hides, scriptErr: hides, info: "\n", unseen: "it refuses INFO in scripts (unknown command 'INFO')"},
		"it tells scripts alone, too little":    {allow: true, plain: "\n", err: hides, script: bare, info: "\n" + bare, unseen: "INFO replication has no master_replid in scripts"},
		"it tells scripts too little":           {allow: true, plain: whole, script: bare, info: whole, unseen: "INFO replication has no master_replid in scripts"},
		"it does not answer now, allowed":       {allow: true, err: passes, scriptErr: hides, why: "LOADING"},
		"the script does not answer now":        {allow: true, plain: whole, scriptErr: passes, why: "LOADING"},
		"neither now":                           {allow: true, err: hides, scriptErr: passes, why: "LOADING"},
		"the connection broke under the script": {allow: true, err: hides, scriptErr: errMoved, why: errMoved.Error()},
	} {
		r := &redisNode{}
		l := &r.link
		l.allowUnseen = c.allow
		info, err := l.look(c.plain, c.err, c.script, c.scriptErr)
		if c.why != "" {
			require.ErrorContains(t, err, c.why, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, c.info, info, name)
		assert.Equal(t, c.unseen != "", l.writer.blind, name)
		assert.Equal(t, c.unseen, r.Unseen(), name)
	}
}

// The identity stands where the form says.
func TestPlaceOfUnseenIdentity(t *testing.T) {
	w := writer{blind: true, place: 77}
	s := w.form(scriptForm{body: &many})
	assert.Contains(t, s.source, "local FROM, TO = 1, 54", "see unseenPlace")
}

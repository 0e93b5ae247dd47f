package peer

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/hex"
)

// The scripts of the limits implement only the lock itself: no recovery, no token, one name.
var (
	acquireScript = newScript(`if redis.call('HKEYS', KEYS[1])[1] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)
	releaseScript = newScript(`if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('DEL', KEYS[1])`)
)

type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by their SHA-1.
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

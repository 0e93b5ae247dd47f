package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const infoBefore = "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.000000\r\n" +
	"used_cpu_sys_children:7.0\r\n# Commandstats\r\n" +
	"cmdstat_evalsha:calls=10,usec=1,usec_per_call=1.0\r\ncmdstat_set:calls=4,usec=1\r\n" +
	"# Stats\r\ntotal_reads_processed:30\r\ntotal_writes_processed:20\r\n" +
	"cmdstat_client|setinfo:calls=2,usec=1\r\ncmdstat_client|id:calls=1,usec=1\r\ncmdstat_info:calls=5,usec=1\r\n"

func TestInfoIsRead(t *testing.T) {
	c := parseInfo(infoBefore)
	assert.Equal(t, 3500*time.Millisecond, c.CPU)
	assert.Equal(t, int64(50), c.Transfers)
	assert.Equal(t, map[string]int64{"evalsha": 10, "set": 4, "client": 3, "info": 5}, c.Calls)
}

func TestWorkBetweenSnapshots(t *testing.T) {
	before := parseInfo(infoBefore)
	after := parseInfo("used_cpu_sys:2.5\r\nused_cpu_user:2.0\r\ncmdstat_evalsha:calls=15,usec=1\r\n" +
		"cmdstat_set:calls=7,usec=1\r\ncmdstat_client|setinfo:calls=3,usec=1\r\ncmdstat_info:calls=8,usec=1\r\n" +
		"cmdstat_ping:calls=1,usec=1\r\ntotal_reads_processed:37\r\ntotal_writes_processed:21\r\n")
	after.Calls["client"], after.Wakeups = 4, 9
	w := Snapshot{after, nil}.Since(Snapshot{before, before}, nil)
	assert.Equal(t, Work{
		Servers: 1, CPU: time.Second,
		Commands: 5 + 3 + 1 + 1 + 2, // with the INFO that scripts called
		Scripts:  5,
		Sent:     5 + 1 + 1,

		Transfers: 8, Wakeups: 9,
	}, w, "servers that do not answer are left out")

	w = Snapshot{after}.Since(Snapshot{before}, []string{"set"})
	assert.Equal(t, int64(5+3+1+1), w.Sent, "SET, of a peer that sends it")
}

package goredis

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// These are the fields of go-redis' options, also of versions later than the one in go.mod. A new field must be added
// here, and to the documentation of the package if nodes ignore it.
const (
	taken = `Network Addr Addrs SentinelAddrs MasterName ClientName Dialer Protocol Username Password CredentialsProvider
		CredentialsProviderContext StreamingCredentialsProvider SentinelUsername SentinelPassword DB DialTimeout TLSConfig`
	refused = `OnConnect ReplicaOnly ReadOnly RouteByLatency RouteRandomly IsClusterMode ClusterSlots NewClient`
	ignored = `MaxRetries MinRetryBackoff MaxRetryBackoff MaxRedirects DialerRetries DialerRetryTimeout DialerRetryBackoff
		ReadTimeout WriteTimeout ContextTimeoutEnabled ReadBufferSize WriteBufferSize
		PoolFIFO PoolSize PoolTimeout MaxConcurrentDials MinIdleConns MaxIdleConns MaxActiveConns
		ConnMaxIdleTime ConnMaxLifetime ConnMaxLifetimeJitter Limiter FailingTimeoutSeconds
		AutoPipelineOptions PipelinePoolSize PipelineReadBufferSize PipelineWriteBufferSize
		ClientSideCache ClientSideCacheConfig ClientSideCacheStrategy ClientSideCacheCoalesceMisses
		ClientSideCacheInvalidationBatchWindow ClientSideCacheRefreshOnInvalidate
		DisableIndentity DisableIdentity IdentitySuffix UnstableResp3 PushNotificationProcessor MaintNotificationsConfig
		NodeAddress RouteByLatencyTolerance UseDisconnectedReplicas
		DisableRoutingPolicies ShardPicker ClusterStateReloadInterval`
)

func TestEachFieldIsKnown(t *testing.T) {
	known := strings.Fields(taken + " " + refused + " " + ignored)
	for _, opt := range []any{redis.Options{}, redis.FailoverOptions{}, redis.UniversalOptions{}, redis.ClusterOptions{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(opt)) {
			assert.True(t, !field.IsExported() || slices.Contains(known, field.Name), "%T has the new field %s", opt, field.Name)
		}
	}
}

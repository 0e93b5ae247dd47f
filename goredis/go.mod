module github.com/quorumlock/quorumlock/goredis

go 1.25.0

replace github.com/quorumlock/quorumlock => ..

require (
	github.com/quorumlock/quorumlock v0.0.0
	github.com/redis/go-redis/v9 v9.17.3
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

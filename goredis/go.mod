module github.com/quorumlock/quorumlock/goredis

go 1.26.0

replace github.com/quorumlock/quorumlock => ..

require (
	github.com/quorumlock/quorumlock v0.0.0
	github.com/redis/go-redis/v9 v9.17.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

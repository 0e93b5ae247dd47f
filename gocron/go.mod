module github.com/quorumlock/quorumlock/gocron

go 1.25.0

replace github.com/quorumlock/quorumlock => ..

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/quorumlock/quorumlock v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

module github.com/quorumlock/quorumlock/faultinject

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/quorumlock/quorumlock v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/quorumlock/quorumlock => ../

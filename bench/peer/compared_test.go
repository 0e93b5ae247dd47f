package peer

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of the README follows the source of the versions with which this module measures and tests. If one of them moves
// to a later version, its column must be checked again.
func TestComparedVersionsAreThoseThatAreTested(t *testing.T) {
	version := func(file, pattern string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		require.NotNil(t, found, "%s has no %s", file, pattern)
		return string(found[1])
	}
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), fmt.Sprintf(
		"The columns follow the source of redsync %s, bsm/redislock %s, rueidis %s and Redisson %s.",
		version("../go.mod", `redsync/v4 v([\d.]+)`), version("../go.mod", `bsm/redislock v([\d.]+)`),
		version("../go.mod", `redis/rueidis v([\d.]+)`), version("../redisson/pom.xml", `<artifactId>redisson</artifactId>\s*<version>([\d.]+)<`),
	))
}

package redisproc

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// orphanEnv turns the test binary into a program that launches a server and waits to be killed.
const orphanEnv = "REDISPROC_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		launchAndHang()
	}
	goleak.VerifyTestMain(m)
}

func launchAndHang() {
	s, err := TryLaunch(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(s.PID(), s.Dir())
	select {}
}

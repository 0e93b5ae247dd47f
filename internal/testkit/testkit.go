// Package testkit helps tests whose results depend on how much time the machine gives them.
package testkit

import "testing"

// Inconclusive ends a test that saw too little to decide, as the machine was too busy. The
// test counts as neither passed nor failed, and the summary of make test names it with the reason.
//
// Safety is never inconclusive: two holders, or a token out of order, fail the test on any machine.
// A test that has failed before stays failed.
func Inconclusive(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Skipf("INCONCLUSIVE: "+format, args...)
}

// Missing ends a test that needs something that this machine does not have. The test counts as not run, and the
// summary of make test says why. With required, the test fails instead.
func Missing(t testing.TB, required bool, format string, args ...any) {
	t.Helper()
	if required {
		t.Fatalf("missing: "+format, args...)
	}
	t.Skipf("it needs "+format, args...)
}

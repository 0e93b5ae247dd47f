package sim_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/faultinject/sim"
)

var (
	zzFrom = flag.Uint64("zzfrom", 500000, "")
	zzN    = flag.Int("zzn", 100, "")
	zzRuns = flag.Int("zzruns", 2, "")
)

func TestZZ(t *testing.T) {
	bad := 0
	for i := range *zzN {
		c := sim.Kind(*kind).Draw(*zzFrom + uint64(i))
		a := sim.Run(t, c, true).History
		for range *zzRuns - 1 {
			b := sim.Run(t, c, true).History
			if slices.Equal(a, b) {
				continue
			}
			bad++
			k := 0
			for k < len(a) && k < len(b) && a[k] == b[k] {
				k++
			}
			fmt.Printf("== seed %v lines %d/%d differ at %d\n", c, len(a), len(b), k)
			show := func(h []string) {
				for j := max(0, k-2); j < min(len(h), k+3); j++ {
					fmt.Println("   ", h[j])
				}
			}
			show(a)
			fmt.Println("  --")
			show(b)
			break
		}
	}
	fmt.Println("bad", bad, "of", *zzN)
}

package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// FenceOffset is for the tests outside of the package.
var FenceOffset = fenceOffset

// All versions of this library must find the fence of a name at the same place.
func TestPlacesOfFencesStayTheSame(t *testing.T) {
	for name, place := range map[string]uint16{
		"": 7385, "a": 52512, "b": 51945, "{a}": 64262, "job": 61960, "\x00\xff": 5591, "orders/4711": 52617,
		strings.Repeat("n", 512): 33059,
	} {
		assert.Equal(t, place, fencePlace(name), "%q", name)
		assert.EqualValues(t, 16*int(place), fenceOffset(name))
	}
	for _, names := range [][]string{{"aaa", "ncw"}, {"aak", "phr", "upy"}, {"a", "a229734"}} {
		for _, name := range names {
			assert.Equal(t, fencePlace(names[0]), fencePlace(name), "tests rely on this")
		}
	}
}

// Names that differ in a number share places no more often than by chance.
func TestPlacesOfFencesAreSpread(t *testing.T) {
	for _, form := range []string{"%d", "n%d", "order:%08d", "user/%d/cart", "{tenant}:%d"} {
		taken := make(map[uint16]int)
		most := 0
		for i := range fencePlaces {
			p := fencePlace(fmt.Sprintf(form, i))
			taken[p]++
			most = max(most, taken[p])
		}
		assert.Greater(t, len(taken), fencePlaces*60/100, "by chance 63 percent of the places: %s", form)
		assert.Less(t, most, 14, form)
	}
}

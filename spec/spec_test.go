//go:build !race

package spec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// bound is how many states an exploration may have. All of them together take less than a minute, without the race
// detector: an exploration has one goroutine.
const bound = 500_000

// Lists of nodes: each bit is a node.
const (
	one       = 0b0001
	two       = 0b0011
	three     = 0b0111
	exchanged = 0b1011
	four      = 0b1111
)

// with changes what most configurations share: two owners on three nodes.
func with(name string, change func(*config), rules ...rule) config {
	c := config{
		name: name, rules: rules, lists: []uint8{three, three},
		ttl: 3, acquireTTL: 3, drift: 1, skew: 1, horizon: 4,
	}
	change(&c)
	return c
}

// Each configuration is small in all but one or two respects, as their product has too many states. Its rules are those
// that it shows to be needed.
var configurations = []config{
	with("a loss of memory", func(c *config) { c.losses, c.late, c.horizon = 1, true, 5 }, newMemoryRecovers, releasesFreeTheirOwn),
	with("two losses", func(c *config) { c.losses = 2 }),
	with("a loss back to an old copy on disk", func(c *config) { c.losses, c.writes = 1, 1 }),
	with("clocks that lose the whole allowance", func(c *config) {
		c.lags, c.renewals, c.late = 2, 1, true
	}, driftIsTakenOff, renewalsTakeNothing, renewalsKeepTheLife),
	with("two renewals", func(c *config) { c.renewals, c.late, c.horizon = 2, true, 5 }),
	with("a loss and a renewal", func(c *config) { c.losses, c.renewals = 1, 1 }),
	with("acquisitions with a shorter TTL", func(c *config) {
		c.acquireTTL, c.drift, c.skew, c.renewals, c.late, c.horizon = 1, 0, 0, 1, true, 5
	}, acquisitionsKeepTheLife),
	with("answers that are late", func(c *config) { c.lateAnswers, c.renewals = true, 1 }, validFromTheSend),
	with("a recovery that a renewal begins", func(c *config) {
		c.ttl, c.acquireTTL, c.drift, c.skew, c.losses, c.renewals, c.horizon = 2, 2, 0, 0, 1, 1, 5
	}, renewalsSeeNewMemory, healsNeedAClaim),
	with("tokens that are proposed twice", func(c *config) {
		c.tokens, c.raises, c.skew, c.horizon = true, true, 0, 4
	}, majorityTakesTheToken),
	with("tokens, and a loss of memory", func(c *config) { c.tokens, c.losses = true, 1 }, recoveryLastsLongestTTL, recoveryIncludesSkew),
	with("tokens of a clock that is far behind", func(c *config) {
		c.tokens, c.losses, c.ttl, c.acquireTTL, c.drift = true, 1, 2, 2, 0
		c.skew, c.behind, c.horizon = 0, 2, 3
	}, oldTokensAreRefused),
	with("tokens of leases that are renewed", func(c *config) { c.tokens, c.losses, c.renewals, c.skew = true, 1, 1, 0 }),
	with("a reader and a writer", func(c *config) { c.readers, c.losses, c.renewals = 1, 1, 1 }, writersWaitForReaders),
	with("two readers and a writer", func(c *config) { c.readers, c.lists, c.horizon = 2, []uint8{three, three, three}, 3 }),
	with("three owners", func(c *config) { c.lists, c.horizon = []uint8{three, three, three}, 3 }),
	with("a list with one node more", func(c *config) { c.lists, c.losses, c.horizon = []uint8{three, four}, 1, 3 }),
	with("a list with one node less", func(c *config) { c.lists, c.losses, c.renewals = []uint8{three, two}, 1, 1 }),
	changed("a node that is exchanged in two steps", nil, stepsWait),
	changed("tokens over an exchange in two steps", func(c *config) {
		c.lists, c.added, c.tokens, c.skew, c.horizon = []uint8{one, two, two &^ one}, 1, true, 1, 5
	}, stepsWaitForSkew),
	changed("a loss of memory in an exchange", func(c *config) { c.losses, c.ttl, c.acquireTTL, c.late, c.horizon = 1, 1, 1, false, 3 }),
	changed("two nodes that are added", func(c *config) { c.lists, c.added = []uint8{one, two, three}, 1 }),
	semaphore("a semaphore that becomes smaller", []uint8{0b01, 0b10}, []uint8{2, 1}, func(c *config) {
		c.losses, c.horizon = 1, 2
	}, nodesDenyBeyondSize, majorityHasTheSize),
	semaphore("sizes in any order", []uint8{0b01, 0b10}, []uint8{1, 2, 1}, func(c *config) { c.horizon = 1 }, laterSizesStay),
	semaphore("a size on an old copy on disk", []uint8{0b01, 0b10}, []uint8{2, 1}, func(c *config) {
		c.losses, c.writes, c.horizon = 1, 1, 1
	}),
	semaphore("three owners of two permits", []uint8{0b01, 0b10, 0b01}, []uint8{2}, func(c *config) { c.horizon = 3 }, permitsAreSlots),
	semaphore("two permits at once", []uint8{0b11, 0b10}, []uint8{1, 2}, func(c *config) { c.losses, c.horizon = 1, 2 }),
	handedOver("leases that are handed over", func(c *config) { c.renewals, c.drift, c.lags, c.late = 1, 1, 1, true }, noneAfterTheRelease),
	handedOver("tokens that are handed over", func(c *config) {
		c.horizon = 4
	}, claimsAreHandedOver, tokensStayInTheBlock, fenceIsTheBlocksEnd, firstTokenIsCompared),
	handedOver("tokens that are handed over, and a loss", func(c *config) { c.losses, c.horizon = 1, 5 }, blocksEndIsNotTooLate),
	downgraded("a writer that becomes a reader", func(c *config) { c.late, c.horizon = true, 3 }, readersWaitForWriters),
	downgraded("a writer that becomes a reader, beside a reader and a writer", func(c *config) {
		c.lists, c.ttl, c.acquireTTL, c.horizon = []uint8{three, three, three}, 1, 1, 2
	}, readersStayReaders),
	downgraded("a downgrade, and a loss", func(c *config) { c.losses, c.ttl, c.acquireTTL, c.horizon = 1, 1, 1, 2 }),
	downgraded("a downgrade that runs late", func(c *config) {
		c.readers, c.late, c.horizon = 0, true, 2
	}, downgradesKeepTheLife, downgradesTakeNothing),
	read("the tokens of a reader that lists a node less", func(c *config) {
		c.lists, c.ttl, c.acquireTTL, c.horizon = []uint8{two, three}, 2, 2, 4
	}, readersFollowWriters, fencesNeedAClaim),
	read("the tokens of two readers", func(c *config) {
		c.lists, c.readers, c.horizon = []uint8{three, three, three}, 2, 1
	}, majorityHasReadTokens),
	read("the tokens of a reader, and a loss", func(c *config) { c.losses, c.skew, c.horizon = 1, 1, 2 }, forgottenTokensCount),
}

// semaphore has permits: what each owner asks for, and the sizes that are set one after the other.
func semaphore(name string, slots, sizes []uint8, change func(*config), rules ...rule) config {
	return with(name, func(c *config) {
		c.lists, c.slots, c.sizes = c.lists[:1], slots, sizes
		for len(c.lists) < len(slots) {
			c.lists = append(c.lists, three)
		}
		c.ttl, c.acquireTTL, c.drift, c.skew = 1, 1, 0, 0
		change(c)
	}, rules...)
}

// handedOver has blocks of two tokens.
func handedOver(name string, change func(*config), rules ...rule) config {
	return with(name, func(c *config) {
		c.tokens, c.block, c.ttl, c.acquireTTL, c.drift, c.skew, c.horizon = true, 1, 2, 2, 0, 1, 3
		change(c)
	}, rules...)
}

// downgraded has writers that become readers, and a reader.
func downgraded(name string, change func(*config), rules ...rule) config {
	return with(name, func(c *config) {
		c.downgrades, c.readers, c.renewals, c.ttl, c.acquireTTL, c.drift, c.skew = true, 1, 1, 2, 2, 0, 0
		change(c)
	}, rules...)
}

// read has a reader with a token.
func read(name string, change func(*config), rules ...rule) config {
	return with(name, func(c *config) {
		c.readers, c.tokens, c.ttl, c.acquireTTL, c.drift, c.skew = 1, true, 1, 1, 0, 0
		change(c)
	}, rules...)
}

// changed is a change of nodes by one node at a time, among three owners.
func changed(name string, change func(*config), rules ...rule) config {
	return with(name, func(c *config) {
		c.lists, c.moves, c.added = []uint8{three, four, exchanged}, 1, 3
		c.ttl, c.acquireTTL, c.drift, c.skew, c.late, c.horizon = 2, 2, 0, 0, true, 4
		if change != nil {
			change(c)
		}
	}, rules...)
}

// trial is one configuration of a model, with the rules that it shows to be needed.
type trial struct {
	name    string
	rules   []rule
	explore func(without rule) found
}

func trials() (all []trial) {
	for _, c := range configurations {
		all = append(all, trial{c.name, c.rules, func(r rule) found { return explore(&model{config: c, mutant: mutant{r}}) }})
	}
	for _, c := range latches {
		all = append(all, trial{c.name, c.rules, func(r rule) found { return explore(&latchModel{latchConfig: c, mutant: mutant{r}}) }})
	}
	for _, c := range waitTrials {
		all = append(all, trial{c.name, c.rules, func(r rule) found { return explore(&waitModel{waitConfig: c, mutant: mutant{r}}) }})
	}
	return all
}

func TestPromisesHold(t *testing.T) {
	for _, c := range trials() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := c.explore(complete)
			t.Logf("%s: %d states, %d idle ticks", c.name, f.states, f.slowest)
			require.Empty(t, f.broken, f)
			require.False(t, f.bounded, "there are more states than the bound")
			require.Greater(t, f.states, 10_000, "the configuration leaves hardly anything to chance")
		})
	}
}

// TestEveryRuleIsNeeded takes each rule out of the model. Then a promise must break.
func TestEveryRuleIsNeeded(t *testing.T) {
	needed := map[rule]bool{}
	for _, c := range trials() {
		for _, r := range c.rules {
			needed[r] = true
			t.Run(string(r), func(t *testing.T) {
				t.Parallel()
				f := c.explore(r)
				require.NotEmpty(t, f.broken, "no promise breaks within %d states", f.states)
				t.Logf("%v", f)
			})
		}
	}
	require.Len(t, needed, 50, "a rule of the model is in no configuration, or in two")
}

// TestListsThatDifferByTwoSteps shows why the list of nodes changes by one node at a time: two majorities of lists
// that differ by an exchanged node, or by two nodes, need not have a node in common.
func TestListsThatDifferByTwoSteps(t *testing.T) {
	for _, lists := range [][]uint8{{three, exchanged}, {one, three}} {
		f := explore(&model{config: with("two steps", func(c *config) { c.lists = lists })})
		require.Contains(t, f.broken, "exclusion")
	}
}

// TestAddedNodeExcludesAtOnce: a node that was never in use has forgotten nothing. It recovers because it cannot know that.
func TestAddedNodeExcludesAtOnce(t *testing.T) {
	f := explore(&model{config: changed("added", nil), mutant: mutant{newMemoryRecovers}})
	require.Empty(t, f.broken, f)
	require.False(t, f.bounded)
}

package workload

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// Tally counts how often each method and each option of the public API was used, by names such as "Lease.Extend" and
// "LockOptions.Fixed".
type Tally map[string]int

var (
	tallying sync.Mutex
	drawn    = Tally{}
)

// Called counts one call of a method.
func Called(method string) {
	tallying.Lock()
	defer tallying.Unlock()
	drawn[method]++
}

// Set counts the options that a use has set: the fields of a struct that are not zero.
func Set(options any) {
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			Called(v.Type().Name() + "." + f.Name)
		}
	}
}

// Drawn returns the counts of this process so far.
func Drawn() Tally {
	tallying.Lock()
	defer tallying.Unlock()
	return maps.Clone(drawn)
}

// types are the types whose methods and fields a workload must draw.
var types = []reflect.Type{
	reflect.TypeFor[*quorumlock.Client](), reflect.TypeFor[*quorumlock.Lock](), reflect.TypeFor[*quorumlock.Lease](), reflect.TypeFor[*quorumlock.RWLock](),
	reflect.TypeFor[*quorumlock.Semaphore](), reflect.TypeFor[*quorumlock.Latch](),
	reflect.TypeFor[*quorumlock.Joined](), reflect.TypeFor[*quorumlock.JointLease](),
	reflect.TypeFor[*election.Election](), reflect.TypeFor[*quorumlock.Once](), reflect.TypeFor[quorumlock.OnceOptions](),
	reflect.TypeFor[quorumlock.Config](), reflect.TypeFor[quorumlock.Handover](),
	reflect.TypeFor[quorumlock.LockOptions](), reflect.TypeFor[quorumlock.LatchOptions](),
}

// undrawn are the methods and fields that no workload needs to draw.
var undrawn = []string{
	// These tell what a lock or a lease is, and change nothing. The judges read most of them all the time.
	"Lock.Names", "Lease.Names", "Lease.Owner", "Lease.Token", "Lease.Slots", "Lease.Err", "Lease.Context", "Lease.Remaining",
	"Lease.ValidUntil", "Lease.Backing", "Semaphore.Name", "Latch.Name", "Config.Limits",
	// These make what is drawn, and every run begins and ends with these.
	"Client.RedLock", "Client.MultiLock", "Client.RWLock", "Client.Semaphore", "Client.Latch", "Client.Once", "Client.Striped",
	"Client.Config", "Client.Close",
	// Addresses are for servers: chaos has them, and sets what belongs to them.
	"Config.Addresses", "Config.AllowEviction", "Config.AllowUnseenLosses", "Config.ConnectTimeout",
	// Hooks and log lines observe.
	"Config.Logger", "Config.Hooks",
}

// Undrawn lists the methods and fields that have no count and should have one, sorted. A workload may have exceptions of its
// own. Undrawn also lists exceptions that do not exist any more, so that none outlives its reason.
func (t Tally) Undrawn(exceptions ...string) []string {
	missing := slices.Concat(undrawn, exceptions)
	for _, of := range types {
		for _, name := range exported(of) {
			if i := slices.Index(missing, name); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			} else if t[name] == 0 {
				missing = append(missing, name)
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// exported lists the methods of a type, and the fields of a struct.
func exported(of reflect.Type) (names []string) {
	name := of.Name()
	if of.Kind() == reflect.Pointer {
		name = of.Elem().Name()
	}
	for i := range of.NumMethod() {
		names = append(names, name+"."+of.Method(i).Name)
	}
	if of.Kind() == reflect.Struct {
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() {
				names = append(names, name+"."+f.Name)
			}
		}
	}
	return names
}

// Add adds other counts.
func (t Tally) Add(other Tally) {
	for name, n := range other {
		t[name] += n
	}
}

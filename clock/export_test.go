package clock

// SlicedAfterFunc lets the tests give the timers of [System] another clock.
var SlicedAfterFunc = slicedAfterFunc

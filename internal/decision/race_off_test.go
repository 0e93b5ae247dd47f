//go:build !race

package decision

const raced = false

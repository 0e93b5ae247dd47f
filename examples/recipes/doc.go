// Package recipes has common uses of locks: one leader, jobs that run once, migrations of a database. They
// are told in docs/recipes.md, and tested here.
package recipes

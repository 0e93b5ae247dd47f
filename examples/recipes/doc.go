// Package recipes has common uses of locks: one leader, jobs that run once, database migrations. docs/recipes.md
// explains them, and the tests run them.
package recipes

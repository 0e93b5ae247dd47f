// Package recipes has uses of locks to copy. docs/recipes.md explains them, and those of examples/service.
package recipes

// Package render makes a report of what was measured: results.json with all of it,
// results.md with tables, and index.html with tables and charts.
package render

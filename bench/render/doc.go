// Package render writes the report: results.json with all results, results.md with tables, and index.html with tables
// and charts.
package render

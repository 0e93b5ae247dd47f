package render

import (
	"bytes"
	_ "embed"
	"html/template"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	// The charts are generated here, and contain no external text.
	"svg": func(s string) template.HTML { return template.HTML(s) },
}).Parse(pageText))

// html returns the report as one self-contained page.
func (r *Report) html() ([]byte, error) {
	sections, err := r.sections(true)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{
		"Conditions": r.conditions(), "Goals": r.goals(), "Sections": sections, "Peers": r.peers(),
		"Quick": r.Quick, "Made": r.Made,
	})
	return b.Bytes(), err
}

package chaos

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumlock/quorumlock/faultinject/history"
)

// keep saves the evidence of violations beside the histories of the clients.
func keep(dir string, result *history.Result) error {
	evidence := filepath.Join(dir, "evidence")
	if err := os.MkdirAll(evidence, 0o755); err != nil {
		return fmt.Errorf("chaos: keeping the evidence: %w", err)
	}
	return result.Save(evidence)
}

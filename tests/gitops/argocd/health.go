package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// verdict is what a health script says of one object; Error where Argo CD would not take the answer.
type verdict struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

// newHealthCommand runs a health script on objects as the application controller does, in its sandbox, and prints a
// JSON list with a verdict for each.
func newHealthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lua-health SCRIPT OBJECT...",
		Short: "Run a health script on objects",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			script, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			verdicts := make([]verdict, 0, len(args)-1)
			for _, path := range args[1:] {
				object, err := read(path)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				verdicts = append(verdicts, judge(object, string(script)))
			}
			return json.NewEncoder(os.Stdout).Encode(verdicts)
		},
	}
}

func judge(object *unstructured.Unstructured, script string) verdict {
	vm := lua.VM{} // without UseOpenLibs: the sandbox that a script from argocd-cm gets
	health, err := vm.ExecuteHealthLua(object, script)
	if err != nil {
		return verdict{Error: err.Error()}
	}
	return verdict{Status: string(health.Status), Message: health.Message}
}

func read(path string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal(text, object)
}

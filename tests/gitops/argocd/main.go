// Command argocd is what the GitOps tests run of Argo CD: its application controller and repo server, the kustomize that
// the repo server calls, a Redis server for both, and the Lua of its health checks.
//
// Run it as "argocd COMPONENT [flags]", or through a link that carries the component's name.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
	kustomize "sigs.k8s.io/kustomize/kustomize/v5/commands"
)

// components maps each name to its command.
var components = map[string]func() *cobra.Command{
	"argocd-application-controller": controller.NewCommand,
	"argocd-repo-server":            reposerver.NewCommand,
	"kustomize":                     kustomize.NewDefaultCommand,
	"redis":                         newRedisCommand,
	"lua-health":                    newHealthCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := components[name]; !ok && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	command, ok := components[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: argocd {%s} [flags]\n", strings.Join(names(), "|"))
		os.Exit(2)
	}
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func names() []string {
	all := make([]string, 0, len(components))
	for name := range components {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

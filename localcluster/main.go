// Command localcluster is a whole Kubernetes control plane in one binary: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok (the kubelet's part: nodes become Ready, pods Running).
//
// Run it as "localcluster COMPONENT [flags]", or through a link that carries the component's name.
// "localcluster stages DIR" writes the kwok stage files that the binary embeds, so that a run needs no module cache.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// components maps each name to what runs it with os.Args already set to that component's own; each ends the process.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(manager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 func() { run(kubectl.NewDefaultKubectlCommand()) },
	"kwok":                    runKwok,
	"stages":                  stages,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := components[name]; !ok && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	start, ok := components[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: localcluster {%s} [flags]\n", strings.Join(names(), "|"))
		os.Exit(2)
	}
	holdLifeline()
	start()
}

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

func names() []string {
	all := make([]string, 0, len(components))
	for name := range components {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

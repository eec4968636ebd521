package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok reads kwok's global flags first: --config, which names the stages, is one of them and not the command's.
func runKwok() {
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}

	ctx, _ := log.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := config.InitFlags(ctx, global)
	if err == nil {
		command := kwok.NewCommand(ctx)
		command.Version = "" // the --version flag of Kubernetes' components is in this binary, too, and of another type
		command.PersistentFlags().AddFlagSet(global)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

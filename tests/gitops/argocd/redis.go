package main

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
)

// clockStep is how often the server's clock goes on: it stands still by itself, and nothing would ever expire.
const clockStep = time.Second

// newRedisCommand serves Redis from memory until it is ended.
func newRedisCommand() *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "redis",
		Short: "Serve Redis from memory",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			server := miniredis.NewMiniRedis()
			if err := server.StartAddr(address); err != nil {
				return err
			}
			fmt.Println("serving Redis on", server.Addr())
			for range time.Tick(clockStep) {
				server.FastForward(clockStep)
			}
			return nil
		},
	}
	command.Flags().StringVar(&address, "address", "127.0.0.1:0", "where to listen")
	return command
}

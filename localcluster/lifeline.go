package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// lifelineVariable names the environment variable that holds the number of an inherited pipe's read end.
const lifelineVariable = "LOCALCLUSTER_LIFELINE"

// lifelineGrace is how long a component may take over its own shutdown once the lifeline has broken.
const lifelineGrace = 5 * time.Second

// holdLifeline ends this process when whoever started it is gone, however that ended: the kernel closes the pipe's
// write end even on SIGKILL, so no component outlives its owner.
func holdLifeline() {
	value, ok := os.LookupEnv(lifelineVariable)
	if !ok {
		return
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		fmt.Fprintf(os.Stderr, "%s=%q is not the number of an inherited descriptor\n", lifelineVariable, value)
		os.Exit(2)
	}
	os.Unsetenv(lifelineVariable)
	syscall.CloseOnExec(fd)
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(lifelineGrace)
		os.Exit(1)
	}()
}

package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"

	node "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// kubeletStages are the life cycles that kwok plays: what a kubelet would report of its node and of the pods on it.
var kubeletStages = map[string]string{
	"node-initialize.yaml":           node.DefaultNodeInit,
	"node-heartbeat-with-lease.yaml": heartbeat.DefaultNodeHeartbeatWithLease,
	"pod-ready.yaml":                 pod.DefaultPodReady,
	"pod-complete.yaml":              pod.DefaultPodComplete,
	"pod-delete.yaml":                pod.DefaultPodDelete,
}

// volumeStages play the storage provisioner konverge.dev/local, so that a PersistentVolumeClaim gets a volume.
//
//go:embed stages/*.yaml
var volumeStages embed.FS

// stages writes the stage files into the directory named by the only argument.
func stages() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: localcluster stages DIR")
		os.Exit(2)
	}
	if err := writeStages(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeStages(directory string) error {
	files := map[string][]byte{}
	for name, text := range kubeletStages {
		files[name] = []byte(text)
	}
	entries, err := volumeStages.ReadDir("stages")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if files[entry.Name()], err = volumeStages.ReadFile("stages/" + entry.Name()); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(directory, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
